package inbox_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/rig"
)

// TestConnectionsOfADestination: a destination that answers more than it was asked is logged by name
// and observed, once. With FreshConnections it is never asked to keep a connection.
func TestConnectionsOfADestination(t *testing.T) {
	t.Parallel()
	const warning = "the destination broke the rules for kept connections"
	for name, fresh := range map[string]bool{"kept": false, "fresh": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var keeps atomic.Int64
			url := serveConnections(t, func(conn net.Conn, req *http.Request) {
				extra := ""
				if !req.Close {
					keeps.Add(1)
					extra = "HTTP/1.1 200 OK\r\n"
				}
				io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"+extra)
			})
			store, log, seen := rig.OpenSQLite(t), &rig.Log{}, &observed{}
			in := newEngine(t, store, func(c *hookonce.Config) {
				c.Destinations = []hookonce.Destination{{Name: "app", URL: url, AllowPrivate: true, FreshConnections: fresh}}
				c.Routes = []hookonce.Route{{Name: "all", To: "app"}}
				c.Logger, c.Observer = log.Logger(), seen.observer()
			})
			run(t, in)
			for _, id := range []string{"1", "2", "3"} {
				deliver(in, delivery(id, "{}"))
				settled(t, store, id, driver.StateDone)
			}
			barred := take(seen, &seen.barred, func(*hookonce.BarredObserved) {})
			if fresh {
				if keeps.Load() != 0 || len(barred) > 0 || strings.Contains(log.Text(), warning) {
					t.Errorf("%d requests without Connection: close; observed %v; log:\n%s", keeps.Load(), barred, log.Text())
				}
				return
			}
			log.WantOne(t, warning)
			log.WantOne(t, `connection of its own" destination=app reason="it sent bytes that answer no request"`)
			if want := []hookonce.BarredObserved{{Destination: "app"}}; !slices.Equal(barred, want) {
				t.Errorf("observed %v, want %v", barred, want)
			}
			if keeps.Load() != 1 {
				t.Errorf("%d requests without Connection: close, want only the first", keeps.Load())
			}
		})
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
