package app

import (
	"context"
	"log/slog"

	hookonce "github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/config"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/observe"
)

// NewEngine returns an engine for the settings on store. The gateway runs it. A command beside a
// gateway does not run it, and uses its sources and routes. observer may be nil.
func NewEngine(store driver.Store, settings *config.Settings, log *slog.Logger, observer *observe.Observer) (*hookonce.Engine, error) {
	return newEngine(store, settings, log, observer, nil)
}

func newEngine(store driver.Store, settings *config.Settings, log *slog.Logger, observer *observe.Observer, tracer observe.Tracer) (*hookonce.Engine, error) {
	engineConfig := settings.Engine
	engineConfig.Logger, engineConfig.AllowUnsafe, engineConfig.Observer, engineConfig.Tracer = log, settings.AllowUnsafe, observer, tracer
	return hookonce.NewEngine(store, &engineConfig)
}

// Prune removes the finished data of store that is past the windows of the settings.
func Prune(ctx context.Context, store driver.Store, settings *config.Settings) (*driver.PruneResult, error) {
	engine, err := NewEngine(store, settings, slog.New(slog.DiscardHandler), nil) // the caller reports
	if err != nil {
		return nil, err
	}
	return engine.Prune(ctx)
}
