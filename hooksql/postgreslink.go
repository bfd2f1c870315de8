package hooksql

import (
	"context"
	"database/sql"
	"reflect"
	"strings"
	"sync"
	"time"
)

// execMode makes pgx describe each statement once for a connection, and never prepare it on the server
// under a name: behind a pooler the next transaction may run in a session that does not know the name.
const execMode = "default_query_exec_mode=cache_describe"

// openUnnamed opens a pool whose statements have no names on the server, as far as the driver can be
// told.
func openUnnamed(driverName, dsn string) (*sql.DB, error) {
	pool, err := sql.Open(driverName, dsn)
	if err != nil || !isPgx(pool) || strings.Contains(dsn, "default_query_exec_mode") {
		return pool, err
	}
	with := unnamed(dsn)
	if with == dsn {
		return pool, nil
	}
	if err := pool.Close(); err != nil {
		return nil, err
	}
	return sql.Open(driverName, with)
}

// unnamed returns a data source name of pgx with execMode. Names of configurations that the program
// registered stay as they are.
func unnamed(dsn string) string {
	switch {
	case strings.HasPrefix(dsn, "registeredConnConfig"):
		return dsn
	case !strings.HasPrefix(dsn, "postgres://") && !strings.HasPrefix(dsn, "postgresql://"):
		return strings.TrimLeft(dsn+" "+execMode, " ")
	}
	dsn, fragment, _ := strings.Cut(dsn, "#")
	sign := "?"
	if strings.Contains(dsn, "?") {
		sign = "&"
	}
	if fragment != "" {
		fragment = "#" + fragment
	}
	return dsn + sign + execMode + fragment
}

// isPgx reports whether the driver of a pool is that of github.com/jackc/pgx.
func isPgx(pool *sql.DB) bool {
	t := reflect.TypeOf(pool.Driver())
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return strings.HasPrefix(t.PkgPath(), "github.com/jackc/pgx/") && strings.HasSuffix(t.PkgPath(), "/stdlib")
}

const (
	// dropEvery is the least time between two drops: the connections of one busy pool notice within
	// moments of each other that their server is out of service, and one drop covers them all.
	dropEvery   = time.Second
	dropTimeout = time.Second
)

// postgresLink is the state that the pools of a store share.
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
	client  *postgresClient
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
	h.client.link.drop()
}
