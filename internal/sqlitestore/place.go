package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"sync"

	"github.com/hookonce/hookonce/driver"
)

// selectPath lists the main database first. In contrast to a SELECT it does not make a transaction
// of the caller a reader, which could not become the writer then.
const selectPath = `PRAGMA database_list`

// place tells whether the open files of the database are still those that its path names. SQLite
// goes on without an error in a file that was deleted, moved or replaced, and acknowledges commits
// that the next process does not find. A check costs a few calls of stat.
//
// database/sql does not show the open files themselves. So the file at the path when the store first
// used it counts as the open one, and once another file stood there the store stays unavailable: a
// connection that the pool opened meanwhile may belong to that other file.
type place struct {
	mu       sync.Mutex
	path     string          // of the database; "" before it is known, and for one in memory
	file     *file           // of the database; nil before it was seen
	replaced error           // set once another file stood at path
	conn     any             // the driver's connection that beside is about
	beside   map[string]file // the files with these suffixes
}

// connection is a connection to the database, or a transaction on one.
type connection interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// pathThrough returns the path of the database; "" for one in memory.
func pathThrough(ctx context.Context, conn connection) (path string, err error) {
	var number int
	var name string
	err = conn.QueryRowContext(ctx, selectPath).Scan(&number, &name, &path)
	return path, err
}

// findFile finds the file of the database and its log through a connection to it.
func (s *Store) findFile(ctx context.Context, through connection) error {
	if s.log.path.Load() != nil {
		return nil
	}
	file, err := pathThrough(ctx, through)
	if err != nil || file == "" {
		return err
	}
	s.place.setPath(file)
	log := file + logSuffix
	s.log.path.Store(&log)
	return nil
}

// setPath records which file stands at path.
func (p *place) setPath(path string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.path = path
	if found, _, err := lookAt(path); err == nil { // check reports the error
		p.file = &found
	}
}

// check returns an error if the open files are not in their place. conn is the writer's connection,
// and holds the write lock or a read of the file; without it only the file of the database is
// checked. The error does not match an error of package driver.
func (p *place) check(conn *sql.Conn) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.checkFile(); err != nil || conn == nil || p.path == "" {
		return err
	}
	return p.checkBeside(identity(conn))
}

// checkBusy is check for a writer whose connection is in use, since it was checked last.
func (p *place) checkBusy() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.checkFile(); err != nil || p.conn == nil || p.path == "" {
		return err
	}
	return p.checkBeside(p.conn)
}

// checkFile checks the file of the database. The caller holds the lock.
func (p *place) checkFile() error {
	if p.path == "" || p.replaced != nil {
		return p.replaced
	}
	switch found, _, err := lookAt(p.path); {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("the database file %s was moved or deleted while it was in use: move it back; "+
			"if it was deleted, stop every process that uses it, restore a backup, and start again", p.path)
	case err != nil:
		return fmt.Errorf("the database file cannot be looked at, so it may have been moved: %w", err)
	case p.file == nil:
		p.file = &found
	case !p.file.is(found):
		p.replaced = fmt.Errorf("the database file %s was replaced by another file while it was in use: "+
			"stop every process that uses it, see that the right file stands there, and start again", p.path)
		return p.replaced
	}
	return nil
}

// checkBeside checks the log and its index, which SQLite keeps beside the file for as long as a
// connection is open. Each connection of the writer may find others: the last one to close deletes
// them. own is the identity of that connection.
func (p *place) checkBeside(own any) error {
	known := own != nil && own == p.conn
	if !known {
		p.conn, p.beside = own, make(map[string]file)
	}
	for _, suffix := range []string{logSuffix, "-shm"} {
		found, _, err := lookAt(p.path + suffix)
		first, seen := p.beside[suffix]
		switch {
		case !known && err == nil:
			p.beside[suffix] = found
		case known && seen && (err != nil || !first.is(found)):
			return fmt.Errorf("%s, which holds commits of the database, was moved, deleted or replaced while it was in use: "+
				"move it back; otherwise stop every process that uses the database, and start again", p.path+suffix)
		}
	}
	return nil
}

// identity returns the driver's connection, or nil if connections cannot be told apart.
func identity(conn *sql.Conn) (own any) {
	// An error means that the connection is closed: its next statement fails.
	_ = conn.Raw(func(driverConn any) error {
		if reflect.ValueOf(driverConn).Kind() == reflect.Pointer {
			own = driverConn
		}
		return nil
	})
	return own
}

// inPlace is check for a write that has not begun, or is not committed.
func (p *place) inPlace(conn *sql.Conn) error {
	if err := p.check(conn); err != nil {
		return fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	}
	return nil
}
