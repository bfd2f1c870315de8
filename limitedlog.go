package hookonce

import (
	"log/slog"
	"sync"
	"time"
)

// limitedLog writes at most one line a second, and says how many it left out:
// a stopped database must not fill the disk with the news of it.
type limitedLog struct {
	mu      sync.Mutex
	last    time.Time
	skipped int
}

func (l *limitedLog) warn(log *slog.Logger, msg string, attrs ...any) {
	l.mu.Lock()
	now := time.Now()
	if now.Sub(l.last) < time.Second {
		l.skipped++
		l.mu.Unlock()
		return
	}
	skipped := l.skipped
	l.last, l.skipped = now, 0
	l.mu.Unlock()
	if skipped > 0 {
		attrs = append(attrs, slog.Int("lines_left_out", skipped))
	}
	log.Warn(msg, attrs...)
}
