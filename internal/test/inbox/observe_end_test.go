package inbox_test

import (
	"context"
	"io"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/rig"
	"github.com/hookonce/hookonce/observe"
)

// endingHandler is a slog.Handler that ends its goroutine at each line.
type endingHandler struct{ slog.Handler }

func (endingHandler) Handle(context.Context, slog.Record) error {
	runtime.Goexit()
	return nil
}

func (h endingHandler) WithAttrs([]slog.Attr) slog.Handler { return h }

// The Observer panics or ends its goroutine at each call, or has no functions, and the Logger may end
// its goroutine, too. Handlers run, messages are sent and deliveries are answered all the same, each at
// the first attempt. Panics are logged.
func TestCallbacksDisturbNothing(t *testing.T) {
	t.Parallel()
	calling := func(end func(of string)) *observe.Observer {
		return &observe.Observer{
			Delivery: func(observe.Delivery) { end("of delivery") }, Claim: func(observe.Claim) { end("of claim") },
			Attempt: func(observe.Attempt) { end("of attempt") }, Pruned: func(observe.Pruned) { end("of pruned") },
		}
	}
	log := &rig.Log{}
	direct := calling(func(of string) { panic("direct " + of) })
	direct.Direct = true
	for name, tt := range map[string]struct {
		observer *observe.Observer
		logger   *slog.Logger
		logs     string // before the name of each function
	}{
		"panics":                   {calling(func(of string) { panic("apart " + of) }), log.Logger(), "apart "},
		"panics, called directly":  {direct, log.Logger(), "direct "},
		"has no functions":         {&observe.Observer{}, log.Logger(), ""},
		"end their own goroutines": {calling(func(string) { runtime.Goexit() }), slog.New(endingHandler{slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelDebug})}), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := onSQLite(t)
			mux := handling(effectOf(l))
			hookonce.Handle(mux, "inline", "*", effectOf(l))
			in := inbox(t, l, mux, func(c *hookonce.Config) {
				c.Workers, c.Batch, c.Retention, c.Observer, c.Logger = 1, 1, time.Microsecond, tt.observer, tt.logger
				addSource(c, "inline", func(s *hookonce.Source) { s.Inline = true })
				addSource(c, "routed", nil)
				sendBy(c, func(context.Context, *hookonce.Outgoing) error { return nil })
				c.Destinations[0].Concurrency, c.Routes[0].Sources = 1, []string{"routed"}
			})
			run(t, in)
			for _, id := range []string{"1", "2", "3"} {
				for _, source := range []string{"gh", "inline", "routed"} {
					deliverTo(t, in, source, id)
				}
				wantDone(t, l, id)
				waitForSent(t, l.db, "routed", id)
			}
			wantEffects(t, l, "1", "1", "2", "2", "3", "3")
			eventually.True(t, "all panics are in the log", func() bool {
				if _, err := in.Prune(t.Context()); err != nil { // or Run does, whose pass may have the turn
					t.Error(err)
				}
				text := log.Text()
				return tt.logs == "" || !slices.ContainsFunc([]string{"of delivery", "of claim", "of attempt", "of pruned"}, func(of string) bool {
					return !strings.Contains(text, tt.logs+of)
				})
			})
		})
	}
}
