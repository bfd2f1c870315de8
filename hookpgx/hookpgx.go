// Package hookpgx is hookonce's store on PostgreSQL, over [github.com/jackc/pgx/v5]. It needs
// PostgreSQL 13 or newer.
//
//	pool, err := pgxpool.New(ctx, "postgres://app@db/app")
//	db := hookpgx.New(pool)
//
// A store works on four pools, so that neither slow work nor slow listings delay an answer.
// Handlers, leases, outcomes and pruning use the caller's pool. Claims and other calls that a
// sender waits for use a pool of the store's own. Listings, replays, checks and migrations use
// another one, and searches for a text a third one, of two connections. The store makes its pools from the caller's configuration. On their connections it pins the
// settings that the guarantee needs, and reads them back from the server when it connects.
//
// When the server, the database or the role has no more connections (SQLSTATE 53300), all calls share those that
// there are, and each transaction brings the settings of its pool. Two are enough. Runs of handlers stay on the
// caller's pool, at most half of all at once.
//
// # Several hosts
//
// The store's own pools connect to the host of the DSN that accepts writes. The caller's pool does so with
// target_session_attrs=read-write. If a server becomes read-only or shuts down, the store closes the
// connection that met the error and the idle ones of all pools, so that the next ones are dialed again.
// No transaction of the store overrides default_transaction_read_only. A run of handlers sets it after
// its transaction has begun, as a mark that has no effect there.
//
// # Handlers
//
// A handler's pgx.Tx is a transaction on the caller's pool, at the level READ COMMITTED. Its
// idle_in_transaction_session_timeout is one minute: if a process is silent for longer, the server
// ends its session. The pool decides everything else. The Commit and Rollback of the transaction
// only return an error, and the attempt fails even if the handler ignores that error. (With package
// hooksql they do end the transaction.) A handler must not send COMMIT as a statement either: the
// event is then dead with the note driver.NoteTxEnded, and only a replay that names the note runs
// it again. Savepoints, made with its Begin, belong to the handler. Handlers of a batch share the transaction, so a SET
// LOCAL of one applies to the next.
//
// Before an event is marked as done, hookonce checks deferred constraints and restores the role
// that the transaction began with. A handler must close the rows it reads. Handlers of all
// kinds leave two connections of the pool for leases, outcomes and upkeep (one, of two or three); a
// pool of one connection is refused. Give the pool more than the default of pgxpool, four
// connections, if the rest of the program uses it too.
//
// # Synchronous standbys
//
// If the server cancels a commit's wait for its synchronous standbys, the commit succeeds with a
// warning. The store sees it on its own pools. [WatchCommits] makes it see the warning on the
// caller's pool, too.
//
// # Poolers
//
// The store works behind PgBouncer with session and transaction pooling, without an option. Its own pools
// notice a pooler when they connect: it refuses or drops start-up parameters, or invents the number of
// the server's process. From then on each transaction states its isolation level and its settings, in
// the same round trip, and nothing stays on the session of the server. Settings that the caller's
// configuration has as start-up parameters are applied in the same way.
//
// The caller's pool is the caller's. Behind transaction pooling its statements need
// default_query_exec_mode=cache_describe, or a PgBouncer that tracks prepared statements. In the
// transactions of handlers, Exec, Query and QueryRow work without; SendBatch does not. Allow the pooler
// more sessions than all handlers of all processes use at once, because recording their work needs another one.
package hookpgx

import (
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
	link          *link
	work, receive *pgxpool.Pool
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
	store, err := newStore(pool, pool.Config(), o)
	if err != nil {
		return nil, fmt.Errorf("hookpgx: %w", err)
	}
	return store, nil
}

// Open returns a store that makes all of its pools itself, on the database of config. It is for
// programs without work of their own on the database. The work pool is as large as config says;
// settings of config that bound statements, locks and idle transactions hold for it. Open does not
// connect. nil options mean the defaults. Close closes the pools.
func Open(config *pgxpool.Config, opts *Options) (*Store, error) {
	o, err := withDefaults(opts)
	if err != nil {
		return nil, fmt.Errorf("hookpgx: %w", err)
	}
	store, err := newStore(nil, config, o)
	if err != nil {
		return nil, fmt.Errorf("hookpgx: %w", err)
	}
	return store, nil
}

// newStore returns a store whose work pool is the caller's, or one of its own if users is nil.
func newStore(users *pgxpool.Pool, config *pgxpool.Config, o *Options) (_ *Store, err error) {
	s := &Store{link: &link{users: users}}
	defer func() {
		if err != nil {
			_ = s.Close()
		}
	}()
	settings := workSettings(config.ConnConfig.RuntimeParams)
	work := client{pool: users, link: s.link, shared: boundsSQL(settings)}
	var workDB pgstore.DB = pgsession.New(work)
	if users == nil {
		if work, err = s.link.open(config.Copy(), int(config.MaxConns), settings); err != nil {
			return nil, err
		}
		workDB = pgsession.NewBinary(work)
	}
	receive, err := s.link.open(config.Copy(), o.ReceiveConns, receiveSettings())
	if err != nil {
		return nil, err
	}
	admin, err := s.link.open(config.Copy(), o.AdminConns, adminSettings())
	if err != nil {
		return nil, err
	}
	search, err := s.link.open(config.Copy(), driver.TextSearches, adminSettings())
	if err != nil {
		return nil, err
	}
	admin.kind, search.kind = long, long
	if err := s.link.share(config.Copy()); err != nil {
		return nil, err
	}
	s.work, s.receive = work.pool, receive.pool
	s.use(o.Schema, pgstore.Pools{
		Receive: pgsession.NewBinary(receive),
		Work:    workDB,
		Admin:   pgsession.NewReadCommitted(admin),
		Search:  pgsession.NewReadCommitted(search),
	})
	return s, nil
}

func (s *Store) use(schema string, pools pgstore.Pools) {
	s.Store = pgsession.NewStore(pgstore.New(schema, pools), newHandlerTx, func(tx pgx.Tx) pgstore.Conn { return txConn{tx} })
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

// Pool implements [driver.Store].
func (s *Store) Pool() (p driver.Pool) {
	for _, pool := range s.link.all() {
		stat := pool.Stat()
		p.InUse += int(stat.AcquiredConns())
		p.Idle += int(stat.IdleConns())
	}
	p.Max = s.link.sharing.most
	return p
}

// WorkLimits implements [driver.Driver]. Handlers may not hold all of the work pool, because
// leases, outcomes and pruning use it too.
func (s *Store) WorkLimits() driver.WorkLimits {
	return pgstore.WorkLimits(int(s.work.Config().MaxConns))
}

// Close closes the store's own pools once their calls have ended. The caller's pool stays open.
func (s *Store) Close() error {
	for _, pool := range s.link.own {
		pool.Close()
	}
	return nil
}
