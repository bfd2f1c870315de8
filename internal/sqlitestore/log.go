package sqlitestore

import (
	"context"
	"os"
	"sync/atomic"
	"time"
)

const (
	// maxLog is the size of the log at which readers are held back. Normally a
	// checkpoint after a commit keeps it at a quarter of this.
	maxLog = 64 << 20
	// drainTimeout bounds how long readers are held back until those before them
	// have ended, which themselves end after readTimeout.
	drainTimeout = readTimeout + time.Second
	// cutTimeout bounds how long the writer works on the log: a claim that comes
	// meanwhile waits for no more than this and one busy timeout.
	cutTimeout = 300 * time.Millisecond
	// cutPause is between two tries, where readers of other processes stood in
	// the way.
	cutPause = 2 * time.Second
)

const (
	selectPath = `SELECT file FROM pragma_database_list WHERE name = 'main'`
	copyLog    = `PRAGMA wal_checkpoint(PASSIVE)`
	cutLog     = `PRAGMA wal_checkpoint(TRUNCATE)`
)

// logKeeper keeps the log from growing for as long as readers overlap.
type logKeeper struct {
	path    atomic.Pointer[string] // of the log; nil as long as it is not known
	max     int64                  // bytes
	cutting atomic.Bool
	// failed is when it was last not cut; nil if it always was. It has the
	// monotonic clock: the other one may be set back.
	failed atomic.Pointer[time.Time]
}

// pauses reports whether it is too early to try again.
func (l *logKeeper) pauses() bool {
	failed := l.failed.Load()
	return failed != nil && time.Since(*failed) < cutPause
}

// findLog learns where the log is, which SQLite names after the database.
func (s *Store) findLog(ctx context.Context) error {
	var file string
	if err := s.writer.QueryRowContext(ctx, selectPath).Scan(&file); err != nil {
		return err
	}
	if file != "" {
		path := file + "-wal"
		s.log.path.Store(&path)
	}
	return nil
}

// watchLog is called after a commit, without the writer. Where the log is too
// large it is cut, beside the caller.
func (s *Store) watchLog() {
	path := s.log.path.Load()
	if path == nil {
		return
	}
	info, err := os.Stat(*path)
	if err != nil || info.Size() <= s.log.max || s.log.pauses() {
		return // a log that is not there is not too large
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

// cutLog waits for a moment without readers, copies the log into the database and
// cuts it to nothing. It reports whether it did. All but its last step goes on
// beside the writer.
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
	// Most of the work, on a connection that does not hold up the writer: a
	// checkpoint may run on one that is query_only. What it cannot copy is left
	// for the next step.
	if _, err := s.reader.ExecContext(ctx, copyLog); err != nil {
		return false
	}
	conn, err := s.writer.Conn(ctx)
	if err != nil {
		return false
	}
	defer conn.Close()
	ctx, cancel = context.WithTimeout(ctx, cutTimeout)
	defer cancel()
	// Readers of other processes are waited for, for one busy timeout.
	var busy, frames, copied int
	err = conn.QueryRowContext(ctx, cutLog).Scan(&busy, &frames, &copied)
	return err == nil && busy == 0
}
