package hooksql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookmigrate"
	"github.com/hookonce/hookonce/internal/sqlitestore"
)

const (
	// maxReaders is the most readers of one store: four, and those of searches for a text.
	maxReaders = 4 + driver.TextSearches
	// openTimeout bounds OpenSQLite: recovering the log of a file, or waiting for other users of
	// the file, can take a while.
	openTimeout = 30 * time.Second
	// closeTimeout bounds the last checkpoint.
	closeTimeout = 5 * time.Second
)

// Store is a driver.Driver on SQLite whose transactions are *sql.Tx. It may be used concurrently.
// Any number of stores, in any number of processes on one machine, may share a file.
type Store struct {
	*sqlitestore.Store
	pools pools
	owned bool // the pools are the store's own
}

var _ driver.Driver[*sql.Tx] = (*Store)(nil)

// NewSQLite returns a store that writes through writer and reads through reader, two pools on one
// file with the settings of SQLiteDSN. The writer should have one connection (SetMaxOpenConns(1)):
// more would only wait for one another inside SQLite, where a context cannot end the wait.
// NewSQLite does not touch the database, and Close leaves the pools open. Weaknesses reports
// settings of the writer that could lose a commit. hookonce.New refuses handlers if the driver of
// the writer has no commit and rollback hooks.
func NewSQLite(writer, reader *sql.DB) *Store {
	return &Store{
		Store: sqlitestore.New(writer, reader, hookmigrate.SQLite()),
		pools: pools{writer: writer, reader: reader},
	}
}

// OpenSQLite opens the file at path, creates it if it does not exist, and checks that the settings
// are in force. driverName is registered with database/sql and takes the data source names of
// modernc.org/sqlite. OpenSQLite does not apply the schema. Close the store to close the file.
func OpenSQLite(driverName, path string) (*Store, error) {
	p, err := openPools(driverName, path)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), openTimeout)
	defer cancel()
	if err := p.check(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("hooksql: opening %q: %w", path, err), p.close())
	}
	store := NewSQLite(p.writer, p.reader)
	store.owned = true
	return store, nil
}

// Writer returns the pool that the store writes through, for the program's own tables in the same
// file: creating them, and writes outside handlers. Do not write through another pool: SQLite has
// one writer, so one of the two would fail with SQLITE_BUSY.
//
// The pool has one connection. While it has a transaction open, every claim and every handler
// waits, so keep it short. A handler must write through its own transaction; on the pool it would
// wait for itself. The pool of a store that OpenSQLite made is closed with the store.
func (s *Store) Writer() *sql.DB { return s.pools.writer }

// Reader returns the pool that the store reads through, for the program's own reads: connections
// that cannot write, and that neither wait for the writer nor block it. End a read soon, because an
// open one keeps the log from being cut. The pool of a store that OpenSQLite made is closed with the
// store.
func (s *Store) Reader() *sql.DB { return s.pools.reader }

// Close waits for writes in progress. If OpenSQLite made the store, Close also copies the log into
// the database, unless another connection is in the way, and closes both pools.
func (s *Store) Close() error {
	err := s.Store.Close()
	if !s.owned {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	// An error is harmless, because committed transactions are safe in the log too. PASSIVE waits
	// for no reader and no other process.
	_, _ = s.pools.writer.ExecContext(ctx, sqlitestore.CopyLog)
	return errors.Join(err, s.pools.close())
}

// pools are the two pools on one file.
type pools struct {
	writer, reader *sql.DB
}

func openPools(driverName, path string) (*pools, error) {
	writerDSN, readerDSN, err := SQLiteDSN(path)
	if err != nil {
		return nil, err
	}
	writer, err := sql.Open(driverName, writerDSN)
	if err != nil {
		return nil, fmt.Errorf("hooksql: opening %q: %w", path, err)
	}
	reader, err := sql.Open(driverName, readerDSN)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("hooksql: opening %q: %w", path, err), writer.Close())
	}
	writer.SetMaxOpenConns(1)
	reader.SetMaxOpenConns(maxReaders)
	reader.SetMaxIdleConns(maxReaders)
	return &pools{writer: writer, reader: reader}, nil
}

func (p *pools) close() error { return errors.Join(p.reader.Close(), p.writer.Close()) }

// check checks the settings of the writer and of every connection that the readers' pool can have.
func (p *pools) check(ctx context.Context) error {
	conn, err := firstConn(ctx, p.writer)
	if err != nil {
		return fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	}
	err = checkSettings(ctx, conn, []setting{
		{"journal_mode", "wal"},
		{"synchronous", "2"},
		{"secure_delete", "1"},
		{"busy_timeout", strconv.Itoa(writerBusyTimeout)},
		{"query_only", "0"},
	})
	if err := errors.Join(err, conn.Close()); err != nil {
		return err
	}
	readers := make([]*sql.Conn, 0, maxReaders)
	defer func() {
		for _, conn := range readers {
			_ = conn.Close() // back to the pool
		}
	}()
	for range maxReaders {
		conn, err := p.reader.Conn(ctx)
		if err != nil {
			return fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
		}
		readers = append(readers, conn)
		if err := checkSettings(ctx, conn, []setting{
			{"journal_mode", "wal"},
			{"synchronous", "2"},
			{"busy_timeout", strconv.Itoa(readerBusyTimeout)},
			{"query_only", "1"},
		}); err != nil {
			return err
		}
	}
	return nil
}

// firstConn opens the writer's connection. SQLite may answer "busy" without waiting while another
// process brings a new file into WAL mode or recovers its log, so firstConn retries until ctx ends.
func firstConn(ctx context.Context, db *sql.DB) (*sql.Conn, error) {
	for {
		conn, err := db.Conn(ctx)
		if err == nil || !sqlitestore.IsBusy(err) {
			return conn, err
		}
		timer := time.NewTimer(10 * time.Millisecond)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, err
		}
	}
}

type setting struct{ pragma, want string }

func checkSettings(ctx context.Context, conn *sql.Conn, settings []setting) error {
	for _, s := range settings {
		var got string
		if err := conn.QueryRowContext(ctx, `PRAGMA `+s.pragma).Scan(&got); err != nil {
			return fmt.Errorf("%w: PRAGMA %s: %w", driver.ErrUnavailable, s.pragma, err)
		}
		if !strings.EqualFold(got, s.want) {
			return fmt.Errorf("PRAGMA %s is %q, not %q: the file must be on a local disk that can be written, "+
				"and the driver must be modernc.org/sqlite", s.pragma, got, s.want)
		}
	}
	return nil
}
