package inbox_test

import (
	"context"
	"io"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/provider"
)

// endingHandler is a slog.Handler that ends after each line.
type endingHandler struct {
	slog.Handler
	end func()
}

func (h endingHandler) Handle(context.Context, slog.Record) error {
	h.end()
	return nil
}

func (h endingHandler) WithAttrs([]slog.Attr) slog.Handler { return h }

// The Observer and the Logger panic, or end their goroutines, at each call. Handlers run, messages
// are sent and deliveries are answered all the same, each at the first attempt.
func TestCallbacksThatEndTheirGoroutines(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(){"goexit": runtime.Goexit, "panic": func() { panic("boom") }} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := onPGX(t)
			mux := &hookonce.Mux[pgx.Tx]{}
			hookonce.Handle(mux, "gh", "push", func(ctx context.Context, tx pgx.Tx, ev *hookonce.Event) error { return l.insert(ctx, tx, ev.ID) })
			hookonce.Handle(mux, "inline", "push", func(ctx context.Context, tx pgx.Tx, ev *hookonce.Event) error { return l.insert(ctx, tx, ev.ID) })
			in := inbox(t, l, mux, func(c *hookonce.Config) {
				c.Workers, c.Batch = 1, 1
				c.Logger = slog.New(endingHandler{slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelDebug}), end})
				c.Observer = &hookonce.Observer{
					Delivery: func(hookonce.DeliveryObserved) { end() }, Claim: func(hookonce.ClaimObserved) { end() },
					Attempt: func(hookonce.AttemptObserved) { end() }, Pruned: func(hookonce.PrunedObserved) { end() },
				}
				inlined := c.Sources[0]
				inlined.Name, inlined.Inline = "inline", true
				routed := hookonce.Source{Name: "routed", Provider: provider.GitHub, Secrets: hookonce.StaticSecrets(secret), AckTimeout: 30 * time.Second}
				c.Sources = append(c.Sources, inlined, routed)
				c.Destinations = []hookonce.Destination{{Name: "app", Concurrency: 1, Sender: hookonce.SenderFunc(
					func(context.Context, *hookonce.Outgoing) error { return nil },
				)}}
				c.Routes = []hookonce.Route{{Name: "r", Sources: []string{"routed"}, To: "app"}}
			})
			run(t, in)
			for _, id := range []string{"1", "2", "3", "4"} {
				for _, source := range []string{"gh", "inline", "routed"} {
					r := delivery(id, "{}")
					r.URL.Path = "/webhooks/" + source
					if got := deliver(in, r); got != ok {
						t.Fatalf("a delivery to %s: %+v, want ok", source, got)
					}
				}
				wantOutcome(t, l, id, done)
				waitForSent(t, l.db, "routed", id)
			}
			wantEffects(t, l, "1", "1", "2", "2", "3", "3", "4", "4")
		})
	}
}
