package send

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// trusting returns options that trust the server.
func trusting(server *httptest.Server) *Options {
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	return &Options{RootCAs: roots}
}

func TestKeptTLS(t *testing.T) {
	t.Parallel()
	server, connections := countingServer(t, (*httptest.Server).StartTLS)
	s, barred := keeping(t, eager, trusting(server))
	for range 10 {
		if got := s.Send(t.Context(), to(server.URL), message()); got.Err != nil {
			t.Fatal(got.Err)
		}
	}
	// The first one tells which protocol the destination speaks.
	if n := connections.Load(); n != 2 || barred.Load() != 0 {
		t.Errorf("%d connections, want 2; barred %d times", n, barred.Load())
	}
}

// A destination that speaks HTTP/1 closes the connections that are not kept, over TLS too, so that no port stays in use here.
func TestUnkeptTLS(t *testing.T) {
	t.Parallel()
	announced := make(chan bool, 3)
	server := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // a connection that is closed before its request is read is reset
		announced <- r.Close
	}))
	t.Cleanup(server.Close)
	s, _ := keeping(t, eager, trusting(server))
	for _, msg := range []*Message{{ID: "learns"}, {ID: "later", Fresh: true}, {ID: "large", Body: make([]byte, maxKeptBody+1)}} {
		if got := s.Send(t.Context(), to(server.URL), msg); got.Err != nil {
			t.Fatal(got.Err)
		}
	}
	if diff := cmp.Diff([]bool{false, true, true}, []bool{<-announced, <-announced, <-announced}); diff != "" {
		t.Errorf("Connection: close (-want +got):\n%s", diff)
	}
}

// Over TLS a second answer may wait in the socket, in TLS or in the buffer.
func TestSecondAnswerOverTLS(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(net.Conn){
		"in the same record":  func(c net.Conn) { io.WriteString(c, ok200+ok200) },
		"in the next record":  func(c net.Conn) { io.WriteString(c, ok200); io.WriteString(c, ok200) },
		"beyond the buffer":   func(c net.Conn) { io.WriteString(c, ok200+strings.Repeat("x", 3*answerBuffer)) },
		"one byte, by itself": func(c net.Conn) { io.WriteString(c, ok200); io.WriteString(c, "x") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Webhook-Id") == "first" {
					return
				}
				conn, _, err := w.(http.Hijacker).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close()
				write(conn)
				untilLeft(conn)
			}))
			server.StartTLS()
			t.Cleanup(server.Close)
			s, barred := keeping(t, eager, trusting(server))
			msg := message()
			msg.ID = "first" // tells that the destination speaks HTTP/1
			if got := s.Send(t.Context(), to(server.URL), msg); got.Err != nil {
				t.Fatal(got.Err)
			}
			if got := s.Send(t.Context(), to(server.URL), message()); got.Err != nil {
				t.Fatal(got.Err)
			}
			for barred.Load() == 0 { // it may come a little later
				if c := onlyPool(t, s).take(); c != nil {
					c.rested = time.Now()
					onlyPool(t, s).keep(c)
				}
			}
		})
	}
}

// A TLS 1.3 server sends session tickets after the handshake. They are no answer.
func TestTicketsAreNoAnswer(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.TLS = &tls.Config{ClientAuth: tls.RequestClientCert} // then the tickets follow the handshake
	server.StartTLS()
	t.Cleanup(server.Close)
	s := New(trusting(server))
	s.private.dialer.tls.ClientSessionCache = tls.NewLRUClientSessionCache(1) // otherwise this server sends none
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.private.dialer.open(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	defer c.drop()
	for peek(c.raw) == quiet { // until the tickets are here
		runtime.Gosched()
	}
	if got := c.look(); got != quiet {
		t.Errorf("tickets waiting: state %d", got)
	}
	if got := peek(c.raw); got != quiet {
		t.Errorf("after the tickets: state %d", got)
	}
}

func TestRecords(t *testing.T) {
	t.Parallel()
	stream := "\x17\x03\x03\x00\x03abc" + "\x17\x03\x03\x00\x00" + "\x16\x03\x03\x01\x00" + strings.Repeat("x", 256)
	ends := map[int]bool{0: true, 8: true, 13: true, 13 + 5 + 256: true}
	for size := 1; size <= len(stream); size++ {
		client, server := net.Pipe()
		go func() {
			for rest := stream; rest != ""; {
				n, err := server.Write([]byte(rest[:min(size, len(rest))]))
				if err != nil {
					return
				}
				rest = rest[n:]
			}
			server.Close()
		}()
		r := &records{Conn: client}
		buf := make([]byte, len(stream))
		for at := 0; ; {
			n, err := r.Read(buf)
			if at += n; r.whole() != ends[at] {
				t.Fatalf("parts of %d bytes: at %d whole is %v", size, at, r.whole())
			}
			if err != nil {
				break
			}
		}
		client.Close()
	}
}
