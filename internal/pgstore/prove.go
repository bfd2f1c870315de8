package pgstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// The abilities that claims, leases and runs rely on, as an operator reads them. Engines that speak the protocol of
// PostgreSQL lack some of them.
const (
	needDuplicate = "a claimed event is a duplicate from then on"
	needTrigger   = "a deferred trigger fires at the commit"
	needWait      = "a unique key waits for the transaction that holds it"
	needSkip      = "SKIP LOCKED skips rows that another transaction has locked"
	needRollback  = "a rollback undoes"
	needStatus    = "txid_status tells how a transaction ended"
	needRefuse    = "a unique key refuses what another transaction has committed"
	needFlush     = "a commit waits until the log is on the disk"
)

// lacks returns the error of a server without one of the abilities.
func lacks(need, format string, args ...any) error {
	return &driver.ServerError{
		Found:  "the database lacks what hookonce needs: " + need + "; " + fmt.Sprintf(format, args...),
		Remedy: "use PostgreSQL itself, or a service that runs it",
	}
}

// secondWait bounds the wait of the proof for its second session.
const secondWait = 2 * time.Second

var (
	serverProcessSQL = `SELECT extract(epoch FROM pg_postmaster_start_time())::text`

	// proofRowsSQL writes the rows of a proof, and deletes those that a killed process left.
	proofRowsSQL = statement(`
WITH old AS (DELETE FROM {schema}.proof WHERE at < now() - interval '1 minute')
INSERT INTO {schema}.proof (key) SELECT unnest($1::bytea[])`)
	proofEndSQL    = statement(`DELETE FROM {schema}.proof WHERE key = ANY ($1::bytea[])`)
	proofInsertSQL = statement(`INSERT INTO {schema}.proof (key) VALUES ($1::bytea) ON CONFLICT DO NOTHING RETURNING 1`)
	proofLockSQL   = statement(`SELECT 1 FROM {schema}.proof WHERE key = $1::bytea FOR UPDATE`)
	proofSkipSQL   = statement(`SELECT key FROM {schema}.proof WHERE key = ANY ($1::bytea[]) FOR UPDATE SKIP LOCKED`)
	proofFindSQL   = statement(`SELECT 1 FROM {schema}.proof WHERE key = $1::bytea`)
	proofRaiseSQL  = statement(`SELECT {schema}.durably()::text`)
	// The trigger refuse_autocommit refuses the row at the commit.
	proofTriggerSQL = statement(`INSERT INTO {schema}.take_call (called_at) VALUES ('-infinity')`)
)

// The proof asks these by text, so that each can be missing on its own.
const (
	proofXidSQL     = `SELECT txid_current()`
	proofStatusSQL  = `SELECT coalesce(txid_status($1::bigint), '')`
	proofLogSQL     = `SELECT pg_current_wal_insert_lsn()::text`
	proofFlushedSQL = `SELECT pg_current_wal_flush_lsn() >= $1::text::pg_lsn`
	// Any wait at all ends with an error, so the bound may be short.
	proofBoundSQL   = `SAVEPOINT proof; SET LOCAL lock_timeout = '10ms'`
	proofUnboundSQL = `ROLLBACK TO SAVEPOINT proof`
)

// Server implements [driver.Store].
func (s *Store) Server(ctx context.Context) (began string, err error) {
	const op = "asking for the server"
	db := s.pools.Receive
	err = read(ctx, db, op, func(r Rows) error { return r.Scan(&began) }, serverProcessSQL)
	if hidden(db, err) {
		return "", nil
	}
	return began, err
}

// Prove implements [driver.Store]. Rows that must be committed are in a table of their own, which no listing reads; the
// event of the claim never is.
func (s *Store) Prove(ctx context.Context) (skipped []string, err error) {
	select {
	case s.proving <- struct{}{}:
		defer func() { <-s.proving }()
	case <-ctx.Done():
		return nil, fmt.Errorf("proving the database: %w: %w", driver.ErrUnavailable, context.Cause(ctx))
	}
	skipped, err = s.prove(ctx)
	if _, lacking := errors.AsType[*driver.ServerError](err); lacking {
		// A failover between two steps looks like a lack.
		return s.prove(ctx)
	}
	return skipped, err
}

