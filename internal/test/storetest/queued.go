package storetest

import (
	"slices"

	"github.com/hookonce/hookonce/driver"
)

// Cases for work that every store offers, even without access to its transactions: claims carry the
// fields that Take selects by, and reserved events can be recorded.
func queuedCases() []testCase {
	return []testCase{
		{"SourceAndType", queuedSourceAndType},
		{"Recorded", queuedRecorded},
		{"NothingInterrupted", queuedNothingInterrupted},
	}
}

func queuedSourceAndType(f *fixture) {
	now := f.clock()
	for _, source := range []string{"stripe", "it's"} {
		for i, eventType := range []string{"", "a.b", "ö\n"} {
			c := newClaim(source, numbered(3)[i], "{}")
			c.Type, c.Work = eventType, driver.WorkQueued
			f.claimNew(now.Add(-day), c)
		}
	}
	due, err := f.s.DueSources(f.Context(), []string{"stripe", "it's", "nobody"})
	if err != nil {
		f.Fatalf("DueSources: %v", err)
	}
	due = slices.DeleteFunc(due, func(s driver.DueSource) bool { return !s.Fresh && !s.Tried && !s.Suspect })
	if len(due) != 2 || !due[0].Fresh || !due[1].Fresh || due[0].Tried || due[1].Tried {
		f.Errorf("DueSources returned %+v, want both sources fresh", due)
	}
	for _, test := range []struct {
		types []string
		want  int
	}{{[]string{"a.b"}, 1}, {[]string{"ö*"}, 1}, {[]string{"a.b"}, 0}, {[]string{"*"}, 1}, {[]string{"*"}, 0}} {
		got, err := f.s.Reserve(f.Context(), &driver.ReserveParams{Source: "it's", Types: test.types, Limit: 10, For: day})
		if err != nil || len(got) != test.want {
			f.Errorf("Reserve of %q returned %+v and the error %v, want %d events", test.types, got, err, test.want)
		}
		for i := range got {
			if got[i].Source != "it's" || got[i].Key != driver.EventKey("it's", got[i].EventID) {
				f.Errorf("Reserve returned %+v", got[i])
			}
		}
	}
}

func queuedRecorded(f *fixture) {
	c := newQueued("evt_1")
	f.claimNew(t0, c)
	got, err := f.s.Reserve(f.Context(), &driver.ReserveParams{Source: "stripe", Types: []string{"*"}, Limit: 1, For: day, Now: t0})
	if err != nil || len(got) != 1 {
		f.Fatalf("Reserve returned %+v and the error %v, want one event", got, err)
	}
	same(f, "reserved", []driver.TakenEvent{taken(&c, t0)}, got)
	r := failed(&got[0])
	for range 2 { // the second time it is no longer pending
		if err := f.s.RecordReserved(f.Context(), &driver.FinishParams{Results: []driver.WorkResult{r}, Now: t0}); err != nil {
			f.Fatalf("RecordReserved: %v", err)
		}
		want := claimed(&c, t0)
		want.State, want.Attempts, want.LastError, want.FailedAt = driver.StateDead, 1, handlerError, t0
		want.Tries = []driver.Attempt{attemptOf(r, t0, 0, 1)}
		f.shown(want)
	}
}

func queuedNothingInterrupted(f *fixture) {
	c := newQueued("evt_1")
	f.claimNew(t0, c)
	lost, err := f.s.SweepRuns(f.Context(), sweepParams(t0.Add(day)))
	if err != nil || len(lost) > 0 {
		f.Errorf("SweepRuns found %+v and the error %v, want nothing", lost, err)
	}
	f.sameEvent(claimed(&c, t0))
}
