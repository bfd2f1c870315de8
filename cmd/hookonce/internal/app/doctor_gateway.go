package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/hookonce/hookonce/hookadmin"
	"github.com/hookonce/hookonce/internal/runbook"
)

// The settings of the packages, and the working directory of their unit. Only tests change them.
var (
	InstalledSettings = "/etc/hookonce/hookonce.yaml"
	InstalledFolder   = "/var/lib/hookonce"
)

// SettingsToName returns the file that a remedy names after --config: the settings of the package if they are here,
// also if this user may not look at them, otherwise "FILE".
func SettingsToName() string {
	if _, err := os.Stat(InstalledSettings); errors.Is(err, os.ErrNotExist) {
		return "FILE"
	}
	return InstalledSettings
}

// unknownDatabase warns that only a running gateway knows the database.
func (d *doctor) unknownDatabase(ctx context.Context, c Check) Check {
	if d.gateway == nil {
		return c
	}
	c.Status, c.See, c.Remedy = StatusWarning, runbook.WrongDatabase, "run it with the settings of that gateway: --config "+SettingsToName()
	if d.settings.File == InstalledSettings {
		c.Remedy = "run it as a user who may read all settings: sudo -u hookonce hookonce doctor"
	}
	if about, err := d.gateway.Gateway(ctx); err == nil {
		c.Seen = append(c.Seen, "not checked: the gateway at "+d.gateway.String()+" works on "+about.Database)
	}
	return c
}

// checkGateway reports whether a gateway runs on the database, and its answers.
func (d *doctor) checkGateway(ctx context.Context) {
	const name = "gateway"
	path, isSQLite := d.settings.SQLitePath()
	c := skipped(name, "any number of gateways may share a PostgreSQL database; none of this user runs on this machine")
	if isSQLite {
		who, serves, err := whoServes(realPath(path))
		switch {
		case err != nil:
			c = failed(name, err)
		case serves:
			c = ok(name, "a gateway"+who+" serves this file")
		default:
			c = ok(name, "no gateway serves this file now")
		}
		c = warnOfLog(c, path)
	}
	if d.gateway != nil && c.Status != StatusFailure {
		if !isSQLite {
			c = Check{Name: name, Status: StatusOK}
		}
		c = d.askGateway(ctx, c)
	}
	d.add(c)
}

// askGateway adds the answers of the gateway to c.
func (d *doctor) askGateway(ctx context.Context, c Check) Check {
	c.Seen = append(c.Seen, "a gateway answers at "+d.gateway.String())
	sources, err := d.gateway.Sources(ctx)
	if err != nil {
		return failed(c.Name, err)
	}
	destinations, err := d.gateway.Destinations(ctx)
	if err != nil {
		return failed(c.Name, err)
	}
	warnings, err := d.gateway.Warnings(ctx)
	if err != nil {
		return failed(c.Name, err)
	}
	d.warnings = warnings.Warnings
	configured := 0
	for i := range destinations.Destinations {
		if destinations.Destinations[i].Configured {
			configured++
		}
	}
	c.Seen = append(c.Seen, fmt.Sprintf("its settings: sources: %d, destinations: %d", len(sources.Sources), configured))
	if err := d.gateway.Ready(ctx); err != nil {
		c.Status, c.Remedy, c.See = StatusFailure, "mend what claim says, or look at the log of the gateway", runbook.Unavailable
		c.Seen = append(c.Seen, "it is not ready: "+err.Error())
	}
	return c
}

// addWarnings adds those of the gateway that no other check has told.
func (d *doctor) addWarnings() {
	told := slices.Clone(d.checks)
	for i := range d.warnings {
		w := &d.warnings[i]
		if !slices.ContainsFunc(told, func(c Check) bool { return c.tells(w) }) {
			remedy := strings.TrimSpace(strings.Join(append(w.Remedy, w.Command), "\n"))
			d.add(Check{Name: "gateway", Status: StatusWarning, Seen: []string{w.Text}, Remedy: remedy, Link: w.See})
		}
	}
}

// tells reports whether c has told of w.
func (c *Check) tells(w *hookadmin.Warning) bool {
	if c.Name == "destinations" && c.Status == StatusWarning && w.Kind == hookadmin.UnknownDestination {
		return true
	}
	return slices.ContainsFunc(c.Seen, func(seen string) bool { return strings.HasPrefix(w.Text, seen) })
}
