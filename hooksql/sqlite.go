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
	// maxReaders bounds the readers of one store.
	maxReaders = 4
	// openTimeout bounds OpenSQLite: a file whose log has to be recovered, or
	// that is in use, can take a while.
	openTimeout = 30 * time.Second
	// closeTimeout bounds the last checkpoint.
	closeTimeout = 5 * time.Second
)

// Store is a driver.Driver on SQLite, whose transactions are *sql.Tx. It is safe
// for concurrent use, and any number of stores, in any number of processes on one
// machine, may share an SQLite file.
type Store struct {
	*sqlitestore.Store
	pools *pools // nil where they are not ours to close
}

var _ driver.Driver[*sql.Tx] = (*Store)(nil)

// NewSQLite returns a store that writes through writer and reads through reader,
// two pools on one file whose connections have the settings of SQLiteDSN. The
// writer should have one connection (SetMaxOpenConns(1)): more of them would
// only wait for one another inside SQLite, where a context cannot end the wait.
// NewSQLite does not touch the database, and Close leaves the pools open.
// Weaknesses tells when the writer's settings could lose a commit.
func NewSQLite(writer, reader *sql.DB) *Store {
	return &Store{Store: sqlitestore.New(writer, reader, hookmigrate.SQLite())}
}

// OpenSQLite opens the file at path with a driver that is registered with
// database/sql and takes the data source names of modernc.org/sqlite, makes the
// file when it is not there, and checks that the settings are in force. It does
// not apply the schema. Close the store to close the file.
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
	store.pools = p
	return store, nil
}

// Close waits for writes that are under way. Of a store that OpenSQLite made, it
// then copies the log into the database, as far as nobody else is in the way,
// and closes both pools.
func (s *Store) Close() error {
	err := s.Store.Close()
	if s.pools == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	// Committed transactions are safe in the log too, so an error here is
	// nobody's loss. PASSIVE waits for no reader and no other process.
	_, _ = s.pools.writer.ExecContext(ctx, `PRAGMA wal_checkpoint(PASSIVE)`)
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

// check asserts the settings of the writer and of every connection that the
// readers' pool can have.
func (p *pools) check(ctx context.Context) error {
	conn, err := firstConn(ctx, p.writer)
	if err != nil {
		return fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	}
	err = checkSettings(ctx, conn, []setting{
		{"journal_mode", "wal"},
		{"synchronous", "2"},
		{"busy_timeout", strconv.Itoa(writerBusyTimeout)},
		{"query_only", "0"},
	})
	if err := errors.Join(err, conn.Close()); err != nil {
		return err
	}
	readers := make([]*sql.Conn, 0, maxReaders)
	defer func() {
		for _, conn := range readers {
			_ = conn.Close() // it goes back to the pool
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

// firstConn opens the writer's connection. While another process brings a new
// file into WAL mode, or recovers its log, SQLite may answer "busy" without
// waiting; so it is tried until ctx ends.
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
