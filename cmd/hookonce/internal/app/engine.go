package app

import (
	"context"
	"log/slog"

	hookonce "github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/config"
	"github.com/hookonce/hookonce/driver"
)

// NewEngine returns an engine of the settings on store. The gateway runs it; for a
// command beside one it knows sources and routes, and is not run.
func NewEngine(store driver.Store, settings *config.Settings, log *slog.Logger) (*hookonce.Engine, error) {
	engineConfig := settings.Inbox
	engineConfig.Logger = log
	return hookonce.NewEngine(store, &engineConfig)
}

// Prune removes from store what is finished and past the windows of the
// settings, and returns how much that was.
func Prune(ctx context.Context, store driver.Store, settings *config.Settings) (*driver.PruneResult, error) {
	inbox, err := NewEngine(store, settings, slog.New(slog.DiscardHandler)) // the caller reports
	if err != nil {
		return nil, err
	}
	return inbox.Prune(ctx)
}