func (s *Store) prove(ctx context.Context) (skipped []string, err error) {
	if err := s.proveClaim(ctx); err != nil {
		return nil, err
	}
	if err := s.proveTrigger(ctx); err != nil {
		return nil, err
	}
	return s.proveSessions(ctx)
}

// proveClaim claims an event twice and takes it back, in one commit. A full disk and a role without rights refuse it.
func (s *Store) proveClaim(ctx context.Context) error {
	const op = "testing a claim"
	probe := driver.NewProbe()
	lack := error(nil)
	err := s.pools.Receive.Transaction(ctx, ReadCommitted, func(conn Conn) error {
		for _, isNew := range []bool{true, false} {
			// The durability of the server is checked apart.
			batch := newClaimBatch(&driver.ClaimParams{Claims: []driver.Claim{*probe}, AllowUnsafe: []string{"fsync", "full_page_writes"}})
			batch.inTx = true
			batch.write = func(_ string, each func(Rows) error, sql string, args ...any) error {
				return scan(ctx, conn, each, sql, args...)
			}
			if _, err := s.claimOnce(batch); err != nil {
				return err
			}
			switch result := batch.results[0]; {
			case isNew && !result.Claimed:
				return driver.ErrNotStored
			case !isNew && !result.Duplicate:
				lack = lacks(needDuplicate, "the second claim of an event was not one")
				return lack
			}
		}
		return scan(ctx, conn, noRows, s.text(unclaimSQL), probe.Key[:])
	})
	switch {
	case lack != nil:
		return lack
	case errors.Is(err, driver.ErrNotStored):
		return fmt.Errorf("%s: %w", op, err)
	}
	return writeFailed(s.pools.Receive, op, err)
}

// proveTrigger needs a commit that a deferred trigger refuses.
func (s *Store) proveTrigger(ctx context.Context) error {
	err := s.pools.Receive.Transaction(ctx, ReadCommitted, func(conn Conn) error {
		return scan(ctx, conn, noRows, s.text(proofTriggerSQL))
	})
	switch {
	case err == nil:
		return lacks(needTrigger, "the trigger refuse_autocommit on the table take_call did not")
	case SQLState(err) == codeNoTransaction:
		return nil
	}
	return proofFailed(s.pools.Receive, needTrigger, err)
}

// proofFailed returns the error of a step. A statement that the engine does not know, or cannot run, is a lack.
func proofFailed(db DB, need string, err error) error {
	if err == nil {
		return nil
	}
	switch code := SQLState(err); code {
	case codeNotSupported, codeSyntax, codeUndefinedFunction, codeUndefinedObject:
		return lacks(need, "the server refused a statement: %v", err)
	}
	return readFailed(db, "proving that "+need, err)
}

// proof is a proof with two sessions.
type proof struct {
	store        *Store
	first        Tx
	second       Tx
	locked, free []byte // committed rows
	key          []byte // one that both sessions insert
}

// proveSessions shows how two sessions at once get along. It skips that where the second cannot be had.
func (s *Store) proveSessions(ctx context.Context) (skipped []string, err error) {
	p := &proof{store: s, locked: randomKey(), free: randomKey(), key: randomKey()}
	db := s.pools.Receive
	const op = "testing two sessions"
	if err := scan(ctx, db, noRows, s.text(proofRowsSQL), [][]byte{p.locked, p.free}); err != nil {
		return nil, readFailed(db, op, err)
	}
	defer p.end(ctx)
	if p.first, err = db.Begin(ctx); err != nil {
		return nil, readFailed(db, op, err)
	}
	if p.second, err = s.beginSecond(ctx); err != nil {
		return p.alone(ctx, err)
	}
	if err := p.undone(ctx); err != nil {
		return nil, err
	}
	if p.first, err = db.Begin(ctx); err != nil {
		return nil, readFailed(db, op, err)
	}
	return p.committed(ctx)
}

