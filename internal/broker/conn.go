package broker

import (
	"net"
	"time"
)

// WriteTimeout bounds each part of a write to a broker that takes nothing any more, as when it is frozen.
const WriteTimeout = 5 * time.Second

// writePart is the size of such a part: a slow network has time for each of them.
const writePart = 256 << 10

// BoundedDialer dials connections whose writes are bounded. The libraries for brokers write under a lock, which even
// closing the connection waits for.
type BoundedDialer struct{ *net.Dialer }

// Dial connects to address.
func (d BoundedDialer) Dial(network, address string) (net.Conn, error) {
	conn, err := d.Dialer.Dial(network, address)
	if err != nil {
		return nil, err
	}
	return &bounded{conn}, nil
}

// bounded sets the deadlines of writes. Those of reads are up to its user.
type bounded struct{ net.Conn }

// Write closes the connection if it fails. Otherwise each further write would wait as long, and begin in the middle of
// a message.
func (c *bounded) Write(p []byte) (written int, err error) {
	for written < len(p) && err == nil {
		part := p[written:min(len(p), written+writePart)]
		if err = c.SetWriteDeadline(time.Now().Add(WriteTimeout)); err == nil {
			var n int
			n, err = c.Conn.Write(part)
			written += n
		}
	}
	if err != nil {
		c.Close()
	}
	return written, err
}
