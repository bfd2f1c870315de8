package send

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// The first connections serve one request each, until all of them stayed quiet.
func TestTrial(t *testing.T) {
	t.Parallel()
	trial := eager
	trial.trial, trial.watch = 5, 20*time.Millisecond
	for _, quiet := range []bool{true, false} {
		reused := make(chan int, 1)
		url := serveEach(t, func(x *exchangeNo) bool {
			if x.request > 1 {
				select {
				case reused <- x.connection:
				default:
				}
			}
			io.WriteString(x, ok200)
			if !quiet && x.header.Get("Connection") == "" {
				go io.WriteString(x, "x")
			}
			return true
		})
		s, barred := keeping(t, trial, nil)
		after := 0
		for after == 0 && barred.Load() == 0 {
			if got := s.Send(t.Context(), to(url), message()); got.Err != nil {
				t.Fatal(got.Err)
			}
			select {
			case after = <-reused:
			default:
			}
		}
		if quiet && after <= trial.trial || !quiet && after != 0 {
			t.Errorf("quiet %v: the first connection that is used again is number %d", quiet, after)
		}
	}
}

// The time in which a success is confirmed follows the slowest answer, which fades away.
func TestPatience(t *testing.T) {
	t.Parallel()
	p := &pool{rules: &defaultRules}
	var got []time.Duration
	for _, took := range []time.Duration{time.Millisecond, 40 * time.Millisecond, 32 * time.Millisecond, time.Hour} {
		p.timed(took)
		got = append(got, p.patience())
	}
	p.slowest = 64 * time.Millisecond
	p.timed(0)
	got = append(got, p.patience())
	want := []time.Duration{5 * time.Millisecond, 80 * time.Millisecond, 78750 * time.Microsecond, time.Second, 126 * time.Millisecond}
	if !slices.Equal(got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestOldConnectionsAreClosed(t *testing.T) {
	t.Parallel()
	closed := make(chan struct{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		br := bufio.NewReader(conn)
		if _, err := http.ReadRequest(br); err != nil {
			return
		}
		io.WriteString(conn, ok200)
		io.Copy(io.Discard, br)
		close(closed)
	}()
	short := eager
	short.age, short.watch = 50*time.Millisecond, 20*time.Millisecond
	s, _ := keeping(t, short, nil)
	if got := s.Send(t.Context(), to("http://"+l.Addr().String()), message()); got.Err != nil {
		t.Fatal(got.Err)
	}
	<-closed
	p := onlyPool(t, s)
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) != 0 || p.open != 0 {
		t.Errorf("%d idle, %d open connections", len(p.idle), p.open)
	}
}

func onlyPool(t *testing.T, s *Sender) *pool {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.pools {
		if len(s.pools) == 1 {
			return p
		}
	}
	t.Fatalf("%d pools, want 1", len(s.pools))
	return nil
}

// Two destinations on one host share no connection, and neither do the two rules for addresses.
func TestDestinationsShareNoConnection(t *testing.T) {
	t.Parallel()
	server, connections := countingServer(t, (*httptest.Server).Start)
	s, _ := keeping(t, eager, nil)
	for range 3 {
		for _, name := range []string{"one", "two"} {
			target := to(server.URL)
			target.Name = name
			if got := s.Send(t.Context(), target, message()); got.Err != nil {
				t.Fatal(got.Err)
			}
			target.AllowPrivate = false
			if got := s.Send(t.Context(), target, message()); !errors.Is(got.Err, ErrAddress) {
				t.Fatalf("got %+v", got)
			}
		}
	}
	if n := connections.Load(); n != 2 {
		t.Errorf("%d connections, want 2", n)
	}
}

// Large requests, those that ask for it, and those that find no connection that has rested for long
// enough have connections of their own.
func TestFreshRequests(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		fresh bool
		body  int
		rest  time.Duration
		want  int64
	}{
		"kept":    {false, maxKeptBody, 0, 1},
		"fresh":   {true, 10, 0, 3},
		"large":   {false, maxKeptBody + 1, 0, 3},
		"at rest": {false, 10, time.Hour, 3},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, connections := countingServer(t, (*httptest.Server).Start)
			r := eager
			r.rest = tt.rest
			s, _ := keeping(t, r, nil)
			for range 3 {
				msg := message()
				msg.Fresh, msg.Body = tt.fresh, make([]byte, tt.body)
				if got := s.Send(t.Context(), to(server.URL), msg); got.Err != nil {
					t.Fatal(got.Err)
				}
			}
			if n := connections.Load(); n != tt.want {
				t.Errorf("%d connections, want %d", n, tt.want)
			}
		})
	}
}

// A destination may answer before it has read the body. If it then takes the body for a request, it
// answers that too.
func TestAnswerBeforeBody(t *testing.T) {
	t.Parallel()
	for name, reads := range map[string]bool{"reads it later": true, "takes it for a request": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
			done := make(chan struct{}, 2)
			go func() {
				for {
					conn, err := l.Accept()
					if err != nil {
						return
					}
					go func() {
						defer conn.Close()
						br := bufio.NewReader(conn)
						for {
							req, err := http.ReadRequest(br)
							if err != nil {
								return
							}
							io.WriteString(conn, ok200)
							if reads {
								io.Copy(io.Discard, req.Body)
							}
							done <- struct{}{}
						}
					}()
				}
			}()
			s, barred := keeping(t, eager, nil)
			msg := message()
			msg.Body = []byte("POST /admin HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
			if got := s.Send(t.Context(), to("http://"+l.Addr().String()), msg); got.Err != nil {
				t.Fatal(got.Err)
			}
			<-done
			if !reads {
				<-done // it answered the body
				for barred.Load() == 0 {
					onlyPool(t, s).take()
				}
			}
			if !reads != (barred.Load() > 0) {
				t.Errorf("barred %d times", barred.Load())
			}
		})
	}
}

// A destination may never read the body that it answers. The largest request on a kept connection must
// be sent all the same, before the answer is read.
func TestAnswerWithoutReadingTheBody(t *testing.T) {
	t.Parallel()
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
			t.Cleanup(func() { conn.Close() })
			if _, err := http.ReadRequest(bufio.NewReaderSize(conn, 16)); err != nil {
				return
			}
			io.WriteString(conn, ok200)
		}
	}()
	s, barred := keeping(t, eager, nil)
	msg := message()
	msg.Body = make([]byte, maxKeptBody)
	msg.Header = http.Header{"X-Large": {strings.Repeat("x", 16<<10)}}
	if got := s.Send(t.Context(), to("http://"+l.Addr().String()), msg); got.Err != nil {
		t.Error(got.Err)
	}
	if len(onlyPool(t, s).idle) != 1 || barred.Load() != 0 {
		t.Errorf("it did not take the way of kept connections; barred %d times", barred.Load())
	}
}

// An answer that is there before the request was sent answers nothing.
func TestAnswerBeforeRequest(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		io.WriteString(conn, ok200)
		untilLeft(conn)
	}()
	s, barred := keeping(t, eager, nil)
	dialNet := s.private.dialer.dial
	s.private.dialer.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dialNet(ctx, network, address)
		if err != nil {
			return nil, err
		}
		raw, err := conn.(*net.TCPConn).SyscallConn()
		for err == nil && peek(raw) != spoke {
			runtime.Gosched()
		}
		return conn, err
	}
	if got := s.Send(t.Context(), to("http://"+l.Addr().String()), message()); !errors.Is(got.Err, errSpokeFirst) || got.StatusCode != 0 {
		t.Errorf("got %+v", got)
	}
	if barred.Load() != 1 {
		t.Errorf("barred %d times, want once", barred.Load())
	}
}
