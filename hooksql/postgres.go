package hooksql

import (
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookmigrate"
	"github.com/hookonce/hookonce/internal/pgsession"
	"github.com/hookonce/hookonce/internal/pgstore"
)

// DefaultSchema is the default of PostgresOptions.Schema.
const DefaultSchema = "hookonce"

// Limits of the pools that OpenPostgres opens.
const (
	workConns    = 16
	receiveConns = 8
	adminConns   = 4
	connIdleTime = 5 * time.Minute
	connLifetime = time.Hour
)

// maxClaims is the most concurrent claims that are faster than fewer.
const maxClaims = 4

// PostgresOptions configure a PostgresStore. The zero value of every field is
// usable.
type PostgresOptions struct {
	// Schema is the schema of hookonce's tables: up to 63 of [a-z0-9_], not beginning with a digit
	// or "pg_". It need not exist: a migration creates it. Defaults to "hookonce".
	Schema string
	// Receive is the pool for claims and other calls that a sender waits for, and for the records
	// of runs. It must be on the same database, with the same user. Give receiving a pool of its
	// own, so that slow handlers do not delay answers. Defaults to the store's pool.
	Receive *sql.DB
	// Admin is the pool for listings, replays, checks and migrations, on the same database.
	// Defaults to the store's pool.
	Admin *sql.DB
	// Search is the pool for searches for a text, on the same database. At most driver.TextSearches run
	// at once. Defaults to Admin.
	Search *sql.DB
	// Unconfirmed reports, and forgets, whether a connection of the driver got the warning that the
	// server stopped waiting for its synchronous standbys: a notice whose routine is
	// SyncRepWaitForLSN. A commit with that warning is on the primary alone, and counts as unknown.
	// database/sql has no such notices, so only a hook of the driver sees them; docs/library.md
	// shows it for pgx. nil: a cancelled wait counts as a commit.
	Unconfirmed func(driverConn any) bool
}

// PostgresStore is a [driver.Driver] on PostgreSQL over database/sql, whose handlers work in a
// *sql.Tx. Its methods may be called concurrently.
type PostgresStore struct {
	*pgsession.Store[*sql.Tx]
	db, receive *sql.DB
	pools       []*sql.DB // all, without repetition
	own         []*sql.DB // closed by Close
}

var _ driver.Driver[*sql.Tx] = (*PostgresStore)(nil)

// NewPostgres is NewPostgresWithOptions with the defaults. It panics if db is nil or limited to one
// connection.
func NewPostgres(db *sql.DB) *PostgresStore {
	store, err := NewPostgresWithOptions(db, nil)
	if err != nil {
		panic(err)
	}
	return store
}

// NewPostgresWithOptions returns a store on the database of db. It does not connect: Now,
// hookmigrate.Check and Weaknesses tell whether the database is there, migrated and durable. nil
// options mean the defaults.
//
// While a handler works, its transaction holds one connection of db, and another one of Receive
// records the run. So a db that is limited to one connection (SetMaxOpenConns(1)) is refused if it
// is the receiving pool too. hookonce.New reads the limit of db, and leaves connections for leases,
// outcomes and upkeep; set it before.
//
// The pools stay the caller's: Close does not close them, and they must stay open as long as the
// store is used.
func NewPostgresWithOptions(db *sql.DB, opts *PostgresOptions) (*PostgresStore, error) {
	o := PostgresOptions{}
	if opts != nil {
		o = *opts
	}
	if db == nil {
		return nil, errors.New("hooksql: the pool is nil")
	}
	if o.Schema == "" {
		o.Schema = DefaultSchema
	}
	if err := hookmigrate.CheckSchemaName(o.Schema); err != nil {
		return nil, fmt.Errorf("hooksql: %w", err)
	}
	if (o.Receive == nil || o.Receive == db) && db.Stats().MaxOpenConnections == 1 {
		return nil, errors.New("hooksql: the pool is limited to one connection, and a run needs two (the handler's transaction, " +
			"and the record of the run): allow more connections, or give Receive a pool of its own")
	}
	if o.Receive == nil {
		o.Receive = db
	}
	if o.Admin == nil {
		o.Admin = db
	}
	if o.Search == nil {
		o.Search = o.Admin
	}
	bases := map[*sql.DB]*pgsession.DB{}
	link := &postgresLink{}
	for _, pool := range []*sql.DB{db, o.Receive, o.Admin, o.Search} {
		if bases[pool] == nil {
			bases[pool] = pgsession.New(&postgresClient{pool: pool, cut: o.Receive, link: link, unconfirmed: o.Unconfirmed})
			link.pools = append(link.pools, pool)
		}
	}
	store := pgstore.New(o.Schema, pgstore.Pools{
		Receive: bases[o.Receive],
		Work:    bases[db],
		Admin:   bases[o.Admin],
		Search:  bases[o.Search],
	})
	return &PostgresStore{
		Store: pgsession.NewStore(store,
			func(_ *pgstore.Run, tx pgsession.RunTx) *sql.Tx { return tx.(*postgresRunTx).tx },
			func(tx *sql.Tx) pgstore.Conn { return postgresConn{tx} }),
		db:      db,
		receive: o.Receive,
		pools:   link.pools,
	}, nil
}

