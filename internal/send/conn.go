package send

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"sync"
	"syscall"
	"time"
)

// state is the result of a look at a connection without an open request.
type state int

const (
	quiet   state = iota
	spoke         // bytes wait that answer no request
	unclear       // bytes wait that may or may not answer a request, such as a part of a TLS record
	ended         // the other side closed it, or it broke
)

// conn is an HTTP/1 connection that may serve several requests. One goroutine at a time uses it.
type conn struct {
	net.Conn
	raw     syscall.RawConn // of the TCP connection, below TLS
	tls     *tls.Conn       // nil without TLS
	records *records        // below tls
	limit   io.LimitedReader
	br      *bufio.Reader

	dialled, rested time.Time // rested is when the last answer ended
	trial           bool      // it is watched, and serves one request only
	reused          bool      // it has served a request before this one
}

var (
	errHTTP2 = errors.New("the destination speaks HTTP/2")
	// errNoAnswer is matched if a connection broke before the first byte of an answer.
	errNoAnswer = errors.New("the connection broke before the answer")
)

const answerBuffer = 4 << 10

// dialer opens connections under one rule for addresses.
type dialer struct {
	dial func(ctx context.Context, network, address string) (net.Conn, error)
	tls  *tls.Config
}

func newDialer(t *http.Transport) *dialer {
	config := t.TLSClientConfig.Clone()
	config.NextProtos = []string{"h2", "http/1.1"}
	return &dialer{t.DialContext, config}
}

// open connects to the host of u. The error is errHTTP2 if that negotiates HTTP/2.
func (d *dialer) open(ctx context.Context, u *url.URL) (*conn, error) {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	tcp, err := d.dial(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: tcp, dialled: time.Now()}
	if err := c.prepare(ctx, d.tls, u); err != nil {
		_ = tcp.Close()
		return nil, err
	}
	c.limit.R = c.Conn
	c.br = bufio.NewReaderSize(&c.limit, answerBuffer)
	return c, nil
}

func (c *conn) prepare(ctx context.Context, config *tls.Config, u *url.URL) error {
	tcp, ok := c.Conn.(syscall.Conn)
	if !ok {
		return fmt.Errorf("%T is not a socket", c.Conn)
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return err
	}
	c.raw = raw
	if u.Scheme != "https" {
		return nil
	}
	config = config.Clone()
	config.ServerName = u.Hostname()
	c.records = &records{Conn: c.Conn}
	c.tls = tls.Client(c.records, config)
	c.Conn = c.tls
	if err := c.tls.HandshakeContext(ctx); err != nil {
		return err
	}
	if c.tls.ConnectionState().NegotiatedProtocol == "h2" {
		return errHTTP2
	}
	return nil
}

// look shows whether the other side said anything that answers no request.
func (c *conn) look() state {
	if c.br.Buffered() > 0 {
		return spoke
	}
	if c.tls == nil {
		return peek(c.raw)
	}
	// TLS may hold decrypted bytes, or a record that it has read. A deadline in the past keeps it
	// from reading more.
	found := c.readNow(time.Unix(1, 0))
	if found == quiet && peek(c.raw) != quiet {
		found = unclear
	}
	if found != unclear {
		return found
	}
	// The bytes may be session tickets, which a server may send at any time: TLS drops them.
	return c.readNow(time.Now().Add(ticketTime))
}

// ticketTime is how long reading session tickets may take. Their bytes are on this machine.
const ticketTime = time.Millisecond

// readNow reads from TLS until the deadline.
func (c *conn) readNow(deadline time.Time) state {
	_ = c.tls.SetReadDeadline(deadline)
	defer func() { _ = c.tls.SetReadDeadline(time.Time{}) }()
	var b [1]byte
	n, err := c.tls.Read(b[:])
	var timeout net.Error
	switch {
	case n > 0:
		return spoke
	case !errors.As(err, &timeout) || !timeout.Timeout():
		return ended
	case !c.records.whole():
		return unclear
	}
	return quiet
}

