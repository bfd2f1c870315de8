package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hookonce/hookonce/driver"
)

func versionCases[T any]() []workCase[T] {
	return []workCase[T]{
		{"Applied", versionsApplied[T]},
		{"LowerIsKeptOut", versionsLower[T]},
		{"BytesOrder", versionsBytes[T]},
		{"OnlyWithTheCommit", versionsOnlyCommitted[T]},
		{"Prune", versionsPrune[T]},
		{"OfMessages", versionsOfMessages[T]},
		{"HeldUntilTheEnd", versionsHeld[T]},
		{"Concurrent", versionsConcurrent[T]},
	}
}

// objectVersion returns a version of an object, as applied by a handler of stripe.
func objectVersion(object, version string) driver.ObjectVersion {
	return driver.ObjectVersion{Object: driver.ObjectKey("stripe", "", object), Source: "stripe", Version: []byte(version), Shown: "v" + version}
}

// shownVersions returns the shown versions by object, for objects with a known version.
func shownVersions(found map[driver.Key]driver.ObjectVersion, objects ...string) map[string]string {
	shown := map[string]string{}
	for _, object := range objects {
		if v := found[driver.ObjectKey("stripe", "", object)]; v.Version != nil {
			shown[object] = v.Shown
		}
	}
	return shown
}

func objectKeys(objects ...string) []driver.Key {
	var keys []driver.Key
	for _, object := range objects {
		keys = append(keys, driver.ObjectKey("stripe", "", object))
	}
	return keys
}

func (f *fixture) versions(objects ...driver.Key) map[driver.Key]driver.ObjectVersion {
	f.Helper()
	got, err := f.s.Versions(f.Context(), objects)
	if err != nil {
		f.Fatalf("Versions: %v", err)
	}
	return got
}

// locked returns the objects that the run locks, with their versions.
func (w *bench[T]) locked(run driver.Run[T], objects ...driver.Key) map[driver.Key]driver.ObjectVersion {
	w.Helper()
	got, busy, err := run.Versions(w.Context(), objects)
	if err != nil || len(busy) > 0 {
		w.Fatalf("Run.Versions: busy objects %v, error %v; want neither", busy, err)
	}
	return got
}

// applies runs an event that applies versions.
func (w *bench[T]) applies(at time.Time, id string, versions ...driver.ObjectVersion) {
	w.Helper()
	w.queue(at, id)
	run := w.take(at, id)
	w.finishWith(run, &driver.FinishParams{Results: allSucceeded(run), Versions: versions, Now: at})
}

func versionsApplied[T any](w *bench[T]) {
	w.queue(t0, "evt_1")
	run := w.take(t0, "evt_1")
	keys := objectKeys("b", "a", "c", "a")
	same(w, "versions before", map[string]string{}, shownVersions(w.locked(run, keys...), "a", "b", "c"))
	a, b := objectVersion("a", "1"), objectVersion("b", "7")
	w.finishWith(run, &driver.FinishParams{Results: allSucceeded(run), Versions: []driver.ObjectVersion{b, a}, Now: t0})
	got := w.versions(keys...)
	for _, want := range []driver.ObjectVersion{a, b} {
		same(w, "version", want, got[want.Object])
	}
	if v := got[keys[2]]; v.Version != nil {
		w.Errorf("an object that was only locked has the version %+v, want none", v)
	}
	same(w, "no objects", map[driver.Key]driver.ObjectVersion{}, w.versions())
	w.queue(t0, "evt_2")
	run = w.take(t0, "evt_2")
	same(w, "versions after", map[string]string{"a": "v1", "b": "v7"}, shownVersions(w.locked(run, keys...), "a", "b", "c"))
	w.succeed(t0, run)
}

func versionsLower[T any](w *bench[T]) {
	for i, step := range []struct{ version, want string }{
		{"5", "5"}, {"4", "5"}, {"5", "5"}, {"6", "6"}, {"5", "6"}, {"1", "6"},
	} {
		v := objectVersion("a", step.version)
		if i == 2 {
			v.Shown = "equal" // equal versions are applied, but nothing is higher
		}
		w.applies(t0, fmt.Sprint("evt_", i), v)
		got := w.versions(v.Object)[v.Object]
		if string(got.Version) != step.want {
			w.Errorf("after version %s was applied %q is kept, want %q", step.version, got.Version, step.want)
		}
	}
}

// versionsBytes compares versions that are not valid text, and of different lengths.
func versionsBytes[T any](w *bench[T]) {
	ascending := []string{"\x00", "\x00\x00", "10", "9", "9\x00", "\xff", "\xff" + strings.Repeat("\xff", 254)}
	for i, version := range ascending {
		v := objectVersion("a", version)
		v.Shown = strings.Repeat("ö", 127)
		w.applies(t0, fmt.Sprint("evt_", i), v)
		same(w, fmt.Sprintf("version after %q", version), v, w.versions(v.Object)[v.Object])
		if i > 0 {
			older := v
			older.Version, older.Shown = []byte(ascending[i-1]), "older"
			w.applies(t0, fmt.Sprint("evt_old_", i), older)
			same(w, "version after an older one", v, w.versions(v.Object)[v.Object])
		}
	}
}

