package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// synchronousFull is the least value of PRAGMA synchronous that flushes every commit.
const synchronousFull = 2

// safeVersion is the first release without the WAL-reset bug: before it a checkpoint that raced a
// writer could lose committed transactions. See https://www.sqlite.org/wal.html#walresetbug.
var safeVersion = [3]int{3, 51, 3}

// Weaknesses implements driver.Store. It reads the settings of the writer's connection.
func (s *Store) Weaknesses(ctx context.Context) ([]driver.Weakness, error) {
	const op = "reading the durability settings"
	conn, err := s.writer.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", op, driver.ErrUnavailable, err)
	}
	defer conn.Close()
	var synchronous int
	var journal, version string
	for query, value := range map[string]any{
		`PRAGMA synchronous`: &synchronous, `PRAGMA journal_mode`: &journal, `SELECT sqlite_version()`: &version,
	} {
		if err := conn.QueryRowContext(ctx, query).Scan(value); err != nil {
			return nil, s.failed(ctx, op, err)
		}
	}
	return weaknesses(synchronous, journal, version), nil
}

// weakFlush is the weakness of a connection with this value of PRAGMA synchronous.
func weakFlush(synchronous int) driver.Weakness {
	return driver.Weakness{
		Setting: "synchronous",
		Value:   strconv.Itoa(synchronous),
		Effect:  "A commit is not flushed to the disk before it is acknowledged, so a power cut can lose it.",
		Remedy:  "Set PRAGMA synchronous=FULL on every connection that writes.",
	}
}

// checkFlush refuses a connection whose commits may be lost, unless that is allowed. It looks in
// each transaction that claims: the pools may be the caller's, and so may the connection.
func (t *writeTx) checkFlush(allowed []string) error {
	var synchronous int
	if err := t.tx.QueryRowContext(t.inner, `PRAGMA synchronous`).Scan(&synchronous); err != nil {
		return err
	}
	w := weakFlush(synchronous)
	if synchronous >= synchronousFull || slices.Contains(allowed, w.Setting) {
		return nil
	}
	return fmt.Errorf("%w: %s", driver.ErrUnavailable, w)
}

// confirmWait bounds the wait of Confirm for the writer. A handler may have it for much longer than a
// sender waits for an answer.
const confirmWait = 100 * time.Millisecond

// Confirm implements driver.Store. A claim was refused unless its commit is flushed, so only the place
// of the files is left to check: in a caller's transaction, inTx cannot check that of the log.
func (s *Store) Confirm(ctx context.Context) error {
	const op = "checking the place of the file after a commit"
	waiting, cancel := context.WithTimeout(ctx, confirmWait)
	defer cancel()
	conn, err := s.writer.Conn(waiting)
	switch {
	case err == nil:
		defer conn.Close()
		err = s.place.check(conn)
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		err = s.place.checkBusy()
	default:
		err = fmt.Errorf("waiting for the writer: %w", err)
	}
	if err != nil {
		return fmt.Errorf("%s: %w: %w", op, driver.ErrCommitUnknown, err)
	}
	return nil
}

func weaknesses(synchronous int, journal, version string) []driver.Weakness {
	var found []driver.Weakness
	if synchronous < synchronousFull {
		found = append(found, weakFlush(synchronous))
	}
	if !strings.EqualFold(journal, "wal") {
		found = append(found, driver.Weakness{
			Setting: "journal_mode",
			Value:   journal,
			Effect: "Outside of WAL mode readers hold up the writer, and a commit depends on the journal file:" +
				" in the modes OFF and MEMORY a crash can corrupt the database, in the others a power cut can undo the last commit.",
			Remedy: "Set PRAGMA journal_mode=WAL, on a file system that is local.",
		})
	}
	if !atLeast(version, safeVersion) {
		found = append(found, driver.Weakness{
			Setting: "sqlite_version",
			Value:   version,
			Effect:  "Before SQLite 3.51.3 a checkpoint that races a writer can lose committed transactions (the WAL-reset bug).",
			Remedy:  "Use a driver that is built with SQLite 3.51.3 or newer.",
		})
	}
	return found
}

// atLeast compares a version such as "3.53.0". A version that it cannot read is too old.
func atLeast(version string, least [3]int) bool {
	parts := strings.Split(version, ".")
	if len(parts) < len(least) {
		return false
	}
	for i, want := range least {
		got, err := strconv.Atoi(parts[i])
		if err != nil || got < want {
			return false
		}
		if got > want {
			return true
		}
	}
	return true
}

const selectTriggers = `SELECT format('trigger %s on %s', name, tbl_name) FROM sqlite_schema
	WHERE type = 'trigger' AND tbl_name LIKE 'hookonce\_%' ESCAPE '\' ORDER BY 1`

// ForeignTriggers implements driver.Store. The schema has no triggers of its own.
func (s *Store) ForeignTriggers(ctx context.Context) (found []string, err error) {
	err = s.snapshot(ctx, "looking for foreign triggers", func(ctx context.Context, tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, selectTriggers) //nolint:sqlclosecheck // collect closes them
		found, err = collect(rows, err, func(text *string) error { return rows.Scan(text) })
		return err
	})
	return found, err
}
