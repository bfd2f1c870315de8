package app

import (
	"io"
	"net"
	"sync/atomic"
	"time"
)

// Bounds for a client that spoke plain HTTP to a port with TLS.
const (
	plainDrainBytes = 1 << 20
	plainDrainTime  = 2 * time.Second
)

// tlsHandshake is the first byte of a client that speaks TLS; see RFC 8446, section 5.1.
const tlsHandshake = 0x16

// plainListener lets clients read the 400 that net/http answers to plain HTTP on a port with TLS.
// net/http closes the connection with the rest of the request unread. The reset that follows would
// overtake the answer at most clients.
type plainListener struct{ net.Listener }

func (l plainListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err //nolint:wrapcheck // net/http looks at it
	}
	return &plainConn{Conn: conn}, nil
}

// plainConn reads the rest of a plain request before it closes.
type plainConn struct {
	net.Conn
	began, plain, closed atomic.Bool
}

// Read notes whether the client speaks TLS.
func (c *plainConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && !c.began.Swap(true) {
		c.plain.Store(b[0] != tlsHandshake)
	}
	return n, err //nolint:wrapcheck // crypto/tls looks at it
}

// Close may be called again, which ends the reading.
func (c *plainConn) Close() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok && !c.closed.Swap(true) && c.plain.Load() {
		// The answer is sent; errors mean that the client has left.
		if half.CloseWrite() == nil && c.Conn.SetReadDeadline(time.Now().Add(plainDrainTime)) == nil {
			_, _ = io.CopyN(io.Discard, c.Conn, plainDrainBytes)
		}
	}
	return c.Conn.Close() //nolint:wrapcheck // crypto/tls looks at it
}
