package hookpgx

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/hookonce/hookonce/internal/pgsession"
	"github.com/hookonce/hookonce/internal/pgstore"
)

// This file is for poolers, such as PgBouncer, between the store and the server. A pooler refuses or drops
// start-up parameters, and may hand each transaction to another session of the server, which
// other programs have used. So no setting may outlive a transaction: on the store's own pools each
// transaction states its isolation level and its settings. They travel with BEGIN, in one round trip.
//
// The first connection decides for all pools of the store: it asks for the start-up parameters, and a
// pooler shows itself by the refusal, by other settings, or by the number of a process that is not the
// server's.

const (
	// codeProtocol is the SQLSTATE of all errors of PgBouncer. PostgreSQL itself does not use it for
	// a start-up parameter.
	codeProtocol = "08P01"
	// codeTooMany is the SQLSTATE of a server, a database or a role that has as many connections as it may.
	codeTooMany = "53300"
	// codeNoRights refuses a role.
	codeNoRights = "42501"
	// codePassword is the SQLSTATE of a wrong password, and codeNotAdmitted that of a wrong token on some platforms.
	codePassword    = "28P01"
	codeNotAdmitted = "28000"
	// scarceFor is how long the store keeps no idle connections after a pooler had none to spare.
	scarceFor = time.Minute
	// The pauses before a connection is dialled again that the server had no room for are random times up to these.
	firstTooMany   = 20 * time.Millisecond
	longestTooMany = time.Second

	beginReadCommitted = "BEGIN ISOLATION LEVEL READ COMMITTED"
)

// passwordPauses are the pauses before a refused password is read again: it may be changing right now.
var passwordPauses = []time.Duration{50 * time.Millisecond, 500 * time.Millisecond}

// passed are the start-up parameters that poolers accept and keep for each client, in lower case.
// "options" stays too: it is the caller's, and only the server can read it.
var passed = []string{"application_name", "client_encoding", "datestyle", "options", "standard_conforming_strings", "timezone"}

func isPassed(name string) bool { return slices.Contains(passed, strings.ToLower(name)) }

// boundsSQL returns the statement that applies start-up parameters to one transaction.
func boundsSQL(params map[string]string) string {
	var calls []string
	for _, name := range slices.Sorted(maps.Keys(params)) {
		if isPassed(name) || name == "default_transaction_isolation" {
			continue
		}
		calls = append(calls, "set_config("+quote(name)+", "+quote(params[name])+", true)")
	}
	return "SELECT " + strings.Join(calls, ", ")
}

// quote returns a literal. standard_conforming_strings is on.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// beforeConnect returns a hook that runs before, if it is not nil. Behind a pooler it leaves out the
// start-up parameters that the pooler may refuse or drop.
func (l *link) beforeConnect(before func(context.Context, *pgx.ConnConfig) error) func(context.Context, *pgx.ConnConfig) error {
	return func(ctx context.Context, config *pgx.ConnConfig) error {
		if before != nil {
			if err := before(ctx, config); err != nil {
				return err
			}
		}
		if l.pooled.Load() {
			maps.DeleteFunc(config.RuntimeParams, func(name, _ string) bool { return !isPassed(name) })
		}
		l.order(config)
		return nil
	}
}

// poolerError says that a connection is not a session of the server with the settings asked for.
type poolerError struct{ error }

// adapt adapts the pools to a pooler that err shows, and reports whether another connection may
// succeed.
func (l *link) adapt(err error) bool {
	var pooler *poolerError
	var connecting *pgconn.ConnectError // not a wait for a connection of a full pool
	switch {
	case errors.As(err, &pooler), refusedBy(err, codeProtocol): // as PgBouncer does
		l.pooled.Store(true)
		return true
	case l.pooled.Load() && errors.As(err, &connecting) && (pgconn.Timeout(err) || errors.Is(err, context.DeadlineExceeded)):
		// Each idle connection keeps one of the server's from the other pools.
		l.scarceUntil.Store(time.Now().Add(scarceFor).UnixNano())
		for _, pool := range l.own {
			pool.Reset()
		}
		return true
	}
	return false
}

// refusedBy reports whether one of the hosts refused the start-up with a code.
func refusedBy(err error, code string) bool {
	if pg, ok := err.(*pgconn.PgError); ok { //nolint:errorlint // the tree is walked here
		return pg.Code == code
	}
	switch err := err.(type) { //nolint:errorlint // the tree is walked here
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(err.Unwrap(), func(err error) bool { return refusedBy(err, code) })
	case interface{ Unwrap() error }:
		return refusedBy(err.Unwrap(), code)
	}
	return false
}

// scarce reports whether connections are closed after each use.
func (l *link) scarce() bool {
	return time.Now().UnixNano() < l.scarceUntil.Load()
}

