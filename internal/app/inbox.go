package app

import (
	"log/slog"

	hookonce "github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/config"
)

// NewInbox returns an inbox of the settings on store. The gateway runs it; for a
// command beside one it knows sources and routes, and is not run.
func NewInbox(store driver.Store, settings *config.Settings, log *slog.Logger) (*hookonce.Inbox, error) {
	inboxConfig := settings.Inbox
	inboxConfig.Logger = log
	return hookonce.New(store, &inboxConfig)
}
