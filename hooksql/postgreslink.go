package hooksql

import (
	"context"
	"database/sql"
	"sync"
	"time"
)

const (
	// dropEvery is the least time between two drops: the connections of one busy pool notice within
	// moments of each other that their server is out of service, and one drop covers them all.
	dropEvery   = time.Second
	dropTimeout = time.Second
)

// postgresLink is what the pools of a store share.
type postgresLink struct {
	pools []*sql.DB

	mu      sync.Mutex
	dropped time.Time // guarded by mu
}

// drop closes the idle connections of all pools, so that the next ones are dialed again and find the
// server that accepts writes.
func (l *postgresLink) drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.dropped) < dropEvery {
		return
	}
	l.dropped = time.Now()
	for _, pool := range l.pools {
		dropIdle(pool)
	}
}

// dropIdle takes as many connections out of the pool as are idle now, and closes them in the
// background. The caller's code does not hold them, and connections in use stay open.
func dropIdle(pool *sql.DB) {
	ctx, cancel := context.WithTimeout(context.Background(), dropTimeout)
	defer cancel()
	var conns []*sql.Conn
	for range pool.Stats().Idle {
		conn, err := pool.Conn(ctx)
		if err != nil {
			break
		}
		conns = append(conns, conn)
	}
	go func() {
		for _, conn := range conns {
			discard(conn)
		}
	}()
}

// postgresHold is a connection out of a pool.
type postgresHold struct {
	conn    *sql.Conn
	link    *postgresLink
	spoiled bool
}

// Release implements pgsession.Session and pgsession.Tx.
func (h *postgresHold) Release() {
	if h.spoiled {
		discard(h.conn)
		return
	}
	giveBack(h.conn)
}

// Spoil implements pgsession.Spoiler.
func (h *postgresHold) Spoil() {
	h.spoiled = true
	h.link.drop()
}
