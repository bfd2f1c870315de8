package app

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// armedConn counts how often its deadlines are set.
type armedConn struct {
	net.Conn
	reads, writes atomic.Int64
}

func (c *armedConn) SetReadDeadline(t time.Time) error {
	c.reads.Add(1)
	return c.Conn.SetReadDeadline(t)
}

func (c *armedConn) SetWriteDeadline(t time.Time) error {
	c.writes.Add(1)
	return c.Conn.SetWriteDeadline(t)
}

func (c *armedConn) CloseWrite() error {
	return c.Conn.(interface{ CloseWrite() error }).CloseWrite()
}

// pipe returns both ends of a connection, the first one lean.
func pipe(t *testing.T) (*leanConn, *armedConn, net.Conn) {
	t.Helper()
	near, far := net.Pipe()
	t.Cleanup(func() { near.Close(); far.Close() })
	armed := &armedConn{Conn: near}
	return &leanConn{Conn: armed}, armed, far
}

// TestLeanDeadlinesPassInTime lets calls block until the deadline of each sequence passes, on a fake
// clock.
func TestLeanDeadlinesPassInTime(t *testing.T) {
	t.Parallel()
	const never = time.Duration(-1) // no deadline
	for name, tt := range map[string]struct {
		set           []time.Duration // from now; the last one holds
		while         []time.Duration // the same, set while the call blocks
		passes, armed int
	}{
		"one":                       {set: []time.Duration{3}, passes: 3, armed: 1},
		"put off":                   {set: []time.Duration{3, 7}, passes: 7, armed: 2},
		"put off often":             {set: []time.Duration{3, 4, never, 5, never, 6}, passes: 6, armed: 2},
		"earlier":                   {set: []time.Duration{7, 3}, passes: 3, armed: 2},
		"removed and set":           {set: []time.Duration{3, never, 2}, passes: 2, armed: 2},
		"past":                      {set: []time.Duration{9, 0}, passes: 0, armed: 2},
		"past, then put off":        {set: []time.Duration{0, never, 5}, passes: 5, armed: 2},
		"earlier while it blocks":   {set: []time.Duration{9}, while: []time.Duration{2}, passes: 2, armed: 2},
		"put off while it blocks":   {set: []time.Duration{3}, while: []time.Duration{8}, passes: 8, armed: 2},
		"ended while it blocks":     {set: []time.Duration{9}, while: []time.Duration{0}, passes: 0, armed: 2},
		"set first while it blocks": {while: []time.Duration{4}, passes: 4, armed: 1},
	} {
		for direction, call := range map[string]struct {
			set   func(*leanConn, time.Time) error
			block func(*leanConn) error
			armed func(*armedConn) int64
		}{
			"read": {
				(*leanConn).SetReadDeadline,
				func(c *leanConn) error { _, err := c.Read(make([]byte, 8)); return err },
				func(c *armedConn) int64 { return c.reads.Load() },
			},
			"write": {
				(*leanConn).SetWriteDeadline,
				func(c *leanConn) error { _, err := c.Write(make([]byte, 8)); return err },
				func(c *armedConn) int64 { return c.writes.Load() },
			},
		} {
			t.Run(direction+" "+name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					conn, armed, _ := pipe(t)
					began := time.Now()
					set := func(all []time.Duration) {
						for _, after := range all {
							var at time.Time
							if after != never {
								at = began.Add(after * time.Second)
							}
							if err := call.set(conn, at); err != nil {
								t.Error(err)
							}
						}
					}
					set(tt.set)
					failed := make(chan error)
					go func() { failed <- call.block(conn) }()
					if tt.while != nil {
						synctest.Wait()
						set(tt.while)
					}
					if err := <-failed; !errors.Is(err, os.ErrDeadlineExceeded) {
						t.Errorf("failed with %v", err)
					}
					got := []int{int(time.Since(began) / time.Second), int(call.armed(armed))}
					if diff := cmp.Diff([]int{tt.passes, tt.armed}, got); diff != "" {
						t.Errorf("seconds until it passed, deadlines of the connection (-want +got):\n%s", diff)
					}
				})
			})
		}
	}
}

// TestLeanCallsGoOn lets the connection's deadline pass in the middle of a read and of a write whose own
// deadlines are later or removed: every byte arrives, once.
func TestLeanCallsGoOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		conn, _, far := pipe(t)
		soon := time.Now().Add(time.Second)
		for _, at := range []time.Time{soon, {}} {
			if err := conn.SetDeadline(at); err != nil {
				t.Fatal(err)
			}
		}
		go func() {
			time.Sleep(time.Minute)
			_, _ = far.Write([]byte("late"))
		}()
		buf := make([]byte, 8)
		if n, err := conn.Read(buf); err != nil || string(buf[:n]) != "late" {
			t.Errorf("read %q, %v", buf[:n], err)
		}
		if err := errors.Join(conn.SetWriteDeadline(time.Now().Add(time.Second)), conn.SetWriteDeadline(time.Now().Add(time.Hour))); err != nil {
			t.Fatal(err)
		}
		sent := strings.Repeat("answer", 5)
		read := make(chan string)
		go func() {
			var all []byte
			for len(all) < len(sent) {
				time.Sleep(700 * time.Millisecond)
				n, _ := far.Read(buf)
				all = append(all, buf[:n]...)
			}
			read <- string(all)
		}()
		if n, err := conn.Write([]byte(sent)); n != len(sent) || err != nil {
			t.Errorf("wrote %d, %v", n, err)
		}
		if got := <-read; got != sent {
			t.Errorf("read %q", got)
		}
	})
}

