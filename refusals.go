package hookonce

import (
	"context"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"
)

// refusalRate bounds the lines of the log that refusals make: neither forgers
// nor a stopped database shall fill the disk with the news of them.
var refusalRate = Rate{Count: 100, Per: time.Second}

// refusalLog writes a line for each refusal, up to refusalRate, and says how
// many it left out.
type refusalLog struct {
	log     *slog.Logger
	lines   *bucket
	skipped atomic.Int64
}

func newRefusalLog(log *slog.Logger) *refusalLog {
	return &refusalLog{log: log, lines: newBucket(refusalRate)}
}

func (l *refusalLog) write(r *http.Request, source string, a *answer) {
	if l.lines.take(time.Now()) > 0 {
		l.skipped.Add(1)
		return
	}
	level := slog.LevelInfo
	if a.status >= 500 {
		level = slog.LevelWarn
	}
	attrs := []slog.Attr{
		slog.Int("status", a.status), slog.String("why", a.why), slog.String("source", source),
		slog.String("remote", r.RemoteAddr), slog.String("error_id", a.errorID),
	}
	if a.err != nil {
		attrs = append(attrs, slog.Any("error", a.err))
	}
	if n := l.skipped.Swap(0); n > 0 {
		attrs = append(attrs, slog.Int64("lines_left_out", n))
	}
	l.log.LogAttrs(context.WithoutCancel(r.Context()), level, "refused", attrs...)
}
