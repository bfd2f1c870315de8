package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	hookonce "github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/app"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/config"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/observe"
)

// engine is an engine for the settings, and its store. It is not running.
type engine struct {
	*hookonce.Engine
	store    driver.Store
	settings *config.Settings
}

// withEngine calls work with an engine for the settings. Warnings of the engine go to stderr. observer may be nil.
func (p *program) withEngine(ctx context.Context, f *settingsFlags, observer *observe.Observer, work func(context.Context, *engine) error) error {
	return p.withSettings(ctx, f, func(ctx context.Context, settings *config.Settings, store driver.Store) error {
		in, err := app.NewEngine(store, settings, p.warnings(), observer)
		if err != nil {
			return err
		}
		return work(ctx, &engine{in, store, settings})
	})
}

// interruptible returns a context that ends with SIGINT or SIGTERM. A second signal has its usual
// effect: it kills the process. That holds as soon as the context ends, so the process never swallows a
// signal once it is seen to stop.
func interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		select {
		case <-signals:
		case <-ctx.Done():
		}
		signal.Stop(signals)
		cancel()
	}()
	return ctx, cancel
}
