package dbtest

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/hookonce/hookonce/internal/test/eventually"
)

// Cut is the fault that follows a dropped reply.
type Cut int

const (
	// CutReset resets the connection, as a crashed peer does.
	CutReset Cut = iota
	// CutSilence keeps the connection open and sends nothing more, as a broken network does.
	CutSilence
)

// Proxy connects a client to a server, and drops replies on demand. It parses the protocol as far
// as necessary, so it works only without TLS. Its methods may be called concurrently.
type Proxy struct {
	listener net.Listener
	server   string
	running  sync.WaitGroup

	mu     sync.Mutex
	drop   *Drop
	conns  map[net.Conn]struct{}
	closed bool // new connections are closed at once
}

// Drop is an order to drop one reply.
type Drop struct {
	statement string
	cut       Cut
	done      chan struct{}
}

// Done is closed when the server has executed the statement and its reply was dropped.
func (d *Drop) Done() <-chan struct{} { return d.done }

// Context returns the context of the call whose reply is dropped. A client that hears nothing more gives up
// once the server has executed the statement.
func (d *Drop) Context(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(eventually.Context(t))
	t.Cleanup(cancel)
	if d.cut == CutSilence {
		go func() {
			<-d.done
			cancel()
		}()
	}
	return ctx
}

// StartProxy starts a proxy in front of the server at a host and port. It is closed when the test
// ends.
func StartProxy(t testing.TB, server string) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("dbtest: %v", err)
	}
	p := &Proxy{listener: listener, server: server, conns: map[net.Conn]struct{}{}}
	p.running.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// Addr returns the host and port that the proxy listens on.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// DSN returns the URL dsn with the proxy in place of the server.
func (p *Proxy) DSN(t testing.TB, dsn string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatalf("dbtest: %v", err)
	}
	u.Host = p.Addr()
	return u.String()
}

// DropReply drops the reply to the next statement whose text contains the given text. The server
// executes the statement.
func (p *Proxy) DropReply(statement string, cut Cut) *Drop {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop = &Drop{statement: statement, cut: cut, done: make(chan struct{})}
	return p.drop
}

// take returns the pending drop for a statement, once; nil if there is none.
func (p *Proxy) take(matches func(statement string) bool) *Drop {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.drop == nil || !matches(p.drop.statement) {
		return nil
	}
	due := p.drop
	p.drop = nil
	return due
}

// track records a connection, so that it is closed with the proxy. It returns false if the proxy
// takes no connections.
func (p *Proxy) track(conn net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.conns[conn] = struct{}{}
	return true
}

func (p *Proxy) forget(conn net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, conn)
}

// CutAll resets every open connection. The proxy serves new ones.
func (p *Proxy) CutAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.conns {
		reset(conn)
	}
}

// Refuse resets every open connection, and closes new ones at once until Serve is called.
func (p *Proxy) Refuse() {
	p.setClosed(true)
	p.CutAll()
}

// Serve ends Refuse.
func (p *Proxy) Serve() { p.setClosed(false) }

func (p *Proxy) setClosed(closed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = closed
}

func (p *Proxy) close() {
	p.setClosed(true)
	_ = p.listener.Close()
	p.CutAll()
	p.running.Wait()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		p.running.Go(func() { p.serve(client) })
	}
}

// serve forwards messages between client and server until one of them ends.
func (p *Proxy) serve(client net.Conn) {
	defer client.Close()
	if !p.track(client) {
		return
	}
	defer p.forget(client)
	server, err := net.Dial("tcp", p.server)
	if err != nil {
		reset(client)
		return
	}
	defer server.Close()
	if !p.track(server) {
		return
	}
	defer p.forget(server)

	c := &conversation{proxy: p, client: client, server: server, statements: map[string]string{}}
	p.running.Go(func() {
		c.replies()
		// The server's side has ended; a silent client stays connected.
		if c.silent() {
			return
		}
		_ = client.Close()
	})
	c.requests()
}

// reset closes a connection so that the peer sees a reset.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // closed below in any case
	}
	_ = conn.Close()
}

// discard reads from a client until it disconnects.
func discard(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }
