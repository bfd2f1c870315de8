package hookpgx

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// dropEvery is the least time between two drops: the connections of one busy pool notice within
	// moments of each other that their server is out of service, and one drop covers them all.
	dropEvery    = time.Second
	closeTimeout = time.Second
)

// link is the state that the pools of a store share.
type link struct {
	own   []*pgxpool.Pool // made by the store
	users *pgxpool.Pool   // the caller's pool; nil if the store made all of them

	// pooled is set when a connection shows a pooler; see pooler.go.
	pooled      atomic.Bool
	scarceUntil atomic.Int64 // Unix time in nanoseconds: until then connections are closed after use

	sharing sharing

	rereads bool // the caller's BeforeConnect may give each connection another password

	// unnamed is set when a session does not have the statement that it has prepared; see binary.go.
	unnamed atomic.Bool

	// begin tells the first of several hosts that connections try; see hosts.go.
	begin atomic.Uint64

	mu      sync.Mutex
	dropped time.Time // guarded by mu
}

// open makes a pool of the store. It does not connect. The config becomes the pool's.
func (l *link) open(config *pgxpool.Config, conns int, settings map[string]string) (client, error) {
	l.configure(config, conns, settings)
	// The context bounds nothing that lasts: connections are made when needed.
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return client{}, err
	}
	l.own = append(l.own, pool)
	bounds := boundsSQL(config.ConnConfig.RuntimeParams)
	return client{pool: pool, link: l, bounds: bounds, shared: bounds}, nil
}

// drop closes the idle connections of all pools, so that the next ones are dialed again and find the
// server that accepts writes.
func (l *link) drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.dropped) < dropEvery {
		return
	}
	l.dropped = time.Now()
	for _, pool := range l.own {
		pool.Reset()
	}
	if l.users != nil {
		dropIdle(l.users)
	}
}

// dropIdle takes the idle connections out of the caller's pool, and closes them in the background. The
// caller's code does not hold them, and connections in use stay open.
func dropIdle(pool *pgxpool.Pool) {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	for _, conn := range pool.AcquireAllIdle(ctx) {
		go closeConn(conn.Hijack())
	}
}

func closeConn(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	_ = conn.Close(ctx)
}

// held is a connection out of a pool.
type held struct {
	pool    *pgxpool.Pool
	conn    *pgxpool.Conn
	link    *link
	spoiled bool
	kind    kind
	entered bool // one of few connections, which the end of its use gives to the next call
}

// Release implements pgsession.Session.
func (h *held) Release() {
	defer h.leave()
	if h.spoiled || h.pool != h.link.users && h.link.scarce() || !h.entered && h.link.sharing.active() {
		go closeConn(h.conn.Hijack())
		return
	}
	h.conn.Release()
}

// leave lets the next call have the connection, if there are few.
func (h *held) leave() {
	if h.entered {
		h.link.sharing.leave(h.kind)
	}
}

// Spoil implements pgsession.Spoiler.
func (h *held) Spoil() {
	h.spoiled = true
	h.link.leave(h.conn.Conn())
	h.link.drop()
}
