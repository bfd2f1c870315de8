package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	hookonce "github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/config"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookadmin"
	"github.com/hookonce/hookonce/hookmigrate"
	"github.com/hookonce/hookonce/internal/runbook"
)

// Status is the outcome of a check.
type Status string

// The values of Status.
const (
	StatusOK      Status = "ok"
	StatusWarning Status = "warning" // it works now, but may stop working
	StatusFailure Status = "failure" // it does not work, or may lose events
	StatusSkipped Status = "skipped" // it could not be checked, or does not apply here
)

// Check is the result of one check.
type Check struct {
	Name   string
	Status Status
	Seen   []string      // the findings, or why the check was skipped; at least one
	Remedy string        // what to do, one thing a line; "" if there is nothing to do
	See    runbook.Entry // more about it; "" for nothing
	Link   string        // the address of more about it, in place of See
}

// checkTimeout bounds one query of Doctor.
const checkTimeout = 5 * time.Second

const (
	// skewWarning is a skew that NTP never allows between two clocks.
	skewWarning = time.Second
	// skewLimit is the limit if no source signs a timestamp: half of the default tolerance.
	skewLimit = 150 * time.Second
)

// Gateway is the admin API of a running gateway.
type Gateway interface {
	String() string // its address
	Ready(ctx context.Context) error
	Gateway(ctx context.Context) (*hookadmin.Gateway, error)
	Sources(ctx context.Context) (*hookadmin.SourcePage, error)
	Destinations(ctx context.Context) (*hookadmin.DestinationPage, error)
	Warnings(ctx context.Context) (*hookadmin.WarningPage, error)
}

// Doctor checks an installation. It creates and changes nothing, takes its
// test claim back, and may run beside any number of
// gateways. settings and faults are the results of config.Load. gateway is a running gateway on the
// database, which knows its settings better, or nil.
func Doctor(ctx context.Context, settings *config.Settings, faults *config.Faults, gateway Gateway) []Check {
	d := &doctor{settings: settings, faults: faults, gateway: gateway}
	d.add(d.checkSettings())
	if settings.TLS.Enabled() {
		d.add(d.checkTLS())
	}
	d.checkDatabase(ctx)
	d.addWarnings()
	return d.checks
}

type doctor struct {
	settings *config.Settings
	faults   *config.Faults
	gateway  Gateway // may be nil
	checks   []Check
	warnings []hookadmin.Warning // of gateway
}

func (d *doctor) add(c Check) {
	if entry := entries[c.Name]; c.See == "" && c.Remedy != "" && (entry != runbook.NoStart || c.Status == StatusFailure) {
		c.See = entry
	}
	d.checks = append(d.checks, c)
}

// entries are those of the runbook about checks with a remedy.
var entries = map[string]runbook.Entry{
	"settings": runbook.NoStart, "tls": runbook.TLS, "database": runbook.Unavailable, "schema": runbook.NoStart, "durability": runbook.NoStart,
	"failover": runbook.Failover, "triggers": runbook.RowRefused, "clock": runbook.Clock, "claim": runbook.Unavailable,
	"dead_letters": runbook.DeadLetters, "quarantine": runbook.Unreadable, "destinations": runbook.UnknownDestination,
}

func ok(name, seen string) Check { return Check{Name: name, Status: StatusOK, Seen: []string{seen}} }

func skipped(name, why string) Check {
	return Check{Name: name, Status: StatusSkipped, Seen: []string{why}}
}

// failed returns a failure with the text of err and its hint.
func failed(name string, err error) Check {
	c := Check{Name: name, Status: StatusFailure, Seen: []string{err.Error()}}
	var hinter interface{ Hint() string }
	if errors.As(err, &hinter) {
		c.Remedy = hinter.Hint()
	}
	return c
}

