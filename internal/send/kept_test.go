package send

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hookonce/hookonce/internal/test/eventually"
)

// eager are rules under which a connection is used again at once, for as long as a test takes.
var eager = rules{
	watch: time.Minute, age: time.Hour, confirm: time.Millisecond, longest: time.Millisecond, bar: time.Hour,
}

// keeping returns a Sender with these rules, and a count of the destinations that it barred.
func keeping(t *testing.T, r rules, opts *Options) (*Sender, *atomic.Int64) {
	t.Helper()
	if opts == nil {
		opts = &Options{}
	}
	barred := new(atomic.Int64)
	opts.Barred = func(string, string) { barred.Add(1) }
	s := New(opts)
	s.rules = r
	t.Cleanup(s.CloseIdle)
	return s, barred
}

// exchangeNo is a request that a destination received.
type exchangeNo struct {
	net.Conn
	connection, request int // both count from 1
	id                  string
	header              http.Header
}

// serveEach starts a server that calls answer with each request of each connection, until answer
// returns false. It returns the URL.
func serveEach(t *testing.T, answer func(*exchangeNo) bool) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for n := 1; ; n++ {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				br := bufio.NewReader(conn)
				for m := 1; ; m++ {
					req, err := http.ReadRequest(br)
					if err != nil {
						return
					}
					if _, err := io.Copy(io.Discard, req.Body); err != nil {
						return
					}
					if !answer(&exchangeNo{conn, n, m, req.Header.Get("Webhook-Id"), req.Header}) {
						return
					}
				}
			}()
		}
	}()
	return "http://" + l.Addr().String()
}

const ok200 = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

