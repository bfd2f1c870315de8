package app

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// leanListener makes its connections cheap for net/http, which sets eight deadlines for every request
// and waits for the client to hang up in a goroutine of its own.
type leanListener struct{ net.Listener }

func (l leanListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err //nolint:wrapcheck // net/http looks at it
	}
	return &leanConn{Conn: conn}, nil
}

// leanConn keeps every deadline, but rarely moves the timer of the runtime behind it. It moves the timer
// when the deadline becomes earlier. Otherwise the timer may pass too early: then it is set to the
// deadline, and the interrupted call goes on.
//
// It has no ReadFrom, which would bypass that.
type leanConn struct {
	net.Conn
	skipped     bool // the last Read was skipped
	read, write leanDeadline
}

// leanDeadline is a deadline, and the earlier one that the connection has.
type leanDeadline struct {
	mu          sync.Mutex
	want, armed time.Time // zero: none
}

// set sets the deadline to t, and the connection by arm if it would pass later than t.
func (d *leanDeadline) set(t time.Time, arm func(time.Time) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.want = t
	if t.IsZero() || !d.armed.IsZero() && !t.Before(d.armed) {
		return nil
	}
	d.armed = t
	return arm(t)
}

// postpone reports whether the call that failed with err must go on because its deadline has not passed.
// Then the connection is set to the deadline.
func (d *leanDeadline) postpone(err error, arm func(time.Time) error) bool {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.want.IsZero() && !time.Now().Before(d.want) {
		return false
	}
	d.armed = d.want
	return arm(d.want) == nil
}

func (c *leanConn) SetReadDeadline(t time.Time) error {
	return c.read.set(t, c.Conn.SetReadDeadline)
}

func (c *leanConn) SetWriteDeadline(t time.Time) error {
	return c.write.set(t, c.Conn.SetWriteDeadline)
}

func (c *leanConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// Read skips the first of successive calls for a single byte: it reads nothing, which an io.Reader may
// do. With such a call net/http waits for the client to hang up while the request is answered. The claim
// must be made anyway. All other reads of net/http have larger buffers,
// or call again.
func (c *leanConn) Read(p []byte) (int, error) {
	if len(p) == 1 && !c.skipped {
		c.skipped = true
		return 0, nil
	}
	c.skipped = false
	for {
		n, err := c.Conn.Read(p)
		if n > 0 || !c.read.postpone(err, c.Conn.SetReadDeadline) {
			return n, err //nolint:wrapcheck // net/http looks at it
		}
	}
}

func (c *leanConn) Write(p []byte) (int, error) {
	written := 0
	for {
		n, err := c.Conn.Write(p[written:])
		written += n
		if !c.write.postpone(err, c.Conn.SetWriteDeadline) {
			return written, err //nolint:wrapcheck // net/http looks at it
		}
	}
}

// CloseWrite lets net/http end an answer before it closes a connection with unread bytes: the reset that
// follows would overtake the answer.
func (c *leanConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite() //nolint:wrapcheck // net/http looks at it
	}
	return errors.ErrUnsupported
}