func (d *doctor) checkSettings() Check {
	c := Check{Name: "settings", Status: StatusOK}
	if d.faults != nil {
		c.Status, c.Remedy = StatusFailure, "fix them; a running gateway keeps its settings"
		for _, f := range d.faults.List {
			c.Seen = append(c.Seen, f.Text(d.faults.File))
		}
	}
	if len(d.settings.Warnings) > 0 && c.Status == StatusOK {
		c.Status, c.Remedy = StatusWarning, "change these settings, unless they are intended"
	}
	for _, f := range d.settings.Warnings {
		text := f.Text(d.settings.File)
		if c.Status == StatusFailure {
			text = "warning: " + text // faults stand above it
		}
		c.Seen = append(c.Seen, text)
	}
	if len(c.Seen) == 0 {
		engine, file := &d.settings.Engine, "no file"
		if d.settings.File != "" {
			file = d.settings.File
		}
		c.Seen = []string{fmt.Sprintf("%s; sources: %d, routes: %d, destinations: %d",
			file, len(engine.Sources), len(engine.Routes), len(engine.Destinations))}
	}
	return c
}

// databaseChecks are the checks that need the database, in order.
var databaseChecks = []string{"schema", "durability", "failover", "triggers", "search_path", "clock", "claim", "dead_letters", "quarantine", "destinations"}

// needSchema are the last of databaseChecks, which read tables.
var needSchema = databaseChecks[6:]

// checkDatabase opens the database and runs the checks that need it.
func (d *doctor) checkDatabase(ctx context.Context) {
	if d.settings.Database == "" {
		const why = "the settings name no usable database"
		d.add(d.unknownDatabase(ctx, skipped("database", why)))
		for _, name := range databaseChecks {
			d.add(skipped(name, why))
		}
		c := skipped("gateway", why)
		if d.gateway != nil {
			c = d.askGateway(ctx, Check{Name: c.Name, Status: StatusOK})
		}
		d.add(c)
		return
	}
	store, err := d.open(ctx)
	if err != nil {
		d.add(failed("database", err))
		for _, name := range databaseChecks {
			d.add(skipped(name, "the database cannot be used"))
		}
		d.checkGateway(ctx)
		return
	}
	d.add(ok("database", d.settings.DatabaseDisplay()+" answers"))
	schema := timed(ctx, store, checkSchemaSteps)
	d.add(schema)
	d.add(timed(ctx, store, d.checkDurability))
	d.add(timed(ctx, store, checkFailover))
	d.add(timed(ctx, store, checkTriggers))
	d.add(timed(ctx, store, checkSearchPath))
	d.add(timed(ctx, store, d.checkClock))
	var stats *driver.Stats
	if schema.Status == StatusOK {
		d.add(timed(ctx, store, checkClaim))
		stats = d.checkStats(ctx, store)
	} else {
		for _, name := range needSchema {
			d.add(skipped(name, "the schema does not fit"))
		}
	}
	// Nothing was written. A pooler with few connections may need this one for the gateway's answers.
	_ = closeStore(store)
	if stats != nil {
		d.add(d.checkDestinations(ctx, stats.Destinations))
	}
	d.checkGateway(ctx)
}

// open opens the database without creating or changing it.
func (d *doctor) open(ctx context.Context) (driver.Store, error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	return OpenStore(ctx, d.settings)
}

func timed(ctx context.Context, store driver.Store, check func(context.Context, driver.Store) Check) Check {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	return check(ctx, store)
}

func checkSchemaSteps(ctx context.Context, store driver.Store) Check {
	const name = "schema"
	steps, err := hookmigrate.Status(ctx, store)
	if err != nil {
		return failed(name, err)
	}
	applied, newest, otherBuild := 0, 0, false
	for _, step := range steps {
		if step.Applied {
			applied = step.Version
		}
		if !step.Unknown {
			newest = step.Version
		}
		otherBuild = otherBuild || step.OtherBuild
	}
	seen := fmt.Sprintf("step %d; this program works with step %d", applied, newest)
	switch err := CheckSchema(ctx, store); {
	case err == nil:
		return ok(name, seen)
	case applied > newest:
		return Check{Name: name, Status: StatusFailure, Seen: []string{seen}, Remedy: "upgrade this program: a newer version migrated the database"}
	case otherBuild:
		return Check{Name: name, Status: StatusFailure, Seen: []string{
			fmt.Sprintf("step %d of another build, which is not upgradable before the first release", applied),
		}, Remedy: "use the build that made the database, or an empty database"}
	default:
		return Check{Name: name, Status: StatusFailure, Seen: []string{seen}, Remedy: "hookonce migrate up; serve migrates when it starts, unless migrate is manual"}
	}
}