func randomKey() []byte {
	key := make([]byte, len(driver.Key{}))
	_, _ = rand.Read(key) // never fails
	return key
}

// beginSecond begins the transaction of the second session, in another pool: a process may have one connection for claims.
func (s *Store) beginSecond(ctx context.Context) (Tx, error) {
	ctx, cancel := context.WithTimeout(ctx, secondWait)
	defer cancel()
	return s.pools.Admin.Begin(ctx)
}

// alone tells why there is no second session: the server, the pooler or the pool has no more connections, or the server is
// away. Only the first one still answers then.
func (p *proof) alone(ctx context.Context, why error) (skipped []string, err error) {
	full := errors.Is(why, context.DeadlineExceeded) || strings.HasPrefix(SQLState(why), classResources)
	if !full || scan(ctx, p.first, noRows, "SELECT 1") != nil {
		return nil, readFailed(p.store.pools.Admin, "beginning a second session", why)
	}
	return []string{"two sessions at once were not tested: there is one connection now"}, nil
}

// end ends the sessions and deletes the committed rows. If the database is away, the next proof deletes them.
func (p *proof) end(ctx context.Context) {
	for _, tx := range []Tx{p.first, p.second} {
		if tx != nil {
			tx.Rollback(ctx)
		}
	}
	if ctx.Err() == nil {
		_ = scan(ctx, p.store.pools.Receive, noRows, p.store.text(proofEndSQL), [][]byte{p.locked, p.free, p.key})
	}
}

// undone lets the first session write, lock and roll back, and the second look on.
func (p *proof) undone(ctx context.Context) error {
	xid, err := p.write(ctx)
	if err != nil {
		return err
	}
	if _, err := p.count(ctx, p.first, needSkip, p.store.text(proofLockSQL), p.locked); err != nil {
		return err
	}
	if err := p.waits(ctx); err != nil {
		return err
	}
	if err := p.skips(ctx); err != nil {
		return err
	}
	if err := p.status(ctx, xid, txInProgress); err != nil {
		return err
	}
	p.first.Rollback(ctx)
	if n, err := p.count(ctx, p.second, needRollback, p.store.text(proofFindSQL), p.key); err != nil || n > 0 {
		return orLack(err, needRollback, "a row is still there")
	}
	return p.status(ctx, xid, txAborted)
}

// committed lets the first session commit, and the second look on.
func (p *proof) committed(ctx context.Context) (skipped []string, err error) {
	xid, err := p.write(ctx)
	if err != nil {
		return nil, err
	}
	log, err := p.logEnd(ctx)
	if err != nil {
		return nil, err
	}
	if err := p.first.Commit(ctx); err != nil {
		return nil, readFailed(p.store.pools.Receive, "committing a test", err)
	}
	if log == "" {
		skipped = []string{"whether a commit waits for the disk was not tested: the server hides its log from this role"}
	} else if err := p.flushed(ctx, log); err != nil {
		return nil, err
	}
	if n, err := p.count(ctx, p.second, needRefuse, p.store.text(proofInsertSQL), p.key); err != nil || n > 0 {
		return nil, orLack(err, needRefuse, "it took a second row")
	}
	return skipped, p.status(ctx, xid, txCommitted)
}

// write inserts the key in the first session, and returns the number of its transaction.
func (p *proof) write(ctx context.Context) (xid int64, err error) {
	if err := scan(ctx, p.first, noRows, p.store.text(proofRaiseSQL)); err != nil {
		return 0, readFailed(p.store.pools.Receive, "testing two sessions", err)
	}
	if n, err := p.count(ctx, p.first, needRollback, p.store.text(proofInsertSQL), p.key); err != nil || n == 0 {
		return 0, orLack(err, needRollback, "a key that was rolled back is taken")
	}
	err = scan(ctx, p.first, func(r Rows) error { return r.Scan(&xid) }, proofXidSQL)
	return xid, proofFailed(p.store.pools.Receive, needStatus, err)
}

