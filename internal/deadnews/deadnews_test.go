package deadnews_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/deadnews"
	"github.com/hookonce/hookonce/internal/test/rig"
)

var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

// world is a real store with its own clock.
type world struct {
	driver.Store
	t    *testing.T
	now  time.Time
	fail error // of NewDead
}

func newWorld(t *testing.T) *world { return &world{Store: rig.OpenSQLite(t), t: t, now: noon} }

func (w *world) Now(context.Context) (time.Time, error) { return w.now, nil }

func (w *world) NewDead(ctx context.Context, p *driver.NewDeadParams) ([]driver.NewDead, error) {
	if w.fail != nil {
		return nil, w.fail
	}
	return w.Store.NewDead(ctx, p)
}

// die makes the message of a new event of the source s dead.
func (w *world) die(at time.Time, id, destination, text string) {
	w.t.Helper()
	c := driver.Claim{
		Key: driver.EventKey("s", id), Source: "s", EventID: id, Headers: []byte("{}"), Body: []byte("canary"),
		Messages: []driver.NewMessage{{ID: driver.MessageID(driver.EventKey("s", id), 0, destination), Route: destination, Destination: destination}},
	}
	if _, err := w.Claim(w.t.Context(), &driver.ClaimParams{Claims: []driver.Claim{c}, Now: at}); err != nil {
		w.t.Fatal(err)
	}
	w.settle(at, destination, driver.MessageDead, text)
}

// settle completes the due messages of a destination, and returns their bodies.
func (w *world) settle(at time.Time, destination string, outcome driver.MessageOutcome, text string) (bodies []string) {
	w.t.Helper()
	leased, err := w.Lease(w.t.Context(), &driver.LeaseParams{Destination: destination, Limit: 99, For: time.Minute, MaxAttempts: 9, Now: at})
	if err != nil {
		w.t.Fatal(err)
	}
	p := &driver.CompleteParams{Now: at}
	for _, m := range leased.Messages {
		bodies = append(bodies, string(m.Body))
		p.Completions = append(p.Completions, driver.Completion{ID: m.ID, Token: m.Token, Outcome: outcome, Error: text})
	}
	if _, err := w.Complete(w.t.Context(), p); err != nil {
		w.t.Fatal(err)
	}
	return bodies
}

// tell calls Tell as if its interval had passed, and returns the summaries that ops got by it.
func (w *world) tell(teller *deadnews.Teller, watches ...deadnews.Watch) []string {
	w.t.Helper()
	teller.AskAgain()
	if _, err := teller.Tell(w.t.Context(), watches); err != nil {
		w.t.Fatal(err)
	}
	return w.settle(time.Now().Add(time.Hour), "ops", driver.MessageSent, "")
}

var both = deadnews.Watch{Target: "ops", Destinations: []string{"billing", "crm"}}

func TestSummary(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.die(noon.Add(time.Second), "e1", "billing", "answered 500: request 17")
	w.die(noon.Add(2*time.Second), "e2", "billing", "answered 500: request 18")
	w.die(noon.Add(3*time.Second), "e3", "crm", strings.Repeat("é", 400))
	w.die(noon.Add(time.Minute), "e4", "crm", "of the next minute")
	w.die(noon.Add(time.Second), "e5", "other", "not watched")
	teller := deadnews.New(w)
	if w.now = noon.Add(time.Minute + deadnews.Settle - 1); len(w.tell(teller, both)) > 0 {
		t.Error("the minute was summed up before its commits were done")
	}
	w.now = noon.Add(time.Minute + deadnews.Settle)
	got := w.tell(teller, both)
	if len(got) != 1 {
		t.Fatalf("%d summaries, want one", len(got))
	}
	if strings.Contains(got[0], "canary") {
		t.Errorf("the summary holds a body: %s", got[0])
	}
	var read deadnews.Summary
	if err := json.Unmarshal([]byte(got[0]), &read); err != nil {
		t.Fatal(err)
	}
	id := func(event, destination string) string {
		return driver.MessageID(driver.EventKey("s", event), 0, destination)
	}
	want := deadnews.Summary{
		Type: "hookonce.dead_letters", Since: "2026-01-31T12:00:00.000000Z", Until: "2026-01-31T12:01:00.000000Z", Count: 3,
		Groups: []deadnews.Group{
			{"billing", "s", "answered 500: request #", 2},
			{"crm", "s", driver.ErrorSignature(strings.Repeat("é", 400)), 1},
		},
		Samples: []deadnews.Sample{
			{"billing", "s", "e1", id("e1", "billing"), "answered 500: request 17", "2026-01-31T12:00:01.000000Z"},
			{"crm", "s", "e3", id("e3", "crm"), strings.Repeat("é", 150) + "…", "2026-01-31T12:00:03.000000Z"},
		},
	}
	if diff := cmp.Diff(want, read); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := w.tell(teller, both); len(got) > 0 {
		t.Errorf("told again: %q", got)
	}
	if w.now = noon.Add(2*time.Minute + deadnews.Settle); len(w.tell(teller, both)) != 1 {
		t.Error("the next minute has no summary")
	}
	if w.now = noon.Add(time.Hour); len(w.tell(teller, both)) > 0 {
		t.Error("a minute without dead letters has a summary")
	}
}

