// Package hookpgx is hookonce's store on PostgreSQL, over [github.com/jackc/pgx/v5]. It needs
// PostgreSQL 12 or newer.
//
//	pool, err := pgxpool.New(ctx, "postgres://app@db/app")
//	db := hookpgx.New(pool)
//
// A store works on three pools, so that neither slow work nor slow listings delay an answer.
// Handlers, leases, outcomes and pruning use the caller's pool. Claims and other calls that a
// sender waits for use a pool of the store's own. Listings, replays, checks and migrations use
// another one. The store makes its pools from the caller's configuration. On their connections it pins the
// settings that the guarantee needs, and reads them back from the server when it connects.
//
// # Handlers
//
// A handler's pgx.Tx is a transaction on the caller's pool, at the level READ COMMITTED. Its
// idle_in_transaction_session_timeout is one minute: if a process is silent for longer, the server
// ends its session. The pool decides everything else. The Commit and Rollback of the transaction
// only return an error, and the attempt fails even if the handler ignores that error. Savepoints,
// made with its Begin, belong to the handler. Handlers of a batch share the transaction, so a SET
// LOCAL of one applies to the next.
//
// Before an event is marked as done, hookonce checks deferred constraints and restores the role
// that the transaction began with. A handler must close the rows it reads. Handlers hold at most
// half of the pool's connections, four by default.
//
// # Poolers
//
// Statements are never prepared on the server under a name, so a pooler may hand each transaction
// to another server connection. The pooler must pass start-up parameters on, or the store refuses
// the connection: name them in PgBouncer's ignore_startup_parameters only if you set them for the
// user or the database instead.
package hookpgx

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	hookonce "github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookmigrate"
	"github.com/hookonce/hookonce/internal/pgsession"
	"github.com/hookonce/hookonce/internal/pgstore"
)

// Defaults of Options.
const (
	DefaultSchema       = "hookonce"
	DefaultReceiveConns = 8
	DefaultAdminConns   = 4

	maxConns = 1000
)

// Options configure a Store. The zero value of every field is usable.
type Options struct {
	// Schema is the schema of hookonce's tables: up to 63 of [a-z0-9_], not beginning with a digit
	// or "pg_". It need not exist: a migration creates it. Defaults to "hookonce".
	Schema string
	// ReceiveConns is the most connections for claims. Defaults to 8.
	ReceiveConns int
	// AdminConns is the most connections for listings, replays, checks and migrations. Defaults to
	// 4.
	AdminConns int
}

// Store is a [driver.Driver] on PostgreSQL. Its methods may be called
// concurrently.
type Store struct {
	*pgsession.Store[pgx.Tx]
	work, receive, admin *pgxpool.Pool
}

var _ driver.Driver[pgx.Tx] = (*Store)(nil)

// Mux is a hookonce.Mux for handlers that work in a pgx.Tx.
type Mux = hookonce.Mux[pgx.Tx]

// New is NewWithOptions with the defaults. It panics if pool is nil.
func New(pool *pgxpool.Pool) *Store {
	store, err := NewWithOptions(pool, nil)
	if err != nil {
		panic(err) // the defaults are right
	}
	return store
}

// NewWithOptions returns a store on the database of pool. It does not connect: Now,
// hookmigrate.Check and Weaknesses tell whether the database is there, migrated and durable. nil
// options mean the defaults.
//
// The pool stays the caller's: Close does not close it, and it must stay open as long as the store
// is used.
func NewWithOptions(pool *pgxpool.Pool, opts *Options) (*Store, error) {
	if pool == nil {
		return nil, errors.New("hookpgx: the pool is nil")
	}
	o, err := withDefaults(opts)
	if err != nil {
		return nil, fmt.Errorf("hookpgx: %w", err)
	}
	receive, err := ownPool(pool, o.ReceiveConns, receiveSettings())
	if err != nil {
		return nil, fmt.Errorf("hookpgx: %w", err)
	}
	admin, err := ownPool(pool, o.AdminConns, adminSettings())
	if err != nil {
		receive.Close()
		return nil, fmt.Errorf("hookpgx: %w", err)
	}
	store := pgstore.New(o.Schema, pgstore.Pools{
		Receive: pgsession.NewReadCommitted(client{receive}),
		Work:    pgsession.New(client{pool}),
		Admin:   pgsession.NewReadCommitted(client{admin}),
	})
	return &Store{
		Store:   pgsession.NewStore(store, newHandlerTx, func(tx pgx.Tx) pgstore.Conn { return txConn{tx} }),
		work:    pool,
		receive: receive,
		admin:   admin,
	}, nil
}

func withDefaults(opts *Options) (*Options, error) {
	o := Options{}
	if opts != nil {
		o = *opts
	}
	if o.Schema == "" {
		o.Schema = DefaultSchema
	}
	if err := hookmigrate.CheckSchemaName(o.Schema); err != nil {
		return nil, err
	}
	for _, conns := range []struct {
		name     string
		value    *int
		fallback int
	}{{"ReceiveConns", &o.ReceiveConns, DefaultReceiveConns}, {"AdminConns", &o.AdminConns, DefaultAdminConns}} {
		if *conns.value == 0 {
			*conns.value = conns.fallback
		}
		if *conns.value < 1 || *conns.value > maxConns {
			return nil, fmt.Errorf("%s is %d: use 1 to %d", conns.name, *conns.value, maxConns)
		}
	}
	return &o, nil
}

// ClaimConcurrency implements [driver.Store]: half of the receiving connections, so that claims do
// not delay counts and reopenings.
func (s *Store) ClaimConcurrency() int { return max(1, int(s.receive.Config().MaxConns)/2) }

// WorkLimits implements [driver.Driver]. Handlers may hold half of the caller's pool, because
// leases, outcomes and pruning use it too.
func (s *Store) WorkLimits() driver.WorkLimits {
	return pgstore.WorkLimits(int(s.work.Config().MaxConns))
}

// Close closes the store's own pools once their calls have ended. The caller's pool stays open.
func (s *Store) Close() error {
	s.receive.Close()
	s.admin.Close()
	return nil
}

// ownPool returns a pool on the database of pool, with its own settings.
func ownPool(pool *pgxpool.Pool, conns int, settings map[string]string) (*pgxpool.Pool, error) {
	config := pool.Config() // a copy
	configure(config, conns, settings)
	// The context bounds nothing that lasts: connections are made when needed.
	return pgxpool.NewWithConfig(context.Background(), config)
}
