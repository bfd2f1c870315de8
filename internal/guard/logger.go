package guard

import (
	"context"
	"log/slog"
)

// Logger returns l for engines, whose goroutines and locks outlive a slog.Handler that panics or ends
// its goroutine: the handler runs in its own. Such a line is lost.
func Logger(l *slog.Logger) *slog.Logger {
	if _, ok := l.Handler().(safeHandler); ok {
		return l
	}
	return slog.New(safeHandler{l.Handler()})
}

type safeHandler struct{ slog.Handler }

func (h safeHandler) Handle(ctx context.Context, r slog.Record) error {
	return <-Call("the Logger", func() error { return h.Handler.Handle(ctx, r) })
}

func (h safeHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return safeHandler{h.Handler.WithAttrs(attrs)}
}

func (h safeHandler) WithGroup(name string) slog.Handler {
	return safeHandler{h.Handler.WithGroup(name)}
}
