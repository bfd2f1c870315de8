package brokertest

import (
	"bytes"
	"context"
	"net"
	"runtime/pprof"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
)

// Proxy stands between a Sender and its server, and makes faults of the network.
type Proxy struct {
	Addr string // HOST:PORT

	t      testing.TB
	server string
	muted  atomic.Bool

	mu    sync.Mutex
	pairs []*pair // the connections until Freeze or Cut
	all   []*pair
}

// pair is a connection of a client, and the one to the server for it.
type pair struct {
	client, server net.Conn
	frozen         atomic.Bool
	writing        sync.Mutex // of writes to the client
}

// StartProxy starts a proxy for the server at HOST:PORT. It ends with the test.
func StartProxy(t testing.TB, server string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{t: t, Addr: l.Addr().String(), server: server}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			conn, err := net.Dial("tcp", server)
			if err != nil {
				client.Close()
				continue
			}
			c := &pair{client: client, server: conn}
			p.mu.Lock()
			p.pairs = append(p.pairs, c)
			p.all = append(p.all, c)
			p.mu.Unlock()
			wg.Go(func() { c.forward(conn, client, func([]byte) bool { return true }) })
			wg.Go(func() { c.forward(client, conn, func([]byte) bool { return !p.muted.Load() }) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		p.mu.Lock()
		for _, c := range p.all {
			c.close()
		}
		p.mu.Unlock()
		wg.Wait()
	})
	return p
}

func (c *pair) close() {
	c.client.Close()
	c.server.Close()
}

// forward forwards what passes lets through. A frozen pair is left open, and no one reads it.
func (c *pair) forward(to, from net.Conn, passes func([]byte) bool) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if c.frozen.Load() {
			return
		}
		if err != nil {
			c.close()
			return
		}
		if passes(buf[:n]) {
			c.write(to, buf[:n])
		}
	}
}

func (c *pair) write(to net.Conn, b []byte) {
	if to == c.client {
		c.writing.Lock()
		defer c.writing.Unlock()
	}
	_, _ = to.Write(b) // a broken connection ends at the next read
}

// take returns the present connections, which are left to its caller.
func (p *Proxy) take() []*pair {
	p.mu.Lock()
	defer p.mu.Unlock()
	pairs := p.pairs
	p.pairs = nil
	return pairs
}

// Mute drops what the server sends, or no longer.
func (p *Proxy) Mute(muted bool) { p.muted.Store(muted) }

// Freeze reads no more from the present connections. New ones work.
func (p *Proxy) Freeze() {
	for _, c := range p.take() {
		c.frozen.Store(true)
	}
}

// Cut ends the present connections.
func (p *Proxy) Cut() {
	for _, c := range p.take() {
		c.close()
	}
}

// Inject sends text to the clients, as if the server had.
func (p *Proxy) Inject(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.pairs {
		c.write(c.client, []byte(text))
	}
}

// RunMarked runs a function, and returns whether goroutines are left that it has started.
func RunMarked(t testing.TB, run func(context.Context)) (left func() bool) {
	t.Helper()
	pprof.Do(t.Context(), pprof.Labels("marked", t.Name()), run)
	mark := []byte(`"marked":` + strconv.Quote(t.Name()))
	return func() bool {
		var text bytes.Buffer
		_ = pprof.Lookup("goroutine").WriteTo(&text, 1) // a buffer fails never
		return bytes.Contains(text.Bytes(), mark)
	}
}