func versionsOnlyCommitted[T any](w *bench[T]) {
	v := objectVersion("a", "1")
	end := map[string]func(run driver.Run[T]){
		"evt_abandoned": w.abandon,
		"evt_failed":    func(run driver.Run[T]) { w.finish(t0, run, failed(&run.Events()[0])) },
		"evt_settled":   func(run driver.Run[T]) { w.settle(t0, run, failed(&run.Events()[0])) },
		"evt_stale":     func(run driver.Run[T]) { w.finish(t0, run, stale(&run.Events()[0])) },
		"evt_lost":      func(run driver.Run[T]) { w.h.Interrupt(w.T, w.d, run) },
	}
	for id, end := range end {
		c := w.queue(t0, id)[0]
		p := w.takeParams(t0, 1, false)
		p.Keys = []driver.Key{c.Key}
		run := w.takeThese(p, id)
		w.locked(run, v.Object)
		end(run)
		if got := w.versions(v.Object)[v.Object]; got.Version != nil {
			w.Errorf("after %s the version is %+v, want none", id, got)
		}
	}
}

// versionsHeld lets two runs ask for the version of one object, which may be new. It is busy for the
// second run, whose other objects are not, and whose event is postponed.
func versionsHeld[T any](w *bench[T]) {
	other := w.second()
	w.applies(t0, "evt_0", objectVersion("known", "1"))
	for i, object := range []string{"known", "new"} {
		ids := []string{fmt.Sprint("evt_a", i), fmt.Sprint("evt_b", i)}
		claims := w.queue(t0, ids...)
		p := w.takeParams(t0, 1, false)
		p.Keys = []driver.Key{claims[0].Key}
		first := w.takeThese(p, ids[0])
		w.locked(first, objectKeys(object)...)
		at := t0.Add(time.Second)
		postponed := false
		w.beside("the version of a busy object", func(ctx context.Context) error {
			run, err := other.d.Take(ctx, w.takeParams(t0, 1, false))
			if err != nil {
				return err // one writer at a time
			}
			w.abandonOnFailure(run)
			free := objectKeys(fmt.Sprint("free", i))[0]
			_, busy, err := run.Versions(ctx, append(objectKeys(object), free))
			if err != nil {
				return err
			}
			same(w, "busy objects", objectKeys(object), busy)
			r := driver.WorkResult{Key: claims[1].Key, Outcome: driver.WorkPostponed, RetryIn: time.Minute}
			postponed = true
			return run.Finish(ctx, &driver.FinishParams{Results: []driver.WorkResult{r}, Now: at})
		})
		version := objectVersion(object, "2")
		w.finishWith(first, &driver.FinishParams{Results: allSucceeded(first), Versions: []driver.ObjectVersion{version}, Now: t0})
		w.sameEvent(claimed(&claims[1], t0))
		if postponed {
			at = at.Add(time.Minute)
			w.takeNone("before a postponed event is due", w.takeParams(at.Add(-time.Microsecond), 1, false))
		}
		second := w.take(at, ids[1])
		same(w, "version after the run", map[string]string{object: "v2"}, shownVersions(w.locked(second, objectKeys(object)...), object))
		w.succeed(t0, second)
	}
}

// versionsPrune removes versions that were applied before the window of their source.
func versionsPrune[T any](w *bench[T]) {
	w.applies(t0, "evt_1", objectVersion("old", "1"), objectVersion("kept", "1"))
	w.applies(t0.Add(5*day), "evt_2", objectVersion("kept", "2"))
	github := driver.ObjectVersion{Object: driver.ObjectKey("github", "", "x"), Source: "github", Version: []byte("1"), Shown: "1"}
	w.applies(t0, "evt_3", github)
	p := windows(3*day, t0.Add(7*day))
	p.Sources = map[string]driver.SourceWindows{"github": {DedupeWindow: 30 * day, Retention: day}}
	w.prune(p)
	got := w.versions(append(objectKeys("old", "kept"), github.Object)...)
	same(w, "versions left", map[string]string{"kept": "v2"}, shownVersions(got, "old", "kept"))
	if got[github.Object].Version == nil {
		w.Error("the version of a source with a longer window is gone")
	}
	p.Now = t0.Add(100 * day)
	w.prune(p)
	if got := w.versions(append(objectKeys("kept"), github.Object)...); len(shownVersions(got, "kept")) > 0 || got[github.Object].Version != nil {
		w.Errorf("past every window %+v is left", got)
	}
	w.applies(t0.Add(100*day), "evt_4", objectVersion("old", "0"))
	same(w, "after pruning", map[string]string{"old": "v0"}, shownVersions(w.versions(objectKeys("old")...), "old"))
}

