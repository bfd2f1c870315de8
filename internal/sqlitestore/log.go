package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync/atomic"
	"time"

	"github.com/hookonce/hookonce/driver"
)

const (
	// maxLog is the largest log, in bytes, that does not hold readers back. Normally a
	// checkpoint after a commit keeps the log at a quarter of it.
	maxLog = 64 << 20
	// drainTimeout bounds how long new readers wait for the earlier ones, which end after
	// readTimeout.
	drainTimeout = readTimeout + time.Second
	// cutTimeout bounds how long the writer works on the log: a claim meanwhile waits for at most
	// this and one busy timeout.
	cutTimeout = 300 * time.Millisecond
	// cutPause is the time between two tries if readers of other processes were in the way.
	cutPause = 2 * time.Second
	// eraseTimeout bounds how long a redaction waits for readers.
	eraseTimeout = drainTimeout + 2*time.Second
	erasePause   = 50 * time.Millisecond
)

const (
	// CopyLog copies the log into the database, as far as no reader is in the way.
	CopyLog = `PRAGMA wal_checkpoint(PASSIVE)`
	cutLog  = `PRAGMA wal_checkpoint(TRUNCATE)`
)

// logSuffix follows the path of the database in that of its log.
const logSuffix = "-wal"

// flushOld finds the file, and flushes its log before the first write of the store, and usually copies it into the database. The process
// before may have been killed between the writing of a commit and its flush. Its events are known all the same, so
// that their duplicates are acknowledged, and a power cut after that must not lose them.
func (s *Store) flushOld(ctx context.Context, through connection) error {
	if err := s.findFile(ctx, through); err != nil || s.log.flushed.Load() {
		return err
	}
	if _, err := through.ExecContext(ctx, CopyLog); err != nil {
		// The disk may be full, or this is a transaction. Flushing the log needs neither room nor a lock.
		path, err := pathThrough(ctx, through)
		if err != nil {
			return err
		}
		log, err := os.OpenFile(path+logSuffix, os.O_RDWR, 0)
		switch {
		case err == nil:
			err = errors.Join(log.Sync(), log.Close())
		case errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission):
			err = nil // a process that may not write acknowledges nothing
		}
		if err != nil {
			return fmt.Errorf("%w: flushing the log: %w", driver.ErrUnavailable, err)
		}
	}
	s.log.flushed.Store(true)
	return nil
}

// logKeeper keeps the log from growing while readers overlap.
type logKeeper struct {
	path    atomic.Pointer[string] // of the log; nil until it is known
	flushed atomic.Bool            // it is not older than the store
	max     int64                  // bytes
	cutting atomic.Bool
	// failed is the time of the last try if it failed; otherwise nil. It holds the monotonic clock,
	// because the wall clock may be set back.
	failed atomic.Pointer[time.Time]
}

// size returns the size of the log in bytes; 0 if it is not known, or missing.
func (l *logKeeper) size() int64 {
	path := l.path.Load()
	if path == nil {
		return 0
	}
	_, size, err := lookAt(*path)
	if err != nil {
		return 0
	}
	return size
}

// pauses reports whether it is too early to try again.
func (l *logKeeper) pauses() bool {
	failed := l.failed.Load()
	return failed != nil && time.Since(*failed) < cutPause
}

// watchLog must be called after a commit, without the writer. If the log is too large, a goroutine
// cuts it.
func (s *Store) watchLog() {
	if s.log.size() <= s.log.max || s.log.pauses() {
		return
	}
	if !s.log.cutting.CompareAndSwap(false, true) {
		return
	}
	s.detached.Go(func() {
		defer s.log.cutting.Store(false)
		if !s.cutLog(s.closing) {
			now := time.Now()
			s.log.failed.Store(&now)
		}
	})
}

// eraseLog empties the log, so that it holds no earlier version of a row. It retries for eraseTimeout,
// and reports whether it did.
func (s *Store) eraseLog(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, eraseTimeout)
	defer cancel()
	for {
		if s.log.cutting.CompareAndSwap(false, true) {
			done := s.cutLog(ctx)
			s.log.cutting.Store(false)
			if done {
				return true
			}
		}
		if !sleep(ctx, erasePause) {
			return false
		}
	}
}

// cutLog waits for a moment without readers, copies the log into the database and truncates it. It
// reports whether it did. Writers go on except during the last step.
func (s *Store) cutLog(ctx context.Context) bool {
	empty, open := s.readers.shut()
	defer open()
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	select {
	case <-empty:
	case <-ctx.Done():
		return false
	}
	// Most of the work happens on a connection that does not block the writer: a checkpoint may run
	// on a connection that is query_only. The next step copies the rest.
	if _, err := s.reader.ExecContext(ctx, CopyLog); err != nil {
		return false
	}
	conn, err := s.writer.Conn(ctx)
	if err != nil {
		return false
	}
	defer conn.Close()
	ctx, cancel = context.WithTimeout(ctx, cutTimeout)
	defer cancel()
	// This waits one busy timeout for readers of other processes.
	var busy, frames, copied int
	err = conn.QueryRowContext(ctx, cutLog).Scan(&busy, &frames, &copied)
	return err == nil && busy == 0
}
