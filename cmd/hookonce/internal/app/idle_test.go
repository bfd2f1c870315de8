package app

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/hookonce/hookonce/internal/test/eventually"
)

// TestIdleConnections keeps more connections open than the server has room for: those that have been idle
// for longest are closed, and none with a request.
func TestIdleConnections(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	server := publicServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			<-release
		}
	}))
	l, err := listen(t.Context(), "listen", "127.0.0.1:0", server, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if server.IdleTimeout <= 600*time.Second || server.ConnState == nil {
		t.Fatalf("an idle connection is closed after %v, before a balancer of Google's closes it", server.IdleTimeout)
	}
	idle := &idleConns{most: 3}
	server.ConnState = idle.track
	served := make(chan error, 1)
	go func() { served <- l.serve() }()

	dial := func() net.Conn {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if err := conn.SetDeadline(time.Now().Add(eventually.Bound)); err != nil {
			t.Fatal(err)
		}
		return conn
	}
	send := func(conn net.Conn, path string) {
		if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: h\r\n\r\n", path); err != nil {
			t.Fatal(err)
		}
	}
	answered := func(conn net.Conn) {
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
	}
	waiting := func(n int) {
		eventually.True(t, fmt.Sprintf("%d connections are idle", n), func() bool {
			idle.mu.Lock()
			defer idle.mu.Unlock()
			return idle.order.Len() == n && len(idle.at) == n
		})
	}
	closed := func(conn net.Conn) {
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("the connection is not closed: %v", err)
		}
	}

	busy := dial()
	send(busy, "/slow")
	var conns []net.Conn
	for n := range 3 {
		conns = append(conns, dial())
		send(conns[n], "/")
		answered(conns[n])
		waiting(n + 1)
	}
	send(conns[0], "/") // now the second has been idle for longest
	answered(conns[0])
	waiting(3)
	fourth := dial()
	send(fourth, "/")
	answered(fourth)
	closed(conns[1])
	_ = conns[2].Close() // leaves room
	waiting(2)
	close(release)
	answered(busy)
	waiting(3)
	for _, conn := range []net.Conn{busy, conns[0], fourth} {
		send(conn, "/")
		answered(conn)
	}
	if err := l.shutdown(eventually.Context(t)); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}
