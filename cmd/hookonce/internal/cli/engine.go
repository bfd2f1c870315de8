package cli

import (
	"context"
	"fmt"
	"log/slog"
	"os/signal"
	"syscall"
	"time"

	hookonce "github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/app"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/config"
	"github.com/hookonce/hookonce/driver"
)

// engine is an engine of the settings that is not run, beside its store.
type engine struct {
	*hookonce.Engine
	store    driver.Store
	settings *config.Settings
	progress *progress
}

// withEngine is withStore for what changes events. What the engine warns of, such
// as a route's condition that fails, goes to stderr.
func (p *program) withEngine(ctx context.Context, f *settingsFlags, work func(context.Context, *engine) error) error {
	return p.withSettings(ctx, f, func(ctx context.Context, settings *config.Settings, store driver.Store) error {
		log := slog.New(slog.NewTextHandler(p.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
		progress := p.newProgress()
		store = &watched{Store: store, progress: progress}
		in, err := app.NewEngine(store, settings, log)
		if err != nil {
			return err
		}
		return work(ctx, &engine{in, store, settings, progress})
	})
}

// interruptible returns a context that ends with SIGINT or SIGTERM; a second
// signal has its usual effect.
func interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, restore := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, restore)
	return ctx, restore
}

// progress is one line on a terminal that says how far something came;
// elsewhere it is nothing.
type progress struct {
	p     *program
	on    bool
	shown time.Time
}

func (p *program) newProgress() *progress { return &progress{p: p, on: isTerminal(p.stderr)} }

// show replaces the line, a few times a second.
func (g *progress) show(format string, args ...any) {
	const pause = 100 * time.Millisecond
	if now := time.Now(); g.on && now.Sub(g.shown) >= pause {
		g.shown = now
		fmt.Fprintf(g.p.stderr, "\r"+format+"\x1b[K", args...)
	}
}

// watch calls show until done is closed: from one goroutine, as show wants.
func (g *progress) watch(done <-chan struct{}, show func()) {
	if !g.on {
		<-done
		return
	}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
			show()
		}
	}
}

// end takes the line away.
func (g *progress) end() {
	if !g.shown.IsZero() {
		g.shown = time.Time{}
		fmt.Fprint(g.p.stderr, "\r\x1b[K")
	}
}

// counted returns "1 event", "2 events".
func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
