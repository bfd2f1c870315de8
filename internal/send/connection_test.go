package send

import (
	"context"
	"crypto/x509"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
)

func startHTTP2(s *httptest.Server) {
	s.EnableHTTP2 = true
	s.StartTLS()
}

// senderFor returns a Sender that trusts the server.
func senderFor(t *testing.T, server *httptest.Server) *Sender {
	t.Helper()
	roots := x509.NewCertPool()
	if server.Certificate() != nil {
		roots.AddCert(server.Certificate())
	}
	s := New(&Options{RootCAs: roots})
	t.Cleanup(s.CloseIdle)
	return s
}

// countingServer starts a server that counts its connections.
func countingServer(t *testing.T, start func(*httptest.Server)) (*httptest.Server, *atomic.Int64) {
	t.Helper()
	var connections atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("taken"))
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	start(s)
	t.Cleanup(s.Close)
	return s, &connections
}

func TestConnections(t *testing.T) {
	t.Parallel()
	const sends = 5
	tests := map[string]struct {
		start func(*httptest.Server)
		fresh bool
		want  int64
	}{
		"HTTP/1, at first":       {(*httptest.Server).Start, false, sends}, // the trial
		"HTTP/1, fresh":          {(*httptest.Server).Start, true, sends},
		"HTTP/1 over TLS, fresh": {(*httptest.Server).StartTLS, true, sends},
		"HTTP/2":                 {startHTTP2, false, 1},
		"HTTP/2, fresh":          {startHTTP2, true, sends},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, connections := countingServer(t, tt.start)
			s := senderFor(t, server)
			target := to(server.URL)
			target.Fresh = tt.fresh
			for range sends {
				if res := s.Send(context.Background(), target, message()); res.Err != nil {
					t.Fatal(res.Err)
				}
			}
			if got := connections.Load(); got != tt.want {
				t.Errorf("%d sends took %d connections, want %d", sends, got, tt.want)
			}
		})
	}
}

// TestSecondAnswerIsIgnored: bytes that a destination sends after its answer are never taken for
// the answer to another request.
func TestSecondAnswerIsIgnored(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				buf := make([]byte, 64<<10)
				for {
					if _, err := conn.Read(buf); err != nil {
						return
					}
					const twice = "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
					if _, err := conn.Write([]byte(twice)); err != nil {
						return
					}
				}
			}()
		}
	}()
	s := newSender(t)
	done := make(chan int)
	for range 8 {
		go func() {
			taken := 0
			for range 200 {
				if res := s.Send(context.Background(), to("http://"+listener.Addr().String()), message()); res.Err == nil {
					taken++
				}
			}
			done <- taken
		}()
	}
	for range 8 {
		if taken := <-done; taken != 0 {
			t.Errorf("%d refused messages count as sent", taken)
		}
	}
}
