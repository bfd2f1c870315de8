package send

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

var discardLog = log.New(io.Discard, "", 0)

// serveRaw starts a server that reads one request from each connection and then calls answer. It
// returns the URL.
func serveRaw(t *testing.T, answer func(net.Conn)) string {
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
				if _, err := io.Copy(io.Discard, req.Body); err != nil {
					return
				}
				answer(conn)
			}()
		}
	}()
	return "http://" + l.Addr().String()
}

// closedAddress returns an address without a listener.
func closedAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// untilLeft waits for the client to close the connection.
func untilLeft(conn net.Conn) { io.Copy(io.Discard, conn) }

// drip writes text every few milliseconds until the client leaves.
func drip(conn net.Conn, text string) {
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	for range ticker.C {
		if _, err := io.WriteString(conn, text); err != nil {
			return
		}
	}
}

func write(text string) func(net.Conn) {
	return func(conn net.Conn) { io.WriteString(conn, text) }
}

func TestSendBrokenAnswers(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		answer func(net.Conn)
		status int
		is     error // what Err must match, if anything
	}{
		{"closed without an answer", func(net.Conn) {}, 0, nil},
		{"reset", func(c net.Conn) { c.(*net.TCPConn).SetLinger(0) }, 0, syscall.ECONNRESET},
		{"garbage", write("\x00\xffgarbage\x1b[2J\r\n\r\n"), 0, nil},
		{"another protocol", write("SSH-2.0-OpenSSH_9.9\r\n"), 0, nil},
		{"status line cut off", write("HTTP/1.1 20"), 0, nil},
		{"headers cut off", write("HTTP/1.1 200 OK\r\nContent-Le"), 0, nil},
		{"status out of range", write("HTTP/1.1 2000 OK\r\n\r\n"), 0, nil},
		{"broken length", write("HTTP/1.1 200 OK\r\nContent-Length: 1, 2\r\n\r\nab"), 0, nil},
		{"headers too large", write("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 80<<10) + "\r\nContent-Length: 0\r\n\r\n"), 0, nil},
		{"body cut off", write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"), 200, io.ErrUnexpectedEOF},
		{"chunks cut off", write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"), 200, io.ErrUnexpectedEOF},
		{"broken chunk", write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n"), 200, nil},
		{"gone, cut off", write("HTTP/1.1 410 Gone\r\nContent-Length: 10\r\nRetry-After: 5\r\n\r\nabc"), 410, io.ErrUnexpectedEOF},
		{"other protocol", write("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"), 101, ErrStatus},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, fresh := range []bool{false, true} {
				target := to(serveRaw(t, tt.answer))
				target.Fresh = fresh
				got := newSender(t).Send(t.Context(), target, message())
				if got.Err == nil || got.StatusCode != tt.status {
					t.Fatalf("fresh %v: got %+v", fresh, got)
				}
				if tt.is != nil && !errors.Is(got.Err, tt.is) {
					t.Errorf("fresh %v: error %v is not %v", fresh, got.Err, tt.is)
				}
				if (tt.status == http.StatusGone) != got.Permanent {
					t.Errorf("fresh %v: permanent is %v", fresh, got.Permanent)
				}
				if got.Detail == "" || len(got.Err.Error()) > 2<<10 || strings.ContainsAny(got.Err.Error()+got.Detail, "\x00\x1b\n") {
					t.Errorf("fresh %v: error %q, detail %q", fresh, got.Err, got.Detail)
				}
			}
		})
	}
}

func TestSendTimesOut(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		answer func(net.Conn)
		status int
	}{
		{"silence", untilLeft, 0},
		{"slow headers", func(c net.Conn) { write("HTTP/1.1 200 OK\r\n")(c); drip(c, "X: y\r\n") }, 0},
		{"slow status line", func(c net.Conn) { write("HTTP/1.1 200 ")(c); drip(c, "O") }, 0},
		{"interim answers without end", func(c net.Conn) { drip(c, "HTTP/1.1 102 Processing\r\n\r\n") }, 0},
		{"body that drips", func(c net.Conn) { write("HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n")(c); drip(c, "x") }, 200},
		{"body that stops", func(c net.Conn) { write("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc")(c); untilLeft(c) }, 200},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			began, left := make(chan struct{}, 16), make(chan struct{}, 16)
			url := serveRaw(t, func(c net.Conn) {
				began <- struct{}{}
				tt.answer(c)
				left <- struct{}{}
			})
			target := to(url)
			target.Timeout = 200 * time.Millisecond
			got := newSender(t).Send(t.Context(), target, message())
			// On a slow machine, this time may pass before the status arrives.
			for tries := 0; got.StatusCode != tt.status && tries < 8; tries++ {
				target.Timeout *= 2
				got = newSender(t).Send(t.Context(), target, message())
			}
			if !errors.Is(got.Err, context.DeadlineExceeded) || got.StatusCode != tt.status {
				t.Errorf("got %+v", got)
			}
			for range len(began) {
				<-left // the connection was closed, not kept
			}
		})
	}
}