// drop closes c at once. A reset leaves no port in TIME_WAIT here: the side that closes first keeps
// its pair of ports for a minute, and too many of those would leave none for new connections.
func (c *conn) drop() {
	if tcp, ok := c.socket().(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.socket().Close()
}

func (c *conn) socket() net.Conn {
	if c.records != nil {
		return c.records.Conn
	}
	return c.Conn
}

// exchange is a request on a connection and its answer.
type exchange struct {
	*conn
	resp     *http.Response
	body     *answerBody
	took     time.Duration // until the header of the answer; interim answers do not count
	detached func() bool   // ends the hold of the context on the connection
}

// answerBody notes the end of a body. Close leaves the rest unread, which may have no end.
type answerBody struct {
	io.Reader
	complete bool
}

func (b *answerBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.complete = b.complete || err == io.EOF
	return n, err
}

func (*answerBody) Close() error { return nil }

// exchange sends req and reads the header of the answer. ctx and the request's deadline end the reading of
// the body too, ctx until detached is called. If it fails the connection is of no more use.
func (c *conn) exchange(ctx context.Context, req *request) (*exchange, error) {
	x := &exchange{conn: c}
	_ = c.SetDeadline(req.deadline)
	x.detached = context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	began := time.Now()
	if err := c.write(req); err != nil {
		x.detached()
		return nil, fmt.Errorf("%w: sending the request: %w", errNoAnswer, err)
	}
	if err := x.readHeader(began); err != nil {
		x.detached()
		return nil, err
	}
	x.body = &answerBody{Reader: x.resp.Body}
	x.resp.Body = x.body
	return x, nil
}

var requests = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// write sends req with one call, because a small request in parts is as many packets.
func (c *conn) write(req *request) error {
	buf, _ := requests.Get().(*bytes.Buffer)
	defer requests.Put(buf)
	buf.Reset()
	req.write(buf)
	_, err := c.Write(buf.Bytes())
	return err
}

// readHeader reads the header of the answer, after interim ones.
func (x *exchange) readHeader(began time.Time) (err error) {
	x.limit.N = maxResponseHeader + answerBuffer
	if _, err := x.br.Peek(1); err != nil {
		return fmt.Errorf("%w: %w", errNoAnswer, err)
	}
	for {
		x.resp, err = http.ReadResponse(x.br, nil) //nolint:bodyclose // the pool closes the connection, or keeps it
		if err != nil && x.limit.N <= 0 {
			return fmt.Errorf("the header of the answer is larger than %d KiB", maxResponseHeader>>10)
		}
		if err != nil {
			return fmt.Errorf("reading the answer: %w", err)
		}
		if x.resp.StatusCode >= 200 || x.resp.StatusCode == http.StatusSwitchingProtocols {
			x.took, x.limit.N = time.Since(began), math.MaxInt64
			return nil
		}
	}
}

// mayServeAgain reports whether the answer leaves the connection ready for another request: a
// complete 2xx whose end is explicit, on a connection that stays open.
func (x *exchange) mayServeAgain() bool {
	success := 200 <= x.resp.StatusCode && x.resp.StatusCode <= 299
	return x.body.complete && x.framed() && success && !x.resp.Close && x.resp.ProtoAtLeast(1, 1)
}

// framed reports whether the end of the answer is explicit.
func (x *exchange) framed() bool {
	return x.resp.ContentLength >= 0 || len(x.resp.TransferEncoding) == 1 && x.resp.TransferEncoding[0] == "chunked"
}

// records follows the records of TLS, to know whether TLS has read a part of one.
type records struct {
	net.Conn
	header [5]byte
	have   int // bytes of header
	rest   int // bytes of the record's content that are not read
}

func (r *records) Read(p []byte) (int, error) {
	n, err := r.Conn.Read(p)
	for b := p[:max(n, 0)]; len(b) > 0; {
		if r.have < len(r.header) {
			k := copy(r.header[r.have:], b)
			r.have, b = r.have+k, b[k:]
			if r.have < len(r.header) {
				break
			}
			r.rest = int(binary.BigEndian.Uint16(r.header[3:]))
		}
		k := min(r.rest, len(b))
		r.rest, b = r.rest-k, b[k:]
		if r.rest == 0 {
			r.have = 0
		}
	}
	return n, err
}

func (r *records) whole() bool { return r.have == 0 }
