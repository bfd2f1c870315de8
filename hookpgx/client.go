package hookpgx

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/hookonce/hookonce/internal/pgsession"
	"github.com/hookonce/hookonce/internal/pgstore"
)

// execMode describes a statement once for each connection and sends it unnamed from then on. It works
// behind poolers, and the server plans each execution for the present sizes of the tables; a plan kept
// from when they were empty would read them whole.
const execMode = pgx.QueryExecModeCacheDescribe

// client is a pgsession.Client on a pgxpool.
type client struct {
	pool *pgxpool.Pool
	link *link
	// bounds is the statement that bounds a transaction behind a pooler; "" on the caller's pool, whose
	// settings are the caller's.
	bounds string
	// shared does so on a session that all calls share; see sharing.go.
	shared string
	// kind is that of all calls but runs.
	kind kind
}

var _ pgsession.Client = client{}

// Acquire implements pgsession.Client.
func (c client) Acquire(ctx context.Context) (pgsession.Session, error) {
	h, bounds, err := c.acquire(ctx, c.kind)
	if err != nil {
		return nil, err
	}
	forget(h.conn.Conn())
	return &session{held: h, bounds: bounds}, nil
}

// Begin implements pgsession.Client.
func (c client) Begin(ctx context.Context, level pgstore.Isolation) (pgsession.Tx, bool, error) {
	// Without an access mode: it would override that an operator made the server read-only.
	options := pgx.TxOptions{IsoLevel: pgx.ReadCommitted}
	if level == pgstore.Snapshot {
		options = pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	}
	tx, broken, err := c.begin(ctx, c.kind, options)
	if err != nil {
		return nil, broken, err
	}
	return tx, false, nil
}

// BeginRun implements pgsession.Client. A pgx.Tx does not end with the context of its BEGIN.
func (c client) BeginRun(ctx context.Context) (pgsession.RunTx, bool, error) {
	tx, broken, err := c.begin(ctx, long, pgx.TxOptions{BeginQuery: beginRun})
	if err != nil {
		return nil, broken, err
	}
	return tx, false, nil
}

// A run is marked by a setting that has no effect on the transaction itself and that a server from
// PostgreSQL 14 on reports whenever it changes. It changes back when the transaction ends, however
// that happens. So the client library knows without a round trip whether a handler ended the
// transaction and began another one.
const (
	markSetting = "default_transaction_read_only"
	beginRun    = beginReadCommitted + "; SET LOCAL " + markSetting + " = on"
)

func (c client) begin(ctx context.Context, k kind, options pgx.TxOptions) (tx *poolTx, broken bool, err error) {
	h, bounds, err := c.acquire(ctx, k)
	if err != nil {
		return nil, false, err
	}
	if bounds != "" {
		options = pgx.TxOptions{BeginQuery: beginSQL(options) + "; " + bounds}
	}
	conn := h.conn
	forget(conn.Conn())
	before := conn.Conn().PgConn().ParameterStatus(markSetting)
	began, err := conn.BeginTx(ctx, options)
	if err != nil {
		broken = conn.Conn().IsClosed()
		h.Release()
		return nil, broken, err
	}
	return &poolTx{
		txConn: txConn{began}, held: h,
		socket: conn.Conn().PgConn().Conn(), before: before,
	}, false, nil
}

// Refused implements pgsession.Client. It ignores pgconn.SafeToRetry, which since pgx 5.9 calls a lost
// reply to COMMIT safe.
func (c client) Refused(err error) bool {
	if errors.Is(err, pgx.ErrTxCommitRollback) {
		return true
	}
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return false
	}
	severity := pg.SeverityUnlocalized
	if severity == "" {
		severity = pg.Severity
	}
	return pgsession.Undone(pg.Code, severity)
}

// session is a pgsession.Session.
type session struct {
	held
	bounds string // for each statement; may be empty
}

// Query implements pgstore.Conn.
func (s *session) Query(ctx context.Context, sql string, args ...any) (pgstore.Rows, error) {
	rows, err := s.query(ctx, sql, args)
	if err != nil {
		return nil, err
	}
	return committedRows{rows, &s.held}, nil
}

func (s *session) query(ctx context.Context, sql string, args []any) (pgstore.Rows, error) {
	if s.bounds != "" {
		return queryBounded(ctx, s.conn.Conn(), s.bounds, sql, args)
	}
	return s.conn.Query(ctx, sql, withMode(args)...) //nolint:sqlclosecheck // the caller closes them
}

// Script implements pgstore.Conn.
func (s *session) Script(ctx context.Context, sql string) error {
	if s.bounds != "" {
		sql = s.bounds + "; " + sql
	}
	return script(ctx, s.conn.Conn(), sql)
}

// txConn is a pgstore.Conn in a transaction.
type txConn struct{ tx pgx.Tx }

// Query implements pgstore.Conn.
func (c txConn) Query(ctx context.Context, sql string, args ...any) (pgstore.Rows, error) {
	return c.tx.Query(ctx, sql, withMode(args)...) //nolint:sqlclosecheck // the caller closes them
}

// Script implements pgstore.Conn.
func (c txConn) Script(ctx context.Context, sql string) error { return script(ctx, c.tx.Conn(), sql) }

func withMode(args []any) []any { return append([]any{execMode}, args...) }

// script sends several statements in one message of the simple query protocol.
func script(ctx context.Context, conn *pgx.Conn, sql string) error {
	_, err := conn.PgConn().Exec(ctx, sql).ReadAll()
	return err
}

// poolTx is a pgsession.RunTx on a connection of a pool.
type poolTx struct {
	txConn
	held
	socket net.Conn // of conn
	before string   // markSetting before the transaction
	cut    atomic.Bool

	handlers handlerTx // of a run
}

var _ pgsession.RunTx = (*poolTx)(nil)

// Commit implements pgsession.Tx.
func (t *poolTx) Commit(ctx context.Context) error { return t.confirmed(t.tx.Commit(ctx)) }

// Rollback implements pgsession.Tx. pgx closes the connection if the rollback fails. A handler that
// does not return may use a connection that was cut, so nothing is sent on it.
func (t *poolTx) Rollback(ctx context.Context) {
	if t.cut.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pgsession.CleanUpTimeout)
	defer cancel()
	_ = t.tx.Rollback(ctx)
}

// Release implements pgsession.Tx. A connection that was cut leaves the pool unseen, because a
// handler may still use it.
func (t *poolTx) Release() {
	if t.cut.Load() {
		t.conn.Hijack()
		t.leave()
		return
	}
	t.held.Release()
}

// Status implements pgsession.RunTx.
func (t *poolTx) Status(context.Context) pgstore.TxStatus {
	conn := t.tx.Conn().PgConn()
	switch {
	case conn.IsClosed():
		return pgstore.TxLost
	case conn.IsBusy():
		return pgstore.TxBusy
	}
	switch conn.TxStatus() {
	case 'T':
		if t.before == "off" && conn.ParameterStatus(markSetting) == "on" {
			return pgstore.TxOpen
		}
		return pgstore.TxDoubtful
	case 'E':
		return pgstore.TxFailed
	}
	return pgstore.TxEnded
}

// Cut implements pgsession.RunTx. It closes the socket: nothing else may be done to a connection that
// a handler may use, and the handler's statement fails.
func (t *poolTx) Cut() {
	t.cut.Store(true)
	socket := t.socket
	if secure, ok := socket.(*tls.Conn); ok {
		socket = secure.NetConn() // Close of a tls.Conn waits for a write in progress
	}
	_ = socket.Close() // it may be closed already
}