// acquire takes a connection for a call of a kind. It returns the statement that bounds each transaction on a
// session that is not the pool's alone, otherwise "".
func (c client) acquire(ctx context.Context, k kind) (h held, bounds string, err error) {
	adapted, again := false, passwordPauses
	var full error
	for wait := firstTooMany; ; wait = min(2*wait, longestTooMany) {
		h, bounds, err = c.take(ctx, k)
		switch {
		case err == nil:
			return h, bounds, nil
		case ctx.Err() != nil && full != nil:
			return h, bounds, fmt.Errorf("%w: %w", context.Cause(ctx), full) // it tells more than the time that is over
		case ctx.Err() != nil:
			return h, bounds, err
		case refusedBy(err, codeTooMany):
			full = err
			c.link.refused()
			_ = pgstore.Pause(ctx, rand.N(wait)) // others are about to close theirs; take tells of ctx
		case c.link.rereads && len(again) > 0 && (refusedBy(err, codePassword) || refusedBy(err, codeNotAdmitted)):
			_ = pgstore.Pause(ctx, again[0])
			again = again[1:]
		case c.bounds != "" && !adapted && c.link.adapt(err):
			adapted = true
		default:
			return h, bounds, err
		}
	}
}

// take takes a connection out of the pool, or out of the one that all share. The caller's runs stay on the caller's pool.
func (c client) take(ctx context.Context, k kind) (h held, bounds string, err error) {
	entered, err := c.link.sharing.enter(ctx, k)
	if err != nil {
		return held{}, "", err
	}
	h = held{pool: c.pool, link: c.link, kind: k, entered: entered}
	if entered && (c.bounds != "" || k == short) {
		h.pool, bounds = c.link.sharing.pool, c.shared
	}
	if h.conn, err = h.pool.Acquire(ctx); err != nil {
		h.leave()
		return held{}, "", err
	}
	if c.link.pooled.Load() && bounds == "" {
		bounds = c.bounds
	}
	return h, bounds, nil
}

// beginSQL returns the text of BEGIN, which pgx does not tell.
func beginSQL(options pgx.TxOptions) string {
	if options.BeginQuery != "" {
		return options.BeginQuery
	}
	return strings.TrimRight(fmt.Sprintf("BEGIN ISOLATION LEVEL %s %s", options.IsoLevel, options.AccessMode), " ")
}

// queryBounded runs a statement in a transaction of its own, in one round trip.
func queryBounded(ctx context.Context, conn *pgx.Conn, bounds, sql string, args []any) (pgstore.Rows, error) {
	batch := &pgx.Batch{}
	batch.Queue(beginReadCommitted)
	batch.Queue(bounds)
	batch.Queue(sql, args...)
	batch.Queue("COMMIT")
	r := &boundedRows{ctx: ctx, conn: conn, results: conn.SendBatch(ctx, batch)}
	for range 2 {
		if _, err := r.results.Exec(); err != nil {
			r.end(err)
			return nil, err
		}
	}
	r.Rows, r.err = r.results.Query()
	if r.err != nil {
		r.end(r.err)
		return nil, r.err
	}
	return r, nil
}

// boundedRows are the rows of a statement that runs in a transaction of its own.
type boundedRows struct {
	pgx.Rows
	ctx     context.Context
	conn    *pgx.Conn
	results pgx.BatchResults
	err     error
	ended   bool
}

// Next implements pgstore.Rows. After the last row it waits for the commit.
func (r *boundedRows) Next() bool {
	if r.ended {
		return false
	}
	if r.Rows.Next() {
		return true
	}
	r.Close()
	return false
}

// Err implements pgstore.Rows.
func (r *boundedRows) Err() error { return r.err }

// Close implements pgstore.Rows. The transaction commits even if not all rows were read, like a
// statement that commits by itself.
func (r *boundedRows) Close() {
	if r.ended {
		return
	}
	r.Rows.Close()
	err := r.Rows.Err()
	if err == nil {
		_, err = r.results.Exec()
	}
	r.end(err)
}

// end reads the results to their end, and leaves no transaction open. err is the first error.
func (r *boundedRows) end(err error) {
	r.ended = true
	if closeErr := r.results.Close(); err == nil {
		err = closeErr
	}
	r.err = err
	if err == nil || r.conn.IsClosed() || r.conn.PgConn().TxStatus() == 'I' {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), pgsession.CleanUpTimeout)
	defer cancel()
	_, _ = r.conn.Exec(ctx, "ROLLBACK") // if it fails, the pool closes the connection
}

// unnamedTx is a transaction whose statements are not prepared under a name: the next transaction may be
// on a session that does not know the name.
type unnamedTx struct{ pgx.Tx }

// Begin implements pgx.Tx.
func (t unnamedTx) Begin(ctx context.Context) (pgx.Tx, error) {
	tx, err := t.Tx.Begin(ctx)
	if err != nil {
		return nil, err
	}
	return unnamedTx{tx}, nil
}

// Exec implements pgx.Tx. An execution mode among the arguments wins.
func (t unnamedTx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return t.Tx.Exec(ctx, sql, withMode(args)...)
}

// Query implements pgx.Tx.
func (t unnamedTx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return t.Tx.Query(ctx, sql, withMode(args)...)
}

// QueryRow implements pgx.Tx.
func (t unnamedTx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return t.Tx.QueryRow(ctx, sql, withMode(args)...)
}
