package relay_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/hookonce/hookonce/internal/relay"
	"github.com/hookonce/hookonce/internal/send"
	"github.com/hookonce/hookonce/internal/test/rig"
)

// twiceAnswering is a destination that answers the first request on a reused connection twice.
type twiceAnswering struct {
	mu    sync.Mutex
	id    string // of that request
	after int    // requests with the same id after it, each on a connection that closes
}

func (d *twiceAnswering) serve(conn net.Conn) {
	defer conn.Close()
	br := bufio.NewReader(conn)
	for n := 1; ; n++ {
		req, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return
		}
		const ok = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
		times := 1
		d.mu.Lock()
		switch id := req.Header.Get("Webhook-Id"); {
		case d.id == "" && n > 1:
			d.id, times = id, 2
		case d.id == id && req.Close:
			d.after++
		}
		d.mu.Unlock()
		if _, err := io.WriteString(conn, strings.Repeat(ok, times)); err != nil || req.Close {
			return
		}
	}
}

// TestDoubtfulSuccessIsSentAgain: a destination answers twice on a connection that was used before.
// That success does not count, and the message is sent again on a connection of its own.
func TestDoubtfulSuccessIsSentAgain(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	var d twiceAnswering
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go d.serve(conn)
		}
	}()
	barred := make(chan string, 1)
	store := rig.OpenSQLite(t)
	g := newGroup(store, func(o *relay.Options) {
		o.HTTP = send.New(&send.Options{Barred: func(name, _ string) { barred <- name }})
		t.Cleanup(o.HTTP.CloseIdle)
	}, destination(nil, func(d *relay.Destination) {
		byHTTP("http://" + l.Addr().String())(d)
		d.HTTP.Name = d.Name
	}))
	stop := run(t, g)
	sent := 0
	for len(barred) == 0 {
		claim(t, store, fmt.Sprint(sent), "{}")
		g.Wake("app")
		settled(t, store, fmt.Sprint(sent), "sent")
		sent++
	}
	stop()
	if name := <-barred; name != "app" {
		t.Errorf("barred %q, want app", name)
	}
	doubted := 0
	for i := range sent {
		ev := eventOf(t, store, fmt.Sprint(i))
		if ev.Messages[0].ID != d.id {
			continue
		}
		doubted++
		if got, want := triesOf(ev), "1 retry 200: "+send.ErrDoubt.Error()+"; 2 sent 200"; got != want {
			t.Errorf("attempts %q, want %q", got, want)
		}
	}
	if doubted != 1 || d.after != 1 {
		t.Errorf("%d messages in doubt, sent again %d times; want one, once", doubted, d.after)
	}
}
