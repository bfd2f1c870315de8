package inbox_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/rig"
)

// A destination that answers more than it was asked is logged by name and observed, once. With
// FreshConnections it is never asked to keep a connection.
func TestConnectionsOfADestination(t *testing.T) {
	t.Parallel()
	var keptOpen, fresh atomic.Int64 // requests without Connection: close
	url := func(keeps *atomic.Int64) string {
		return serveConnections(t, func(conn net.Conn, req *http.Request) {
			extra := ""
			if !req.Close {
				keeps.Add(1)
				extra = "HTTP/1.1 200 OK\r\n"
			}
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"+extra)
		})
	}
	store, log, seen := rig.OpenSQLite(t), &rig.Log{}, &observed{}
	in := newEngine(t, store, func(c *hookonce.Config) {
		sendTo(c, url(&keptOpen), hookonce.Retry{})
		c.Destinations = append(c.Destinations, hookonce.Destination{Name: "fresh", URL: url(&fresh), AllowPrivate: true, FreshConnections: true})
		c.Routes = append(c.Routes, hookonce.Route{Name: "fresh", To: "fresh"})
		c.Logger, c.Observer = log.Logger(), seen.observer()
	})
	run(t, in)
	for _, id := range []string{"1", "2", "3"} {
		deliver(in, delivery(id, "{}"))
		settled(t, store, id, driver.StateDone)
	}
	log.WantOne(t, `the destination broke the rules for kept connections; for an hour each attempt has a connection of its own" destination=app reason="it sent bytes that answer no request"`)
	barred := take(seen, &seen.barred, func(*string) {})
	if want := []string{"app"}; !slices.Equal(barred, want) {
		t.Errorf("observed %v, want %v", barred, want)
	}
	if keptOpen.Load() != 1 || fresh.Load() != 0 {
		t.Errorf("%d and %d requests without Connection: close, want only the first one to app", keptOpen.Load(), fresh.Load())
	}
}

// serveConnections starts a server that calls answer with the first request of each connection, and
// then closes it. It returns the URL.
func serveConnections(t *testing.T, answer func(net.Conn, *http.Request)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				req, err := http.ReadRequest(bufio.NewReader(conn))
				if err != nil {
					return
				}
				if _, err := io.Copy(io.Discard, req.Body); err == nil {
					answer(conn, req)
				}
			}()
		}
	}()
	return "http://" + l.Addr().String()
}
