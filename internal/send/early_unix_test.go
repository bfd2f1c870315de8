//go:build unix

package send

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"
)

// A destination may answer before it has read the body, and say that it closes the connection. It still gets the whole
// body.
func TestAnswerBeforeTheBodyOnAConnectionThatEnds(t *testing.T) {
	t.Parallel()
	small := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) {
			if err := syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4<<10); err != nil {
				t.Error(err)
			}
		})
	}}
	l, err := small.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	sent := make(chan struct{})
	got := make(chan []byte, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		req, err := http.ReadRequest(bufio.NewReaderSize(conn, 16))
		if err != nil {
			t.Error(err)
		}
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
		<-sent
		body, err := io.ReadAll(req.Body)
		if err != nil {
			t.Error(err)
		}
		got <- body
	}()
	s, _ := keeping(t, eager, nil)
	msg := message()
	msg.Body = bytes.Repeat([]byte("x"), maxKeptBody)
	if got := s.Send(t.Context(), to("http://"+l.Addr().String()), msg); got.Err != nil {
		t.Error(got.Err)
	}
	close(sent)
	if body := <-got; !bytes.Equal(body, msg.Body) {
		t.Errorf("the destination got %d bytes of %d", len(body), len(msg.Body))
	}
}
