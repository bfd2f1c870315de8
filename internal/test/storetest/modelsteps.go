package storetest

import (
	stdcmp "cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/group"
)

// seedVariable names the environment variable that repeats a run of the model.
const seedVariable = "HOOKONCE_TEST_SEED"

// In full, the model takes at least modelSteps steps, and up to a limit continues until each of things has happened. A short
// run takes a third of the steps.
const (
	modelSteps    = 200
	maxModelSteps = 5000
)

// things must all happen in a long run, so that a run cannot pass by doing little.
var things = []string{
	"claimed", "duplicate", "leased", "leased again", "used up", "held", "stale", "reopened", "pruned", "body pruned",
	"replayed", "replayed as new", "replayed under the same id", "replay repeated", "first routes", "not found", "open", "body gone",
	"mode needed", "no route", "letter replayed", "letter discarded", "no letter", "retried", "retried early", "sent already",
	"lease refused", "outcome refused",
}

func modelCases() []testCase {
	return []testCase{{"RandomSteps", modelRandomSteps}, {"RandomOrder", modelRandomOrder}}
}

// world drives a store and the model through the same steps.
type world struct {
	*fixture
	model
	rand *rand.Rand
	now  time.Time
	seen map[string]bool // things that happened at least once
}

// modelRandomSteps takes random steps. After each it compares the listing of all events with the
// model's, and the details of the events that the step touched; now and then all details.
func modelRandomSteps(f *fixture) {
	seed := f.seed(5)
	w := &world{
		fixture: f, model: model{events: map[driver.Key]*modelEvent{}},
		rand: rand.New(rand.NewPCG(seed, 0)), now: t0, seen: map[string]bool{},
	}
	steps := []func(*world) string{
		(*world).stepClaim, (*world).stepClaim, (*world).stepLease, (*world).stepLease, (*world).stepLease,
		(*world).stepComplete, (*world).stepComplete, (*world).stepRelease, (*world).stepReopen,
		(*world).stepCount, (*world).stepPrune, (*world).stepPrune, (*world).stepTime, (*world).stepTime,
		(*world).stepReplay, (*world).stepReplay, (*world).stepLetters, (*world).stepRetry,
		(*world).stepRefused,
	}
	for i := 0; i < group.Rounds(modelSteps/3, modelSteps) || group.Long() && len(w.missing()) > 0; i++ {
		did := steps[w.rand.IntN(len(steps))](w)
		w.compare(i%20 == 0)
		if w.Failed() {
			w.Fatalf("the store left the model at step %d of seed %d: %s", i, seed, did)
		}
		if i == maxModelSteps {
			w.Fatalf("seed %d: after %d steps these never happened: %q", seed, i, w.missing())
		}
	}
	w.compare(true)
}

// seed returns the seed of a run of random steps, and logs it. In a short run it is always soon.
func (f *fixture) seed(soon uint64) uint64 {
	f.Helper()
	seed := soon
	if group.Long() {
		seed = rand.Uint64()
	}
	if text := os.Getenv(seedVariable); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			f.Fatalf("%s: %v", seedVariable, err)
		}
	}
	f.Logf("%s=%d repeats this run", seedVariable, seed)
	return seed
}

// missing returns the things that have not happened yet.
func (w *world) missing() []string {
	return slices.DeleteFunc(slices.Clone(things), func(thing string) bool { return w.seen[thing] })
}

// compare compares the store with the model.
func (w *world) compare(all bool) {
	w.Helper()
	var want []driver.Event
	for _, e := range w.sortedEvents() {
		wantDetail := e.detail()
		want = append(want, wantDetail.Event)
		if !e.touched && !all {
			continue
		}
		e.touched = false
		got := w.event(e.claim.Source, e.claim.EventID)
		if !slices.IsSortedFunc(got.Tries, func(a, b driver.Attempt) int { return a.At.Compare(b.At) }) {
			w.Errorf("the attempts of %s are not sorted by time: %+v", e.claim.EventID, got.Tries)
		}
		for _, d := range []*driver.EventDetail{got, wantDetail} {
			sortTries(d.Tries)
			sortHistory(d.History)
		}
		same(w, "event "+e.claim.EventID, wantDetail, got, lastAnswer(), sinceDeath())
	}
	sortEvents(want)
	page := w.fixture.events(&driver.EventFilter{Limit: driver.MaxLimit})
	sameList(w, "listing", want, page.Events, lastAnswer(), sinceDeath())
	if all {
		w.compareListings()
	}
}

