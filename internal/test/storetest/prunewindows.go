package storetest

import (
	"fmt"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// register stores the windows of a process.
func (f *fixture) register(at time.Time, p *driver.PruneParams) {
	f.Helper()
	p.Now = at
	if err := f.s.RegisterWindows(f.Context(), p); err != nil {
		f.Fatalf("RegisterWindows: %v", err)
	}
}

// knows returns the parameters of a process with sources of its own. For others it has windows of d.
func knows(d time.Duration, sources map[string]driver.SourceWindows) *driver.PruneParams {
	p := windows(d, time.Time{})
	p.Sources = sources
	return p
}

// pruneAt prunes as a process at a time.
func (f *fixture) pruneAt(at time.Time, p *driver.PruneParams) driver.PruneResult {
	f.Helper()
	p.Now = at
	return f.prune(p)
}

// fillSource writes a row of each kind that follows the windows of a source: an event, an applied
// version of an object and a quarantined request.
func (f *fixture) fillSource(at time.Time, source string) (object driver.Key) {
	f.Helper()
	f.claimNew(at, newClaim(source, "evt_1", "{}", source))
	applied := &driver.ObjectVersion{Object: driver.ObjectKey(source, "", "o"), Source: source, Version: []byte("1"), Shown: "1"}
	m := f.leaseOne(at, "to-"+source)
	f.mustComplete(at, driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageSent, Applied: applied})
	for i := range 3 {
		f.quarantine(at.Add(-time.Duration(i)*time.Second), driver.Quarantined{Source: source, Body: fmt.Append(nil, source, i), Reason: "no id"})
	}
	return applied.Object
}

// kept fails unless the rows of fillSource are there or gone: its event, its body, its version and
// so many quarantined requests.
func (f *fixture) kept(source string, object driver.Key, identity, body bool, quarantined int) {
	f.Helper()
	if !identity {
		f.absent(source, "evt_1")
	} else if got := f.event(source, "evt_1"); got.BodyPruned == body {
		f.Errorf("source %s: the body was pruned is %v, want %v", source, got.BodyPruned, !body)
	}
	versions, err := f.s.Versions(f.Context(), []driver.Key{object})
	if err != nil || (len(versions) == 1) != identity {
		f.Errorf("source %s: the versions are %v with the error %v, want one: %v", source, versions, err, identity)
	}
	page, err := f.s.Quarantined(f.Context(), &driver.QuarantineFilter{Source: source})
	if err != nil || len(page.Requests) != quarantined {
		f.Errorf("source %s: the quarantine has %d requests with the error %v, want %d", source, len(page.Requests), err, quarantined)
	}
}

// pruneLongest prunes as processes with shorter windows than others have: for the same source, or
// because they do not know it. Each window of its own kind holds.
func pruneLongest(f *fixture) {
	long := f.fillSource(t0, "long")
	gone := f.fillSource(t0, "gone")
	f.register(t0, knows(day, map[string]driver.SourceWindows{
		"long": {DedupeWindow: 30 * day, Retention: 2 * day}, "gone": {DedupeWindow: 2 * day, Retention: 2 * day},
	}))
	f.register(t0, knows(day, map[string]driver.SourceWindows{"long": {DedupeWindow: 2 * day, Retention: 5 * day}}))
	short := knows(time.Hour, map[string]driver.SourceWindows{"long": {DedupeWindow: time.Hour, Retention: time.Hour}})
	short.QuarantineRows = 1
	stranger := windows(time.Hour, time.Time{})
	for _, p := range []*driver.PruneParams{short, stranger} {
		same(f, "pruned early", driver.PruneResult{}, f.pruneAt(t0.Add(2*day-time.Minute), p))
		f.kept("long", long, true, true, 3)
		f.kept("gone", gone, true, true, 3)
	}
	same(f, "pruned after two days", driver.PruneResult{Events: 1, Quarantined: 3}, f.pruneAt(t0.Add(2*day+time.Minute), short))
	f.kept("long", long, true, true, 3)
	f.kept("gone", gone, false, false, 0)
	same(f, "pruned after five days", driver.PruneResult{Bodies: 1, Quarantined: 3}, f.pruneAt(t0.Add(5*day+time.Minute), short))
	f.kept("long", long, true, false, 0)
}

// pruneUnknown prunes sources that no process registered: the longest window for other sources
// holds. That window does not prolong those of registered sources.
func pruneUnknown(f *fixture) {
	known, unknown := f.fillSource(t0, "known"), f.fillSource(t0, "unknown")
	bounded := windows(10*day, time.Time{})
	bounded.QuarantineRows = 2
	f.register(t0, bounded)
	p := knows(day, map[string]driver.SourceWindows{"known": {DedupeWindow: 2 * day, Retention: day}})
	p.QuarantineRows = 1
	f.register(t0, p)
	same(f, "pruned after two days", driver.PruneResult{Events: 1, Quarantined: 3 + 1}, f.pruneAt(t0.Add(2*day+time.Minute), p))
	f.kept("known", known, false, false, 0)
	f.kept("unknown", unknown, true, true, 2)
	f.register(t0.Add(6*day), bounded)
	same(f, "pruned after ten days", driver.PruneResult{Events: 1, Quarantined: 2}, f.pruneAt(t0.Add(10*day+time.Minute), p))
	f.kept("unknown", unknown, false, false, 0)
}

// pruneLongAgo lets a registration lapse. A process that was seen again within seven days keeps its
// windows, also if it was seen in the future, before the clock was set back.
func pruneLongAgo(f *fixture) {
	object := f.fillSource(t0, "stripe")
	long := knows(day, map[string]driver.SourceWindows{"stripe": {DedupeWindow: 30 * day, Retention: 30 * day}})
	short := windows(day, time.Time{})
	f.register(t0.Add(365*day), long)
	for i := range 3 { // each nearly seven days after the one before
		f.register(t0.Add(time.Duration(i)*(driver.WindowsHold-time.Minute)), long)
	}
	lapses := t0.Add(2*(driver.WindowsHold-time.Minute) + driver.WindowsHold)
	same(f, "pruned before it lapses", driver.PruneResult{}, f.pruneAt(lapses.Add(-time.Second), short))
	f.kept("stripe", object, true, true, 3)
	same(f, "pruned when it lapses", driver.PruneResult{Events: 1, Quarantined: 3}, f.pruneAt(lapses, short))
	f.kept("stripe", object, false, false, 0)
	// A lapsed registration does not come back with an earlier clock.
	f.fillSource(t0, "stripe")
	same(f, "pruned with an earlier clock", driver.PruneResult{Events: 1, Quarantined: 3}, f.pruneAt(t0.Add(2*day), short))
}

func pruneRegisteredNow(f *fixture) {
	f.claimNew(f.clock().Add(-2*day), newClaim("stripe", "evt_1", "{}"))
	f.register(time.Time{}, windows(3*day, time.Time{}))
	same(f, "pruned", driver.PruneResult{}, f.prune(windows(day, time.Time{})))
	for _, p := range []*driver.PruneParams{{}, {DedupeWindow: day}, {Retention: day}, {DedupeWindow: -day, Retention: day}} {
		if err := f.s.RegisterWindows(f.Context(), p); err == nil {
			f.Errorf("RegisterWindows(%+v) succeeded, want an error", p)
		}
	}
}