// TestWhichAnswersAllowReuse sends two messages. The destination gives the first one the answer of
// the case.
func TestWhichAnswersAllowReuse(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxResponseBody+1)
	tests := map[string]struct {
		answer string
		fails  bool
		reused bool
		barred bool
	}{
		"a length":                        {answer: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", reused: true},
		"a length of zero":                {answer: ok200, reused: true},
		"chunks":                          {answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", reused: true},
		"chunks and a trailer":            {answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX: y\r\n\r\n", reused: true},
		"204":                             {answer: "HTTP/1.1 204 No Content\r\n\r\n", reused: true},
		"after interim answers":           {answer: "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + ok200, reused: true},
		"no length":                       {answer: "HTTP/1.1 200 OK\r\n\r\nok"},
		"Connection: close":               {answer: "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"},
		"HTTP/1.0":                        {answer: "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok"},
		"a body over the limit":           {answer: "HTTP/1.1 200 OK\r\nContent-Length: 65537\r\n\r\n" + long},
		"a redirect":                      {answer: "HTTP/1.1 304 Not Modified\r\n\r\n", fails: true},
		"a failure":                       {answer: "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n", fails: true},
		"another protocol":                {answer: "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", fails: true},
		"a body beyond its length":        {answer: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokok", barred: true},
		"a body after 204":                {answer: "HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\nok", barred: true},
		"a line feed too many":            {answer: ok200 + "\n", barred: true},
		"two answers":                     {answer: ok200 + ok200, barred: true},
		"two answers, the first in parts": {answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + ok200, barred: true},
		"a failure and a second answer":   {answer: "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n" + ok200, fails: true, barred: true},
		"a failure's body and an answer":  {answer: "HTTP/1.1 500 No\r\nContent-Length: 2\r\n\r\nno" + ok200, fails: true, barred: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var connections atomic.Int64
			closes := name == "no length"
			url := serveEach(t, func(x *exchangeNo) bool {
				connections.Store(int64(x.connection))
				if x.id == "msg_1" {
					io.WriteString(x, tt.answer)
					return !closes
				}
				io.WriteString(x, ok200)
				return true
			})
			s, barred := keeping(t, eager, nil)
			if got := s.Send(t.Context(), to(url), message()); (got.Err != nil) != tt.fails {
				t.Fatalf("first: %+v", got)
			}
			second := message()
			second.ID = "msg_2"
			if got := s.Send(t.Context(), to(url), second); got.Err != nil {
				t.Fatalf("second: %+v", got)
			}
			if reused := connections.Load() == 1; reused != tt.reused || barred.Load() > 0 != tt.barred {
				t.Errorf("reused is %v, want %v; barred is %v, want %v", reused, tt.reused, barred.Load() > 0, tt.barred)
			}
		})
	}
}

// Interim answers come at once. They do not shorten the wait that confirms a success.
func TestInterimAnswersAreNoAnswers(t *testing.T) {
	t.Parallel()
	const works = 30 * time.Millisecond
	url := serveEach(t, func(x *exchangeNo) bool {
		io.WriteString(x, "HTTP/1.1 103 Early Hints\r\n\r\n")
		<-time.After(works)
		io.WriteString(x, ok200)
		return true
	})
	s, _ := keeping(t, eager, nil)
	if got := s.Send(t.Context(), to(url), message()); got.Err != nil {
		t.Fatal(got.Err)
	}
	if p := onlyPool(t, s); p.slowest < works {
		t.Errorf("the answer counts as one after %s, and came after %s", p.slowest, works)
	}
}

// A long answer is not read to its end. On a kept connection it does not count, and it is the last one there.
func TestLongAnswerOnAKeptConnection(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	url := serveEach(t, func(x *exchangeNo) bool {
		requests.Add(1)
		if x.id == "msg_1" {
			io.WriteString(x, ok200)
		} else {
			io.WriteString(x, fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", maxResponseBody+1, strings.Repeat("x", maxResponseBody+1)))
		}
		return true
	})
	s, barred := keeping(t, eager, nil)
	for i, want := range []error{nil, ErrDoubt, nil, nil} {
		m := message()
		m.ID = fmt.Sprint("msg_", i+1)
		if got := s.Send(t.Context(), to(url), m); !errors.Is(got.Err, want) {
			t.Errorf("message %d: %v, want %v", i+1, got.Err, want)
		}
	}
	if requests.Load() != 4 || barred.Load() != 1 {
		t.Errorf("%d requests for four attempts, barred %d times", requests.Load(), barred.Load())
	}
}

// A connection that was used before may break at any moment. Only before the first byte of the
// answer the request is sent again, and once.
func TestReusedConnectionBreaks(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		second   func(*exchangeNo) // answers the second message on its first connection
		sends    int64             // of the second message
		status   int
		succeeds bool
	}{
		"before the answer": {func(*exchangeNo) {}, 2, 200, true},
		"reset":             {func(x *exchangeNo) { x.Conn.(*net.TCPConn).SetLinger(0) }, 2, 200, true},
		"in the header":     {func(x *exchangeNo) { io.WriteString(x, "HTTP/1.1 2") }, 1, 0, false},
		"in the body":       {func(x *exchangeNo) { io.WriteString(x, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx") }, 1, 200, false},
		"says it closes": {func(x *exchangeNo) {
			io.WriteString(x, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
		}, 1, 200, true},
		"late 410":      {func(x *exchangeNo) { io.WriteString(x, "HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n") }, 2, 200, true},
		"other failure": {func(x *exchangeNo) { io.WriteString(x, "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n") }, 1, 500, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var sends atomic.Int64
			url := serveEach(t, func(x *exchangeNo) bool {
				if x.id == "msg_1" {
					io.WriteString(x, ok200)
					return true
				}
				sends.Add(1)
				if x.header.Get("Idempotency-Key") != "msg_2" {
					t.Errorf("Idempotency-Key %q", x.header.Get("Idempotency-Key"))
				}
				if x.connection > 1 {
					io.WriteString(x, ok200)
					return true
				}
				tt.second(x)
				return false
			})
			s, barred := keeping(t, eager, nil)
			if got := s.Send(t.Context(), to(url), message()); got.Err != nil {
				t.Fatal(got.Err)
			}
			msg := message()
			msg.ID = "msg_2"
			got := s.Send(t.Context(), to(url), msg)
			if (got.Err == nil) != tt.succeeds || got.StatusCode != tt.status || got.Permanent {
				t.Errorf("got %+v", got)
			}
			if sends.Load() != tt.sends || barred.Load() != 0 {
				t.Errorf("sent %d times, want %d; barred %d times", sends.Load(), tt.sends, barred.Load())
			}
		})
	}
}

// The end of a connection that was used before is quiet only if the answer announced it.
func TestReusedConnectionEndsAfterTheAnswer(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		answer string
		counts bool
	}{
		"unannounced":         {ok200, false},
		"announced":           {"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", true},
		"an answer of no end": {"HTTP/1.1 200 OK\r\n\r\n", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			closed := make(chan struct{})
			url := serveEach(t, func(x *exchangeNo) bool {
				if x.id == "msg_1" {
					io.WriteString(x, ok200)
					return true
				}
				io.WriteString(x, tt.answer)
				x.Close()
				close(closed)
				return false
			})
			s, barred := keeping(t, eager, nil)
			if got := s.Send(t.Context(), to(url), message()); got.Err != nil {
				t.Fatal(got.Err)
			}
			msg := message()
			msg.ID = "msg_2"
			msg.Answered = func() { <-closed }
			got := s.Send(t.Context(), to(url), msg)
			if counts := got.Err == nil; counts != tt.counts || errors.Is(got.Err, ErrDoubt) == tt.counts || got.StatusCode != 200 {
				t.Errorf("got %+v", got)
			}
			if (barred.Load() > 0) == tt.counts {
				t.Errorf("barred %d times", barred.Load())
			}
		})
	}
}

// A destination that closes a connection at rest costs nothing: the next message gets a new one.
func TestClosedAtRest(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	url := serveEach(t, func(x *exchangeNo) bool {
		requests.Add(1)
		io.WriteString(x, ok200)
		return false
	})
	s, barred := keeping(t, eager, nil)
	for i := range 4 {
		if got := s.Send(t.Context(), to(url), message()); got.Err != nil {
			t.Fatalf("send %d: %v", i, got.Err)
		}
	}
	// The close may come after the look: then the request is sent again on a new connection, and the
	// server has not read the first one.
	if requests.Load() != 4 || barred.Load() != 0 {
		t.Errorf("%d requests, want 4; barred %d times", requests.Load(), barred.Load())
	}
}

// The answer to a request comes while its message waits for its confirmation, because an earlier
// request was answered again first.
func TestLateAnswerDoesNotCount(t *testing.T) {
	t.Parallel()
	confirming, said := make(chan struct{}), make(chan struct{})
	url := serveEach(t, func(x *exchangeNo) bool {
		io.WriteString(x, ok200)
		if x.id == "msg_2" {
			<-confirming
			io.WriteString(x, "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n")
			close(said)
		}
		return true
	})
	s, barred := keeping(t, eager, nil)
	if got := s.Send(t.Context(), to(url), message()); got.Err != nil {
		t.Fatal(got.Err)
	}
	msg := message()
	msg.ID = "msg_2"
	msg.Answered = func() {
		close(confirming)
		<-said
	}
	got := s.Send(t.Context(), to(url), msg)
	if !errors.Is(got.Err, ErrDoubt) || got.StatusCode != 200 || got.Permanent || got.Detail == "" {
		t.Errorf("got %+v", got)
	}
	if barred.Load() != 1 {
		t.Errorf("barred %d times, want once", barred.Load())
	}
}

// Once a destination has answered too much, no success on another kept connection counts that is not
// confirmed yet. From then on each attempt has its own connection.
func TestOneOffenceEndsReuse(t *testing.T) {
	t.Parallel()
	var closing, connections atomic.Int64
	url := serveEach(t, func(x *exchangeNo) bool {
		connections.Store(int64(x.connection))
		if x.header.Get("Connection") == "close" {
			closing.Add(1)
		}
		if x.id == "twice" {
			io.WriteString(x, ok200+ok200)
			return true
		}
		io.WriteString(x, ok200)
		return true
	})
	s, barred := keeping(t, eager, nil)
	if got := s.Send(t.Context(), to(url), message()); got.Err != nil {
		t.Fatal(got.Err)
	}
	msg := message()
	msg.Answered = func() {
		other := message()
		other.ID = "twice"
		if got := s.Send(t.Context(), to(url), other); got.Err != nil { // on a new connection, so it counts
			t.Error(got.Err)
		}
		eventually.True(t, "the destination is barred", func() bool { return barred.Load() == 1 })
	}
	if got := s.Send(t.Context(), to(url), msg); !errors.Is(got.Err, ErrDoubt) {
		t.Errorf("got %+v", got)
	}
	before := connections.Load()
	for range 3 {
		if got := s.Send(t.Context(), to(url), message()); got.Err != nil {
			t.Fatal(got.Err)
		}
	}
	if barred.Load() != 1 || closing.Load() != 3 || connections.Load() != before+3 {
		t.Errorf("barred %d times, %d requests closed their connections, %d new connections",
			barred.Load(), closing.Load(), connections.Load()-before)
	}
}

// A destination says more while the connection rests. It is seen before the next request, and
// must not count for that one.
func TestExtraAnswerAtRest(t *testing.T) {
	t.Parallel()
	said, first := make(chan struct{}), make(chan struct{})
	url := serveEach(t, func(x *exchangeNo) bool {
		switch {
		case x.id == "msg_1":
			io.WriteString(x, ok200)
			<-first
			io.WriteString(x, ok200)
			close(said)
		default:
			io.WriteString(x, "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n")
		}
		return true
	})
	s, barred := keeping(t, eager, nil)
	if got := s.Send(t.Context(), to(url), message()); got.Err != nil {
		t.Fatal(got.Err)
	}
	close(first)
	<-said
	msg := message()
	msg.ID = "msg_2"
	if got := s.Send(t.Context(), to(url), msg); got.StatusCode != 500 {
		t.Errorf("got %+v, want the answer to this message", got)
	}
	if barred.Load() != 1 {
		t.Errorf("barred %d times, want once", barred.Load())
	}
}