func (d *doctor) checkDurability(ctx context.Context, store driver.Store) Check {
	engine, err := d.engine(store)
	if err != nil {
		return failed("durability", err)
	}
	refused, allowed, err := engine.Operator().Weaknesses(ctx)
	if err != nil {
		return failed("durability", err)
	}
	if path, isSQLite := d.settings.SQLitePath(); isSQLite {
		found, err := fileSystemOf(filepath.Dir(realPath(path)))
		if err != nil {
			return failed("durability", err)
		}
		if w := found.weakness(); w != nil {
			if slices.Contains(d.settings.AllowUnsafe, w.Setting) {
				allowed = append(allowed, *w)
			} else {
				refused = append(refused, *w)
			}
		}
		return inLayer(judgeDurability(refused, allowed), found)
	}
	return judgeDurability(refused, allowed)
}

func judgeDurability(refused, allowed []driver.Weakness) Check {
	c := Check{Name: "durability", Status: StatusOK}
	for _, w := range refused {
		c.Status, c.Remedy = StatusFailure, weaknessRemedy(refused)
		c.Seen = append(c.Seen, w.String())
	}
	for _, w := range allowed {
		if w.Platform != "" {
			c.Seen = append(c.Seen, w.String())
			continue
		}
		if c.Status == StatusOK {
			c.Status, c.Remedy = StatusWarning, "change it, unless the loss is intended"
		}
		c.Seen = append(c.Seen, "allowed by the settings: "+w.String())
	}
	if len(c.Seen) == 0 {
		c.Seen = []string{"confirmed commits survive a power cut"}
	}
	return c
}

// checkTriggers warns of triggers and rules that may drop or change rows.
func checkTriggers(ctx context.Context, store driver.Store) Check {
	const name = "triggers"
	found, err := store.ForeignTriggers(ctx)
	switch {
	case err != nil:
		return failed(name, err)
	case len(found) > 0:
		return Check{Name: name, Status: StatusWarning, Seen: found, Remedy: "drop them: a trigger or rule on hookonce's tables may drop or change events; restart the gateways after a rule is dropped"}
	}
	return ok(name, "no foreign trigger or rule is on hookonce's tables")
}

// checkSearchPath warns of roles that may plant functions where the database looks for those of statements.
func checkSearchPath(ctx context.Context, store driver.Store) Check {
	const name = "search_path"
	searched, isPostgres := store.(driver.Searched)
	if !isPostgres {
		return skipped(name, "SQLite has no schemas of others")
	}
	found, err := searched.Planters(ctx)
	switch {
	case err != nil:
		return failed(name, err)
	case len(found) > 0:
		return Check{Name: name, Status: StatusWarning, Seen: found, Remedy: "ALTER ROLE of the gateway SET search_path = pg_catalog: statements could call functions that others planted in these schemas"}
	}
	return ok(name, "no other role may create in a schema of the search_path")
}

func (d *doctor) checkClock(ctx context.Context, store driver.Store) Check {
	const name = "clock"
	if _, isSQLite := d.settings.SQLitePath(); isSQLite {
		return skipped(name, "SQLite uses the clock of this machine")
	}
	engine, err := d.engine(store)
	if err != nil {
		return failed(name, err)
	}
	skew, limit, err := engine.Operator().Clock(ctx)
	if err != nil {
		return failed(name, err)
	}
	return judgeClock(skew, limit)
}

