package app

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"testing"
	"time"

	"github.com/hookonce/hookonce/internal/test/eventually"
)

// idleServer is a public server with room for few idle connections. It answers /slow when release is closed.
type idleServer struct {
	*testing.T
	*listener

	idle    *idleConns
	release chan struct{}
}

func newIdleServer(t *testing.T, most int, config *tls.Config) *idleServer {
	s := &idleServer{T: t, idle: &idleConns{most: most}, release: make(chan struct{})}
	server := publicServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			<-s.release
		}
	}))
	l, err := listen(t.Context(), "listen", "127.0.0.1:0", server, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if server.IdleTimeout <= 600*time.Second || server.ConnState == nil {
		t.Fatalf("an idle connection is closed after %v, before a balancer of Google's closes it", server.IdleTimeout)
	}
	s.listener, server.ConnState, server.TLSConfig = l, s.idle.track, config
	served := make(chan error, 1)
	go func() { served <- l.serve() }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), eventually.Bound)
		defer cancel()
		if err := l.shutdown(ctx); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *idleServer) dial() net.Conn {
	conn, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(eventually.Bound)); err != nil {
		s.Fatal(err)
	}
	return conn
}

func (s *idleServer) send(conn net.Conn, path, more string) {
	if _, err := fmt.Fprintf(conn, "GET %s\r\nHost: h\r\n%s\r\n", path, more); err != nil {
		s.Fatal(err)
	}
}

func (s *idleServer) answered(conn net.Conn) {
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		s.Fatal(err)
	}
	_ = resp.Body.Close()
}

// ask sends a request, and reads the answer.
func (s *idleServer) ask(conn net.Conn) {
	s.send(conn, "/ HTTP/1.1", "")
	s.answered(conn)
}

func (s *idleServer) waiting(n int) {
	s.Helper()
	eventually.True(s.T, fmt.Sprintf("%d connections are idle", n), func() bool {
		s.idle.mu.Lock()
		defer s.idle.mu.Unlock()
		return s.idle.order.Len() == n && len(s.idle.at) == n
	})
}

func (s *idleServer) closed(conn net.Conn) {
	s.Helper()
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		s.Errorf("the connection is not closed: %v", err)
	}
}

// TestIdleConnections keeps more connections open than the server has room for: those that have been idle
// for longest are closed, and none with a request.
func TestIdleConnections(t *testing.T) {
	t.Parallel()
	s := newIdleServer(t, 3, nil)
	busy := s.dial()
	s.send(busy, "/slow HTTP/1.1", "")
	var conns []net.Conn
	for n := range 3 {
		conns = append(conns, s.dial())
		s.ask(conns[n])
		s.waiting(n + 1)
	}
	s.ask(conns[0]) // now the second has been idle for longest
	s.waiting(3)
	fourth := s.dial()
	s.ask(fourth)
	s.closed(conns[1])
	_ = conns[2].Close() // leaves room
	s.waiting(2)
	close(s.release)
	s.answered(busy)
	s.waiting(3)
	for _, conn := range []net.Conn{busy, conns[0], fourth} {
		s.ask(conn)
	}
}

// TestNeverIdle has connections that never wait for a next request: they take no room, and the one that waits
// stays.
func TestNeverIdle(t *testing.T) {
	t.Parallel()
	s := newIdleServer(t, 1, nil)
	waits := s.dial()
	s.ask(waits)
	s.waiting(1)
	unused, half, slow := s.dial(), s.dial(), s.dial()
	if _, err := io.WriteString(half, "GET / HT"); err != nil {
		t.Fatal(err)
	}
	s.send(slow, "/slow HTTP/1.1", "Connection: close\r\n")
	for _, kind := range [][2]string{{"/ HTTP/1.1", "Connection: close\r\n"}, {"/ HTTP/1.0", ""}, {"/ HTTP/1.1", "Connection: keep-alive, Close\r\n"}, {"/ HTTP/9", ""}} {
		conn := s.dial()
		s.send(conn, kind[0], kind[1])
		s.answered(conn)
	}
	s.ask(waits)
	s.waiting(1)
	close(s.release)
	s.answered(slow)
	s.ask(waits)
	_ = unused.Close()
	if _, err := io.WriteString(half, "TP/1.1\r\nHost: h\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	s.answered(half) // and waits from now on
	s.closed(waits)
	s.waiting(1)
}

// TestRequestMeetsTheClosing sends a request just when its connection is closed. The sender gets a whole answer, or no
// byte, so that a balancer may send it again.
func TestRequestMeetsTheClosing(t *testing.T) {
	t.Parallel()
	s := newIdleServer(t, 1, nil)
	for range 100 {
		first, second := s.dial(), s.dial()
		s.ask(first)
		s.send(second, "/ HTTP/1.1", "") // closes the first
		_, _ = io.WriteString(first, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
		in := bufio.NewReader(first)
		if _, err := in.Peek(1); err == nil {
			resp, err := http.ReadResponse(in, nil)
			if err != nil || resp.StatusCode != http.StatusOK {
				t.Fatalf("the answer is cut off, or another one: %v, %v", resp, err)
			}
			_ = resp.Body.Close()
		}
		_, _ = first.Close(), second.Close()
		s.waiting(0)
	}
}

// TestIdleHTTP2 is TestIdleConnections for connections of HTTP/2, which wait while no stream is open.
func TestIdleHTTP2(t *testing.T) {
	t.Parallel()
	made := httptest.NewTLSServer(nil)
	t.Cleanup(made.Close)
	s := newIdleServer(t, 2, &tls.Config{Certificates: made.TLS.Certificates})
	ask := func(c *http.Client, path string) (reused bool) {
		trace := &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) { reused = got.Reused }}
		req, err := http.NewRequestWithContext(httptrace.WithClientTrace(eventually.Context(t), trace), http.MethodGet, "https://"+s.Addr().String()+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.Do(req)
		if err != nil {
			t.Error(err)
			return false
		}
		_ = resp.Body.Close()
		if resp.ProtoMajor != 2 {
			t.Errorf("the answer is of %s", resp.Proto)
		}
		return reused
	}
	var clients [4]*http.Client
	for i := range clients {
		transport := made.Client().Transport.(*http.Transport).Clone()
		transport.ForceAttemptHTTP2 = true
		t.Cleanup(transport.CloseIdleConnections)
		clients[i] = &http.Client{Transport: transport}
	}
	ask(clients[3], "/")
	s.waiting(1)
	slow := make(chan bool)
	go func() { slow <- ask(clients[3], "/slow") }()
	s.waiting(0)
	for n, c := range clients[:3] {
		ask(c, "/")
		s.waiting(min(n+1, 2))
	}
	if ask(clients[3], "/"); !ask(clients[1], "/") || !ask(clients[2], "/") || ask(clients[0], "/") {
		t.Error("another connection was closed than the one that waited for longest")
	}
	close(s.release)
	if !<-slow {
		t.Error("the busy connection was closed")
	}
}