// sortTries sorts attempts of the same time, because the contract leaves their order open.
func sortTries(tries []driver.Attempt) {
	slices.SortFunc(tries, func(a, b driver.Attempt) int {
		return stdcmp.Or(a.At.Compare(b.At), strings.Compare(a.MessageID, b.MessageID),
			stdcmp.Compare(a.Generation, b.Generation), stdcmp.Compare(a.Number, b.Number))
	})
}

// sortHistory sorts entries that one call made for several messages.
func sortHistory(history []driver.HistoryEntry) {
	slices.SortStableFunc(history, func(a, b driver.HistoryEntry) int {
		return stdcmp.Or(a.At.Compare(b.At), strings.Compare(a.MessageID, b.MessageID))
	})
}

// sinceDeath compares only whether an event has a time of failure. If its last open message is sent
// after another one died, the event may count as dead since either time.
func sinceDeath() cmp.Option {
	return cmp.FilterPath(
		func(p cmp.Path) bool { return p.Last().String() == ".FailedAt" && p.Index(-2).Type().Name() == "Event" },
		cmp.Comparer(func(a, b time.Time) bool { return a.IsZero() == b.IsZero() }),
	)
}

func (w *world) stepTime() string {
	d := time.Duration(1+w.rand.IntN(15_000)) * time.Millisecond
	if w.rand.IntN(4) == 0 {
		d *= 6
	}
	w.now = w.now.Add(d)
	return fmt.Sprintf("%v passed", d)
}

func (w *world) stepClaim() string {
	var claims []driver.Claim
	var want []driver.ClaimResult
	for _, n := range w.rand.Perm(12)[:1+w.rand.IntN(4)] {
		routes := []string{"audit", "billing"}[:n%3]
		c := newClaim([]string{"stripe", "github"}[n%2], fmt.Sprint("evt_", n), fmt.Sprint("body ", w.rand.IntN(2)), routes...)
		result := driver.ClaimResult{Claimed: true}
		if e := w.model.events[c.Key]; e != nil {
			e.touched = true
			result = driver.ClaimResult{Duplicate: true, OtherBody: c.BodyHash != e.claim.BodyHash, Dead: e.dead()}
		}
		claims, want = append(claims, c), append(want, result)
	}
	same(w, "claim results", want, w.claim(w.now, claims...))
	for i := range claims {
		if want[i].Claimed {
			w.add(&claims[i], w.now)
			w.seen["claimed"] = true
		} else {
			w.seen["duplicate"] = true
		}
	}
	return fmt.Sprintf("claim of %d events", len(claims))
}

func (w *world) stepReopen() string {
	keys, want := []driver.Key{driver.EventKey("stripe", "unknown")}, []driver.Key{}
	for _, e := range w.sortedEvents() {
		if w.rand.IntN(2) == 0 {
			continue
		}
		keys = append(keys, e.claim.Key)
		if e.dead() {
			want = append(want, e.claim.Key)
			e.reopen(w.now)
			w.seen["reopened"] = true
		}
	}
	got := w.reopen(w.now, keys...)
	slices.SortFunc(got, compareKeys)
	same(w, "reopened keys", want, got)
	return fmt.Sprintf("reopening of %d keys", len(keys))
}

func (w *world) stepCount() string {
	var counts []driver.DeliveryCount
	for _, e := range w.sortedEvents() {
		if w.rand.IntN(3) > 0 {
			continue
		}
		n := driver.DeliveryCount{Key: e.claim.Key, Duplicates: 1 + w.rand.IntN(3), OtherBodies: w.rand.IntN(2), Repeats: w.rand.IntN(2)}
		counts = append(counts, n)
		e.counts.Count += int64(n.Duplicates)
		e.counts.OtherBodies += int64(n.OtherBodies)
		e.counts.Repeats += int64(n.Repeats)
		e.counts.LastAt, e.touched = w.now, true
	}
	w.count(w.now, counts...)
	return fmt.Sprintf("counts of %d events", len(counts))
}

func (w *world) stepPrune() string {
	want := w.model.prune(w.now)
	got := w.fixture.prune(&driver.PruneParams{DedupeWindow: modelWindow, Retention: modelRetention, Chunk: 1 + w.rand.IntN(3), Now: w.now})
	same(w, "pruned", want, got)
	w.seen["pruned"] = w.seen["pruned"] || want.Events > 0
	w.seen["body pruned"] = w.seen["body pruned"] || want.Bodies > 0
	return "prune"
}