// engine returns an engine on store. If the settings are faulty, it has the default settings, and
// only the allowed weaknesses of d's.
func (d *doctor) engine(store driver.Store) (*hookonce.Engine, error) {
	settings := d.settings
	if d.faults != nil {
		settings = &config.Settings{AllowUnsafe: settings.AllowUnsafe}
	}
	return NewEngine(store, settings, slog.New(slog.DiscardHandler), nil)
}

// judgeClock judges the results of Engine.Clock.
func judgeClock(skew, limit time.Duration) Check {
	if limit == 0 {
		limit = skewLimit
	}
	c := ok("clock", fmt.Sprintf("this machine is %s ahead of the database", skew.Round(time.Millisecond)))
	if skew < 0 {
		c.Seen = []string{fmt.Sprintf("this machine is %s behind the database", (-skew).Round(time.Millisecond))}
	}
	switch off := skew.Abs(); {
	case off > limit:
		c.Status = StatusFailure
		c.Seen = append(c.Seen, fmt.Sprintf("beyond %s, fresh signatures may look stale, and the gateway is not ready", limit))
	case off > skewWarning:
		c.Status = StatusWarning
	default:
		return c
	}
	c.Remedy = "set the clocks of both machines with NTP"
	return c
}

// checkStats reports stuck events and requests. It returns the counts, for checkDestinations, or nil
// if it reported an error in place of all checks.
func (d *doctor) checkStats(ctx context.Context, store driver.Store) *driver.Stats {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	stats, err := store.Stats(ctx)
	if err != nil {
		for _, name := range needSchema[1:] {
			d.add(failed(name, err))
		}
		return nil
	}
	dead := ok("dead_letters", "dead letters: "+orMore(stats.DeadLetters))
	if stats.DeadLetters > 0 {
		dead.Remedy = "hookonce dlq list"
	}
	d.add(dead)
	quarantine := ok("quarantine", "verified requests that could not be parsed: "+orMore(stats.Quarantined))
	if stats.Quarantined > 0 {
		quarantine.Remedy = "hookonce quarantine list shows them, with the reasons; after the settings are corrected: hookonce quarantine retry --all"
	}
	d.add(quarantine)
	return stats
}

// checkDestinations warns of messages that wait for a destination that is not in the settings: those
// of the gateway, if it answers.
func (d *doctor) checkDestinations(ctx context.Context, waiting []driver.DestinationStats) Check {
	const name = "destinations"
	if d.gateway != nil {
		if page, err := d.gateway.Destinations(ctx); err == nil {
			var known []string
			for i := range page.Destinations {
				if page.Destinations[i].Configured {
					known = append(known, page.Destinations[i].Name)
				}
			}
			return judgeDestinations(waiting, known, "the settings of the gateway", "put it back under its name, and reload the gateway")
		}
	}
	if d.faults != nil {
		return skipped(name, "the settings have faults")
	}
	var known []string
	for i := range d.settings.Engine.Destinations {
		known = append(known, d.settings.Engine.Destinations[i].Name)
	}
	return judgeDestinations(waiting, known, "the settings",
		"put it back under its name; without a running gateway, doctor does not know the destinations of serve --forward")
}

// orMore returns a number of driver.Stats as text.
func orMore(n int64) string {
	if n >= driver.CountLimit {
		return fmt.Sprintf("%d or more", n)
	}
	return strconv.FormatInt(n, 10)
}

// judgeDestinations warns of messages that wait for another destination than the known ones, which
// are those of settings.
func judgeDestinations(waiting []driver.DestinationStats, known []string, settings, remedy string) Check {
	c := Check{Name: "destinations", Status: StatusOK}
	for _, w := range waiting {
		open := w.Pending + w.Sending
		if open > 0 && !slices.Contains(known, w.Destination) {
			c.Status, c.Remedy = StatusWarning, remedy
			c.Seen = append(c.Seen, fmt.Sprintf("%s is not in %s; messages that wait for it: %s", w.Destination, settings, orMore(open)))
		}
	}
	if len(c.Seen) == 0 {
		c.Seen = []string{"no message waits for a destination that is not in " + settings}
	}
	return c
}