// armedListener gives one connection, which counts its deadlines.
type armedListener struct {
	net.Listener
	conn *armedConn
}

func (l *armedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.conn = &armedConn{Conn: conn}
	return l.conn, nil
}

// leanServer serves handler on loopback as the public listener does.
func leanServer(t *testing.T, server *http.Server) (string, *armedListener) {
	t.Helper()
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	armed := &armedListener{Listener: ln}
	l := &listener{armed, server}
	l.lean()
	served := make(chan error, 1)
	go func() { served <- l.serve() }()
	t.Cleanup(func() {
		l.cut()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return ln.Addr().String(), armed
}

func readAndAnswer(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(time.Hour))
	_, _ = io.Copy(io.Discard, r.Body)
	_ = control.SetReadDeadline(time.Time{})
	_ = control.SetWriteDeadline(time.Now().Add(time.Hour))
	_, _ = io.WriteString(w, "ok")
}

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// TestRequestsShareTheirDeadlines counts the deadlines of the connection over many requests.
func TestRequestsShareTheirDeadlines(t *testing.T) {
	t.Parallel()
	const requests = 200
	address, armed := leanServer(t, &http.Server{
		Handler: http.HandlerFunc(readAndAnswer), ReadHeaderTimeout: time.Hour, IdleTimeout: 2 * time.Hour, WriteTimeout: 3 * time.Hour,
	})
	conn := dial(t, address)
	answers := bufio.NewReader(conn)
	for range requests {
		if _, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	// A few more are set when the answer overtakes the goroutine that waits for the client to hang up.
	if reads, writes := armed.conn.reads.Load(), armed.conn.writes.Load(); reads > requests*4 || writes > 5 {
		t.Errorf("%d requests set %d deadlines for reading and %d for writing", requests, reads, writes)
	}
}

// TestSlowClientsAreCutOff lets clients stop in each phase of a request.
func TestSlowClientsAreCutOff(t *testing.T) {
	t.Parallel()
	const short = 50 * time.Millisecond
	large := strings.Repeat("x", 16<<20) // more than the sockets hold
	for name, tt := range map[string]struct {
		server  *http.Server
		handler http.HandlerFunc
		request string
		answers int
	}{
		"in the header": {
			server: &http.Server{ReadHeaderTimeout: short}, handler: readAndAnswer, request: "POST / HTTP/1.1\r\nHost: x\r\n",
		},
		"between two requests": {
			server: &http.Server{ReadHeaderTimeout: short, IdleTimeout: 2 * short}, handler: readAndAnswer,
			request: "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}", answers: 1,
		},
		"in the body": {
			server: &http.Server{ReadHeaderTimeout: short},
			handler: func(w http.ResponseWriter, r *http.Request) {
				_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(2 * short))
				if _, err := io.ReadAll(r.Body); !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("the body ended with %v", err)
				}
				w.Header().Set("Connection", "close")
				w.WriteHeader(http.StatusRequestTimeout)
			},
			request: "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{", answers: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.server.Handler = tt.handler
			address, _ := leanServer(t, tt.server)
			conn := dial(t, address)
			if _, err := io.WriteString(conn, tt.request); err != nil {
				t.Fatal(err)
			}
			all, err := io.ReadAll(conn) // until the server closes
			if got := strings.Count(string(all), "HTTP/1.1 "); err != nil || got != tt.answers {
				t.Errorf("%d answers, error %v: %q", got, err, all)
			}
		})
	}
	t.Run("in the answer", func(t *testing.T) {
		t.Parallel()
		failed := make(chan error, 1)
		address, _ := leanServer(t, &http.Server{WriteTimeout: time.Hour, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(short))
			_, err := io.WriteString(w, large)
			failed <- err
		})})
		conn := dial(t, address)
		if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if err := <-failed; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("writing ended with %v", err)
		}
	})
}

// TestRefusalReachesTheSender answers without reading the body, then closes: net/http must be able to
// end its answer before the connection.
func TestRefusalReachesTheSender(t *testing.T) {
	t.Parallel()
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	if err := (&leanConn{Conn: near}).CloseWrite(); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a pipe: %v", err)
	}
	address, _ := leanServer(t, &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusRequestEntityTooLarge)
	})})
	conn := dial(t, address)
	if _, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3000000\r\n\r\n"+strings.Repeat("x", 4096)); err != nil {
		t.Fatal(err)
	}
	answers := bufio.NewReader(conn)
	resp, err := http.ReadResponse(answers, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("answered %d", resp.StatusCode)
	}
	if _, err := answers.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("the answer ended with %v, want EOF", err)
	}
}

// The wait of net/http for a hang-up ends at once, by a read of nothing. It asks again when it needs the byte.
func TestLeanReadOfOneByte(t *testing.T) {
	t.Parallel()
	client, server := net.Pipe()
	t.Cleanup(func() { _ = client.Close() })
	conn := &leanConn{Conn: server}
	go func() { _, _ = client.Write([]byte("abcdef")) }()
	for i, want := range []string{"", "a", "", "b", "cd", "", "e", "f"} {
		p := make([]byte, max(1, len(want)))
		if i == 7 { // after a larger read, one byte is skipped again; a read of two is not
			p = make([]byte, 2)
		}
		n, err := conn.Read(p)
		if err != nil || string(p[:n]) != want {
			t.Errorf("read %d: %q, %v, want %q", i, p[:n], err, want)
		}
	}
}
