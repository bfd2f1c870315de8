package app

import (
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/build"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/config"
	"github.com/hookonce/hookonce/internal/runbook"
)

// reading is the result of reading the settings again.
type reading struct {
	settings *config.Settings
	err      error
}

// read reads the settings again. It may wait for the disk of a file. It also has the certificates looked at: tools that
// renew them often ask for a reload.
func (g *gateway) read() reading {
	if g.certs != nil {
		g.certs.Wake()
	}
	settings, err := g.options.Reload()
	return reading{settings, err}
}

// apply applies the sources, destinations and routes that were read. If they are wrong, the old ones stay in force.
func (g *gateway) apply(r reading) {
	settings, err := r.settings, r.err
	if err == nil {
		g.metrics.Expect(&settings.Engine)
		err = g.engine.Reload(&settings.Engine)
		g.metrics.Settle()
	}
	g.metrics.Reloaded(err == nil)
	if err != nil {
		g.refused.Store(&failedReload{time.Now(), err})
		g.log.Error("settings not reloaded; the old ones stay in force", "error", err, "see", noReload())
		return
	}
	g.refused.Store(nil)
	warnOfSettings(settings, g.log)
	g.showWarnings(settings)
	if changed := needRestart(g.options.Settings, settings); len(changed) > 0 {
		g.log.Warn("some changed settings take effect only after a restart", "settings", changed, "see", noReload())
	}
	g.log.Info("settings reloaded", slog.Int("sources", len(settings.Engine.Sources)),
		slog.Int("destinations", len(settings.Engine.Destinations)), slog.Int("routes", len(settings.Engine.Routes)))
	if names := settings.FromEnvironment; len(names) > 0 {
		g.log.Info("these variables keep the values of the process's environment, which a reload does not read again; "+
			"for new values restart, or put them into the file of env_file", "variables", names, "see", noReload())
	}
}

// failedReload is a reload that failed.
type failedReload struct {
	at  time.Time
	err error
}

// reloadFailed returns when and why the last reload failed, or no error.
func (g *gateway) reloadFailed() (time.Time, error) {
	if r := g.refused.Load(); r != nil {
		return r.at, r.err
	}
	return time.Time{}, nil
}

// noReload is where the runbook says why a reload has no effect.
func noReload() string { return build.Page(runbook.NoReload.Page()) }

// needRestart names the changed settings that only a restart applies.
func needRestart(running, read *config.Settings) []string {
	var changed []string
	for _, s := range []struct {
		name string
		same bool
	}{
		{"database", sameDatabase(running, read)},
		{"database_password", running.DatabasePassword.Equal(&read.DatabasePassword)},
		{"migrate", running.Migrate == read.Migrate},
		{"schema", running.Schema == read.Schema},
		{"listen", running.Listen == read.Listen},
		{"public_url", running.PublicURL == read.PublicURL},
		{"tls", running.TLS.Equal(&read.TLS)},
		{"admin", running.Admin == read.Admin},
		{"dedupe_window", running.Engine.DedupeWindow == read.Engine.DedupeWindow},
		{"retention", running.Engine.Retention == read.Engine.Retention},
		{"unverified_rate", running.Engine.UnverifiedRate == read.Engine.UnverifiedRate},
		{"trusted_proxies", slices.Equal(running.Engine.TrustedProxies, read.Engine.TrustedProxies)},
		{"allow_unsafe", slices.Equal(running.AllowUnsafe, read.AllowUnsafe)},
		{"shutdown_delay", running.ShutdownDelay == read.ShutdownDelay},
	} {
		if !s.same {
			changed = append(changed, s.name)
		}
	}
	return changed
}

// sameDatabase reports whether two settings name the same database. A file may hold another user or password now, which new
// connections take by themselves.
func sameDatabase(running, read *config.Settings) bool {
	if running.DatabaseFile == "" || running.DatabaseFile != read.DatabaseFile {
		return running.Database == read.Database
	}
	place := func(s *config.Settings) string {
		display := s.DatabaseDisplay()
		return display[strings.LastIndex(display, "@")+1:]
	}
	return place(running) == place(read)
}
