package e2e

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// taken answers that the destination took the message.
func taken(_ *hostile, conn net.Conn) bool { return write(conn, answerOf(http.StatusOK, "", "taken")) }

// says answers with a status, header lines and a body.
func says(status int, headers, body string) fault {
	return func(_ *hostile, conn net.Conn) bool { return write(conn, answerOf(status, headers, body)) }
}

func answerOf(status int, headers, body string) string {
	return fmt.Sprintf("HTTP/1.1 %d %s\r\n%sContent-Length: %d\r\n\r\n%s",
		status, http.StatusText(status), strings.ReplaceAll(headers, "\n", "\r\n"), len(body), body)
}

func write(conn net.Conn, text string) bool {
	_, err := io.WriteString(conn, text)
	return err == nil
}

// breaksOff writes text and closes the connection.
func breaksOff(text string) fault {
	return func(_ *hostile, conn net.Conn) bool {
		write(conn, text)
		return false
	}
}

// resets ends the connection with a reset.
func resets(_ *hostile, conn net.Conn) bool {
	_ = conn.(*net.TCPConn).SetLinger(0) // if it fails, the test sees another error
	return false
}

// hangs writes text and then nothing more until the client has gone.
func hangs(text string) fault {
	return func(_ *hostile, conn net.Conn) bool {
		write(conn, text)
		_, _ = io.Copy(io.Discard, conn) // blocks until the client closes the connection
		return false
	}
}

// drips writes text, and then a piece each second until the client has gone.
func drips(text, piece string) fault {
	return func(h *hostile, conn net.Conn) bool {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for more := write(conn, text); more; {
			select {
			case <-tick.C:
				more = write(conn, piece)
			case <-h.closing:
				return false
			}
		}
		return false
	}
}

// huge answers with an endless body.
func huge(status int) fault {
	return func(_ *hostile, conn net.Conn) bool {
		chunk := "8000\r\n" + strings.Repeat("z", 0x8000) + "\r\n"
		for more := write(conn, fmt.Sprintf("HTTP/1.1 %d X\r\nTransfer-Encoding: chunked\r\n\r\n", status)); more; {
			more = write(conn, chunk)
		}
		return false
	}
}

// bombs answers with a small body that inflates to a large one.
func bombs(status int) fault { return says(status, "Content-Encoding: gzip\n", bomb()) }

var bomb = sync.OnceValue(func() string {
	var bomb bytes.Buffer
	zw := gzip.NewWriter(&bomb)
	zeros := make([]byte, 1<<20)
	for range 32 {
		_, _ = zw.Write(zeros) // a bytes.Buffer never fails
	}
	_ = zw.Close()
	return bomb.String()
})

// plainText answers as a server without TLS answers a client that speaks TLS.
func plainText(conn net.Conn) bool {
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		return false
	}
	write(conn, answerOf(http.StatusBadRequest, "Connection: close\n", "Client sent an HTTP request to an HTTPS server.\n"))
	_, _ = io.Copy(io.Discard, conn) // closing with unread bytes would send a reset
	return false
}

// holds keeps the request waiting until the destination is healed.
func holds(h *hostile, conn net.Conn) bool {
	<-h.healed
	return taken(h, conn)
}