// orLack returns err, or the lack if it is nil.
func orLack(err error, need, seen string) error {
	if err != nil {
		return err
	}
	return lacks(need, "%s", seen)
}

// count runs a statement and counts its rows.
func (p *proof) count(ctx context.Context, tx Tx, need, sql string, args ...any) (n int, err error) {
	err = scan(ctx, tx, func(Rows) error { n++; return nil }, sql, args...)
	return n, proofFailed(p.store.pools.Admin, need, err)
}

// waits needs an INSERT of the second session that waits for the first.
func (p *proof) waits(ctx context.Context) error {
	db := p.store.pools.Admin
	if err := p.second.Script(ctx, proofBoundSQL); err != nil {
		return proofFailed(db, needWait, err)
	}
	err := scan(ctx, p.second, noRows, p.store.text(proofInsertSQL), p.key)
	switch code := SQLState(err); {
	case err == nil:
		return lacks(needWait, "it did not wait")
	case code == codeSerialization:
		return lacks(needWait, "the server gave up at once: %v", err)
	case code != codeLockNotAvailable:
		return proofFailed(db, needWait, err)
	}
	return proofFailed(db, needWait, p.second.Script(ctx, proofUnboundSQL))
}

// skips needs a SELECT that finds the free row, and not the one that the first session has locked.
func (p *proof) skips(ctx context.Context) error {
	if err := p.second.Script(ctx, proofBoundSQL); err != nil {
		return proofFailed(p.store.pools.Admin, needSkip, err)
	}
	var found []string
	err := scan(ctx, p.second, func(r Rows) error {
		var key []byte
		err := r.Scan(&key)
		found = append(found, string(key))
		return err
	}, p.store.text(proofSkipSQL), [][]byte{p.locked, p.free})
	switch {
	case SQLState(err) == codeLockNotAvailable:
		return lacks(needSkip, "it waited")
	case err != nil:
		return proofFailed(p.store.pools.Admin, needSkip, err)
	case len(found) != 1 || found[0] != string(p.free):
		return lacks(needSkip, "of a locked row and a free one it found %d", len(found))
	}
	return proofFailed(p.store.pools.Admin, needSkip, p.second.Script(ctx, proofUnboundSQL))
}

// status compares the state of the first session's transaction.
func (p *proof) status(ctx context.Context, xid int64, want string) error {
	got := ""
	if err := scan(ctx, p.second, func(r Rows) error { return r.Scan(&got) }, proofStatusSQL, xid); err != nil {
		return proofFailed(p.store.pools.Admin, needStatus, err)
	}
	if got != want {
		return lacks(needStatus, "it says %q of one that is %s", got, want)
	}
	return nil
}

// logEnd returns the end of the server's log, "" if the server does not show it, or not how far it is on the disk. The
// second session asks, and stays usable.
func (p *proof) logEnd(ctx context.Context) (log string, err error) {
	err = p.second.Script(ctx, "SAVEPOINT proof")
	if err == nil {
		err = scan(ctx, p.second, func(r Rows) error { return r.Scan(&log) }, proofLogSQL)
	}
	if err == nil {
		err = scan(ctx, p.second, noRows, proofFlushedSQL, log)
	}
	if hidden(p.store.pools.Admin, err) {
		log, err = "", p.second.Script(ctx, proofUnboundSQL)
	}
	return log, readFailed(p.store.pools.Admin, "looking at the log", err)
}

// flushed needs a log that is on the disk up to a place.
func (p *proof) flushed(ctx context.Context, log string) error {
	flushed := false
	err := scan(ctx, p.second, func(r Rows) error { return r.Scan(&flushed) }, proofFlushedSQL, log)
	switch {
	case err != nil:
		return readFailed(p.store.pools.Admin, "looking at the log", err)
	case !flushed:
		return lacks(needFlush, "the log is not")
	}
	return nil
}

// hidden reports whether the server refused a question because of the role or the platform: each has another code.
func hidden(db DB, err error) bool {
	code := SQLState(err)
	return code != "" && db.Outcome(err) == Refused && !overwhelmed(code) && code != codeCancelled && !givenUp(code)
}
