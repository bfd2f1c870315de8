package guard

import (
	"bytes"
	"context"
	"log/slog"
	"runtime"
	"strings"
	"testing"
)

// ending is a slog.Handler that writes a line and then ends.
type ending struct {
	slog.Handler
	end func()
}

func (h ending) Handle(ctx context.Context, r slog.Record) error {
	err := h.Handler.Handle(ctx, r)
	h.end()
	return err
}

func TestLogger(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(){
		"returns": func() {}, "panics": func() { panic("boom") }, "ends its goroutine": runtime.Goexit,
	} {
		var lines bytes.Buffer
		log := Logger(slog.New(ending{slog.NewTextHandler(&lines, &slog.HandlerOptions{AddSource: true}), end}))
		log.Warn("first", "a", 1)
		Logger(log).With("b", 2).WithGroup("g").Warn("second", "c", 3)
		for _, want := range []string{"logger_test.go", "first a=1", "second"} {
			if !strings.Contains(lines.String(), want) {
				t.Errorf("%s: the log is %q, want %q in it", name, lines.String(), want)
			}
		}
	}
	var lines bytes.Buffer
	log := Logger(slog.New(slog.NewTextHandler(&lines, nil))).With("b", 2).WithGroup("g")
	log.Debug("hidden")
	log.Warn("shown", "c", 3)
	if !strings.Contains(lines.String(), "msg=shown b=2 g.c=3") || strings.Contains(lines.String(), "hidden") {
		t.Errorf("the log is %q, want the attributes of one line", lines.String())
	}
}