// A summary that is dead causes none, also where two destinations tell each other.
func TestDeadSummariesTellNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.die(noon, "e1", "a", "no")
	w.die(noon, "e2", "b", "no")
	chain := []deadnews.Watch{{Target: "b", Destinations: []string{"a"}}, {Target: "a", Destinations: []string{"b"}}}
	teller, told := deadnews.New(w), 0
	for minute := 1; minute <= 5; minute++ {
		w.now = noon.Add(time.Duration(minute)*time.Minute + deadnews.Settle)
		teller.AskAgain()
		if _, err := teller.Tell(t.Context(), chain); err != nil {
			t.Fatal(err)
		}
		for _, destination := range []string{"a", "b"} {
			// Dead in the minute that is summed up next; a lease needs the present time.
			leased, err := w.Lease(t.Context(), &driver.LeaseParams{Destination: destination, Limit: 99, For: time.Minute, MaxAttempts: 9})
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range leased.Messages {
				told++
				done := driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageDead, Error: "down"}
				if _, err := w.Complete(t.Context(), &driver.CompleteParams{Completions: []driver.Completion{done}, Now: w.now}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if told != 2 {
		t.Errorf("%d summaries, want one of each dead letter and none of themselves", told)
	}
}

// Several processes send one summary, and one that starts later or was away for a while tells the
// minutes without a summary.
func TestOneSummaryOfSeveralProcesses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.die(noon, "e1", "billing", "no")
	w.now = noon.Add(time.Minute + deadnews.Settle)
	turned := deadnews.Watch{Target: "ops", Destinations: []string{"crm", "billing"}}
	n := len(w.tell(deadnews.New(w), both)) + len(w.tell(deadnews.New(w), turned)) + len(w.tell(deadnews.New(w), both))
	if n != 1 {
		t.Errorf("%d summaries, want one", n)
	}
	w.die(noon.Add(3*time.Minute), "e2", "billing", "no")
	teller := deadnews.New(w)
	w.now, w.fail = noon.Add(4*time.Minute+deadnews.Settle), driver.ErrUnavailable
	if _, err := teller.Tell(t.Context(), []deadnews.Watch{both}); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("error %v, want that of the store", err)
	}
	w.now, w.fail = noon.Add(9*time.Minute), nil
	if got := w.tell(teller, both); len(got) != 1 || !strings.Contains(got[0], `"e2"`) {
		t.Errorf("after the fault: %q, want the summary of e2", got)
	}
	if got := w.tell(deadnews.New(w), deadnews.Watch{Target: "ops", Destinations: []string{"billing"}}); len(got) != 2 {
		t.Errorf("with other settings: %d summaries, want its own two", len(got))
	}
}

// After a step of the database's clock back, minutes are summed up again from its new time.
func TestClockStepsBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	teller := deadnews.New(w)
	w.now = noon.Add(24 * time.Hour)
	w.tell(teller, both)
	w.die(noon, "e1", "billing", "no")
	w.now = noon.Add(time.Minute + deadnews.Settle)
	if got := w.tell(teller, both); len(got) != 1 {
		t.Errorf("%d summaries, want one", len(got))
	}
}

func TestManyGroups(t *testing.T) {
	t.Parallel()
	var dead []driver.NewDead
	for i := range driver.MaxNewDead {
		dead = append(dead, driver.NewDead{Source: "s", Error: strings.Repeat("x", i%25), FailedAt: noon})
	}
	s := deadnews.SumUp(dead, noon, noon.Add(time.Minute))
	if len(s.Groups) != deadnews.MaxGroups || s.OtherGroups != 5 || len(s.Samples) != deadnews.MaxSamples || !s.More || s.Count != driver.MaxNewDead {
		t.Errorf("%d groups and %d others, %d samples, more %t, count %d", len(s.Groups), s.OtherGroups, len(s.Samples), s.More, s.Count)
	}
}
