package demo

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	_ "modernc.org/sqlite" // the driver of the ledgers
)

// How long a booking takes. The bank is the slower one, so that a kill of the gateway comes while
// messages are being sent.
const (
	bankTime  = 30 * time.Millisecond
	naiveTime = 4 * time.Millisecond
)

// The ledgers, in the demo's folder.
const (
	bankLedger  = "bank.db"
	naiveLedger = "naive.db"
)

const ledgerSchema = `
CREATE TABLE IF NOT EXISTS ledger (
	seq INTEGER PRIMARY KEY,
	source TEXT NOT NULL, event_id TEXT NOT NULL, account TEXT NOT NULL, cents INTEGER NOT NULL, version INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS applied (key TEXT PRIMARY KEY);
CREATE TABLE IF NOT EXISTS repeated (key TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS seen (source TEXT NOT NULL, event_id TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS seen_events ON seen (source, event_id); -- not unique
`

// openLedger opens the SQLite file of a ledger. A killed process loses no committed row.
func openLedger(ctx context.Context, folder, name string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", filepath.Join(folder, name)+
		"?_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)&_pragma=busy_timeout(10000)&_txlock=immediate")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1) // SQLite has one writer
	if _, err := db.ExecContext(ctx, ledgerSchema); err != nil {
		return nil, errors.Join(fmt.Errorf("the ledger %s: %w", name, err), db.Close())
	}
	return db, nil
}

// The failures of the work.
var (
	errClosed = errors.New("the account is closed")
	errAway   = errors.New("out of service")
)

// till is the door to a ledger. Files in the demo's folder close it, so that it stays closed if the
// process is killed.
type till struct{ folder, ledger string }

// awayFile exists while the till of a ledger is out of service.
func awayFile(folder, ledger string) string { return filepath.Join(folder, ledger+".away") }

// openedFile exists once the closed account is open.
func openedFile(folder string) string { return filepath.Join(folder, "opened") }

// check returns why a booking fails.
func (t *till) check(account string) error {
	switch {
	case exists(awayFile(t.folder, t.ledger)):
		return errAway
	case account == closedAccount && !exists(openedFile(t.folder)):
		return errClosed
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// execer is a *sql.DB or a *sql.Tx.
type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// book writes a row into the ledger: the effect of an event.
func book(ctx context.Context, db execer, source, id string, f facts) error {
	_, err := db.ExecContext(ctx, "INSERT INTO ledger (source, event_id, account, cents, version) VALUES (?, ?, ?, ?, ?)",
		source, id, f.account, f.cents, f.version)
	return err
}