func TestSendConnectionRefused(t *testing.T) {
	t.Parallel()
	got := newSender(t).Send(t.Context(), to("http://"+closedAddress(t)), message())
	if !errors.Is(got.Err, syscall.ECONNREFUSED) || got.StatusCode != 0 || got.Permanent || got.Detail == "" {
		t.Errorf("got %+v", got)
	}
}

func TestSendEndlessBody(t *testing.T) {
	t.Parallel()
	var written atomic.Int64
	left := make(chan struct{})
	url := serveRaw(t, func(c net.Conn) {
		defer close(left)
		write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")(c)
		chunk := "1000\r\n" + strings.Repeat("z", 4096) + "\r\n"
		for {
			n, err := io.WriteString(c, chunk)
			written.Add(int64(n))
			if err != nil {
				return
			}
		}
	})
	got := newSender(t).Send(t.Context(), to(url), message())
	if got.Err != nil || got.StatusCode != 200 || got.Detail != "" {
		t.Errorf("status %d, %v, %d bytes of detail", got.StatusCode, got.Err, len(got.Detail))
	}
	<-left
	// The bytes over the limit sit in the buffers of two sockets.
	if written.Load() > 64<<20 {
		t.Errorf("the client read %d bytes", written.Load())
	}
}

func TestSendDoesNotInflate(t *testing.T) {
	t.Parallel()
	var bomb bytes.Buffer
	zw := gzip.NewWriter(&bomb)
	zeros := make([]byte, 1<<20)
	for range 16 {
		zw.Write(zeros)
	}
	zw.Close()
	var accepts []string
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		accepts = r.Header["Accept-Encoding"]
		w.Header().Set("Content-Encoding", "gzip")
		w.WriteHeader(http.StatusInternalServerError)
		w.Write(bomb.Bytes())
	})
	got := newSender(t).Send(t.Context(), to(url), message())
	if got.StatusCode != http.StatusInternalServerError || !strings.HasPrefix(got.Detail, `\x1f\x8b\b`) || len(got.Detail) > maxDetail {
		t.Errorf("%v, %.40q", got.Err, got.Detail)
	}
	if accepts != nil {
		t.Errorf("Accept-Encoding %q", accepts)
	}
}

// A destination may close a kept connection just when it is used again. That must not cost an
// attempt.
func TestSendReplacesClosedConnection(t *testing.T) {
	t.Parallel()
	var connections atomic.Int32
	closed := make(chan struct{}, 8)
	url := serveRaw(t, func(c net.Conn) {
		connections.Add(1)
		write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")(c)
		c.Close()
		closed <- struct{}{}
	})
	s := newSender(t)
	for i := range 4 {
		if got := s.Send(t.Context(), to(url), message()); got.Err != nil {
			t.Fatalf("send %d: %v", i, got.Err)
		}
		<-closed
	}
	if connections.Load() != 4 {
		t.Errorf("%d connections", connections.Load())
	}
}
