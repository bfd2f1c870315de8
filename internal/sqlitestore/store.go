package sqlitestore

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// readTimeout bounds every listing, so that no reader blocks the checkpoints of the log for long.
const readTimeout = 5 * time.Second

// Store implements driver.Driver on SQLite. Make one with New.
type Store struct {
	writer     *sql.DB
	reader     *sql.DB
	migrations []driver.Migration

	stmts statements

	// readers are held back while the log is cut.
	readers   gate
	searching chan struct{} // holds an element for each search for a text
	log       logKeeper
	place     place
	lockWait  time.Duration // how long a write waits for other writers if its context does not end

	// detached counts the goroutines whose callers have left: a BEGIN or a COMMIT in progress, or
	// the cutting of the log.
	detached sync.WaitGroup
	closing  context.Context // ends with Close
	close    context.CancelFunc
}

var _ driver.Driver[*sql.Tx] = (*Store)(nil)

// New returns a store that writes through writer and reads through reader, two pools on one file.
// The writer must begin its transactions with BEGIN IMMEDIATE and have one connection. migrations
// are the steps of the schema, in order. New does not touch the database.
func New(writer, reader *sql.DB, migrations []driver.Migration) *Store {
	s := &Store{writer: writer, reader: reader, migrations: migrations, searching: make(chan struct{}, driver.TextSearches)}
	s.log.max, s.lockWait = maxLog, maxLockWait
	s.closing, s.close = context.WithCancel(context.Background())
	return s
}

// Close waits for detached calls and releases the prepared statements. It does not wait for runs,
// which their callers end, and does not close the pools.
func (s *Store) Close() error {
	s.close()
	s.detached.Wait()
	return s.stmts.close()
}

// ClaimConcurrency returns 1: a second claim would only wait for the first.
func (s *Store) ClaimConcurrency() int { return 1 }

// Pool implements driver.Store.
func (s *Store) Pool() (p driver.Pool) {
	for _, stats := range []sql.DBStats{s.writer.Stats(), s.reader.Stats()} {
		p.InUse += stats.InUse
		p.Idle += stats.Idle
		p.Max += stats.MaxOpenConnections
	}
	return p
}

// Now returns this process' clock in microseconds, which is also SQLite's clock, after a read of
// the file. The read uses the writer's connection, like claims, so Now fails when claims wait for a
// lock or a disk, and when the file is not in its place. It does not take the write lock, so that commands that only read work beside a
// long write.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	const op = "reading the clock"
	conn, err := s.writer.Conn(ctx)
	if err != nil {
		return time.Time{}, fmt.Errorf("%s: waiting for the writer: %w: %w", op, driver.ErrUnavailable, err)
	}
	defer conn.Close()
	var version int64
	if err = conn.QueryRowContext(ctx, `PRAGMA schema_version`).Scan(&version); err == nil {
		err = s.findFile(ctx, conn)
	}
	if err == nil {
		err = s.place.inPlace(conn)
	}
	if err != nil {
		return time.Time{}, s.failed(ctx, op, err)
	}
	return fromMicros(clock(time.Time{})), nil
}

// clock returns now in microseconds; override is for tests.
func clock(override time.Time) int64 {
	if override.IsZero() {
		return time.Now().UnixMicro()
	}
	return override.UnixMicro()
}

// The times that JSON can hold, in microseconds. Other programs may write any number into the file.
var (
	earliest = time.Time{}.UnixMicro()
	latest   = time.Date(9999, 12, 31, 23, 59, 59, 999_999_000, time.UTC).UnixMicro()
)

func fromMicros(us int64) time.Time { return time.UnixMicro(min(max(us, earliest), latest)).UTC() }

// fromNullMicros returns the zero time for NULL.
func fromNullMicros(us sql.NullInt64) time.Time {
	if !us.Valid {
		return time.Time{}
	}
	return fromMicros(us.Int64)
}

// blob returns b as a value that is never NULL. A nil slice would be NULL.
func blob(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