// OpenPostgres opens four pools on a database, for handlers (up to 16 connections), receiving (8),
// administration (4) and searches for a text (2). driverName is registered with database/sql: "pgx" of
// github.com/jackc/pgx/v5/stdlib, or "postgres" of github.com/lib/pq. OpenPostgres does not
// connect. Close the store to close the pools.
//
// With pgx the pools send unnamed statements, which poolers need, unless dsn has default_query_exec_mode.
func OpenPostgres(driverName, dsn string) (*PostgresStore, error) {
	var pools []*sql.DB
	for _, conns := range []int{workConns, receiveConns, adminConns, driver.TextSearches} {
		pool, err := openUnnamed(driverName, dsn)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("hooksql: opening a pool: %w", err), closePools(pools))
		}
		pool.SetMaxOpenConns(conns)
		pool.SetMaxIdleConns(conns)
		pool.SetConnMaxIdleTime(connIdleTime)
		pool.SetConnMaxLifetime(connLifetime)
		pools = append(pools, pool)
	}
	store, err := NewPostgresWithOptions(pools[0], &PostgresOptions{Receive: pools[1], Admin: pools[2], Search: pools[3]})
	if err != nil {
		return nil, errors.Join(err, closePools(pools))
	}
	store.own = pools
	return store, nil
}

// Close closes the pools that OpenPostgres opened.
func (s *PostgresStore) Close() error { return closePools(s.own) }

func closePools(pools []*sql.DB) error {
	errs := make([]error, len(pools))
	for i, pool := range pools {
		errs[i] = pool.Close()
	}
	return errors.Join(errs...)
}

// ClaimConcurrency implements [driver.Store]: half of the receiving connections, at most four, so
// that claims do not delay the other calls.
func (s *PostgresStore) ClaimConcurrency() int {
	conns := s.receive.Stats().MaxOpenConnections
	if conns <= 0 {
		return maxClaims
	}
	if s.receive == s.db {
		conns /= 2 // handlers use the others
	}
	return min(max(1, conns/2), maxClaims)
}

// Pool implements [driver.Store].
func (s *PostgresStore) Pool() (p driver.Pool) {
	for _, pool := range s.pools {
		stats := pool.Stats()
		p.InUse += stats.InUse
		p.Idle += stats.Idle
		p.Max += stats.MaxOpenConnections
	}
	return p
}

// WorkLimits implements [driver.Driver]. If the store's pool is the receiving pool too, handlers hold
// half of it at most: claims and the records of runs use it as well.
func (s *PostgresStore) WorkLimits() driver.WorkLimits {
	conns := s.db.Stats().MaxOpenConnections
	limits := pgstore.WorkLimits(conns)
	if conns > 1 && s.receive == s.db {
		limits.MaxTransactions = conns / 2
	}
	return limits
}
