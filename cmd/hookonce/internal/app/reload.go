package app

import (
	"log/slog"
	"slices"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/config"
)

// reload reads the settings again and puts their sources, destinations and
// routes into force. Wrong settings leave the old ones in force.
func (g *gateway) reload() {
	settings, err := g.options.Reload()
	if err == nil {
		err = g.inbox.Reload(&settings.Inbox)
	}
	if err != nil {
		g.log.Error("settings not reloaded: the old ones stay in force", "error", err)
		return
	}
	warnOfSettings(settings, g.log)
	g.showWarnings(settings)
	if changed := needRestart(g.options.Settings, settings); len(changed) > 0 {
		g.log.Warn("settings that changed take effect at the next start only", "settings", changed)
	}
	g.log.Info("settings reloaded", slog.Int("sources", len(settings.Inbox.Sources)),
		slog.Int("destinations", len(settings.Inbox.Destinations)), slog.Int("routes", len(settings.Inbox.Routes)))
}

// needRestart names the settings that differ and that a reload does not change.
func needRestart(running, read *config.Settings) []string {
	var changed []string
	for _, s := range []struct {
		name string
		same bool
	}{
		{"database", running.Database == read.Database},
		{"migrate", running.Migrate == read.Migrate},
		{"listen", running.Listen == read.Listen},
		{"admin", running.Admin == read.Admin},
		{"dedupe_window", running.Inbox.DedupeWindow == read.Inbox.DedupeWindow},
		{"retention", running.Inbox.Retention == read.Inbox.Retention},
		{"unverified_rate", running.Inbox.UnverifiedRate == read.Inbox.UnverifiedRate},
		{"allow_unsafe", slices.Equal(running.AllowUnsafe, read.AllowUnsafe)},
		{"shutdown_delay", running.ShutdownDelay == read.ShutdownDelay},
	} {
		if !s.same {
			changed = append(changed, s.name)
		}
	}
	return changed
}