// versionsOfMessages keeps versions sent to a destination apart from versions applied by handlers.
func versionsOfMessages[T any](w *bench[T]) {
	w.applies(t0, "evt_1", objectVersion("a", "5"))
	c := newClaim("stripe", "evt_2", "{}", "billing")
	w.claimNew(t0, c)
	sent := driver.ObjectVersion{Object: driver.ObjectKey("stripe", "billing", "a"), Source: "stripe", Version: []byte("3"), Shown: "3"}
	m := w.leaseOne(t0, "to-billing")
	w.mustComplete(t0, driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageSent, Applied: &sent})
	got := w.versions(sent.Object, objectKeys("a")[0])
	same(w, "version that was sent", sent, got[sent.Object])
	same(w, "version that was applied", objectVersion("a", "5"), got[objectKeys("a")[0]])
}

// versionsConcurrent applies many versions of a few objects from two drivers at once, each only if
// no higher one was applied. In any order, no object goes back, and every object ends in its
// highest version.
func versionsConcurrent[T any](w *bench[T]) {
	const events, workers = 60, 4
	w.queue(t0, numbered(events)...)
	drivers := []driver.Driver[T]{w.d, w.second().d}
	race := &versionRace[T]{bench: w, applied: map[string][]string{}}
	var group sync.WaitGroup
	for i := range workers {
		group.Go(func() { race.work(drivers[i%2], 1+i) })
	}
	group.Wait()
	for i, object := range raceObjects {
		highest := versionOf(events - len(raceObjects) + i)
		got := w.versions(objectKeys(object)...)[objectKeys(object)[0]]
		if string(got.Version) != highest {
			w.Errorf("object %s ends in version %q, want %q", object, got.Version, highest)
		}
		if !slices.IsSorted(race.applied[object]) {
			w.Errorf("object %s had the versions %v applied in this order", object, race.applied[object])
		}
	}
	for n, id := range numbered(events) {
		want := driver.StateSkipped
		if slices.Contains(race.applied[raceObjects[n%len(raceObjects)]], versionOf(n)) {
			want = driver.StateDone
		}
		if state := w.state(id); state != want {
			w.Errorf("event %s is %s, want %s", id, state, want)
		}
	}
}

var raceObjects = []string{"a", "b", "c"}

func versionOf(n int) string { return fmt.Sprintf("%03d", n) }

type versionRace[T any] struct {
	*bench[T]
	mu      sync.Mutex
	applied map[string][]string // versions of each object, in commit order
}

// work takes events until all have ended.
func (r *versionRace[T]) work(d driver.Driver[T], limit int) {
	for range 20_000 {
		run, err := d.Take(r.Context(), r.takeParams(t0, limit, false))
		if err == nil && run != nil {
			err = r.apply(run)
		}
		if err != nil && !again(err) {
			r.Errorf("a worker stopped with the error %v", err)
			return
		}
		if err == nil && run == nil && r.ended() {
			return
		}
	}
	r.Error("a worker saw events that it could never take")
}

func (r *versionRace[T]) ended() bool {
	stats, err := r.d.Stats(r.Context())
	if err != nil {
		r.Errorf("Stats: %v", err)
	}
	return err != nil || stats.EventsPending == 0
}

// apply applies versions that are not stale. It notes them in commit order, because the run locks
// its objects until the commit.
func (r *versionRace[T]) apply(run driver.Run[T]) error {
	p := &driver.FinishParams{Now: t0}
	known, busy, err := run.Versions(r.Context(), objectKeys(raceObjects...))
	if err != nil {
		return errors.Join(err, run.Abandon(r.Context()))
	}
	for _, e := range run.Events() {
		var n int
		if _, err := fmt.Sscanf(e.EventID, "evt_%d", &n); err != nil {
			return err
		}
		v := objectVersion(raceObjects[n%len(raceObjects)], versionOf(n))
		if slices.Contains(busy, v.Object) {
			continue
		}
		if bytes.Compare(v.Version, known[v.Object].Version) < 0 {
			p.Results = append(p.Results, stale(&e))
			continue
		}
		known[v.Object] = v
		p.Results, p.Versions = append(p.Results, succeeded(&e)), append(p.Versions, v)
	}
	r.note(p.Versions, func(all []string, version string) []string { return append(all, version) })
	if err := run.Finish(r.Context(), p); err != nil {
		r.note(p.Versions, func(all []string, version string) []string {
			return slices.DeleteFunc(all, func(v string) bool { return v == version })
		})
		return errors.Join(err, run.Abandon(r.Context()))
	}
	return nil
}

func (r *versionRace[T]) note(versions []driver.ObjectVersion, change func(all []string, version string) []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, object := range raceObjects {
		for _, v := range versions {
			if v.Object == driver.ObjectKey("stripe", "", object) {
				r.applied[object] = change(r.applied[object], string(v.Version))
			}
		}
	}
}

// again reports whether err only says that another transaction was in the way.
func again(err error) bool {
	return errors.Is(err, driver.ErrSerialization) || errors.Is(err, driver.ErrUnavailable) || busy(err)
}
