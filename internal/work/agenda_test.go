package work

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
)

func TestAgenda(t *testing.T) {
	t.Parallel()
	suspects := newAgenda(1, func() int { return 1 })
	a := newAgenda(2, func() int { return 3 })
	want := func(when string, want ...string) {
		t.Helper()
		var got []string
		for range 3 {
			picked, woken, ok := a.pick()
			if !ok {
				continue
			}
			defer a.looked(picked, woken, true)
			if picked.tried {
				got = append(got, picked.source+" tried")
			} else {
				got = append(got, picked.source)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	want("empty")
	a.wakeDue([]driver.DueSource{{Source: "a", Fresh: true, Tried: true}, {Source: "b", Fresh: true, Suspect: true}, {Source: "c"}}, suspects)
	if picked, _, ok := suspects.pick(); !ok || picked.source != "b" {
		t.Errorf("the suspects are of %+v, want those of b", picked)
	}
	want("in turn", "a", "a tried", "b")
	want("again", "a", "a tried", "b") // tasks stay until a worker finds nothing
	if n := len(a.tokens); n != 2 {
		t.Errorf("%d workers are woken, want both", n)
	}

	picked, woken, _ := a.pick()
	a.looked(picked, woken, true)
	want("one has more", "a tried", "b", "a")
	picked, woken, _ = a.pick()
	a.looked(picked, woken, false)
	want("one has no more", "b", "a", "b")
	picked, woken, _ = a.pick()
	a.wake(picked)
	a.looked(picked, woken, false)
	want("woken since it was picked", "b", "a", "b")
	for range 2 {
		picked, woken, _ = a.pick()
		a.working[picked.source]++ // a second worker has the same task
		a.looked(picked, woken, false)
		a.looked(picked, woken, false)
	}
	want("none has more")
}

func TestAgendaKeepsToTheShare(t *testing.T) {
	t.Parallel()
	share := 2
	a := newAgenda(3, func() int { return share })
	a.wakeDue([]driver.DueSource{{Source: "slow", Fresh: true, Tried: true}}, nil)
	first, woken, ok := a.pick()
	if _, _, second := a.pick(); !ok || !second {
		t.Fatal("two workers find nothing to do")
	}
	if picked, _, ok := a.pick(); ok {
		t.Errorf("a third worker picked %+v, beyond the share of its source", picked)
	}
	a.wake(task{source: "quick"})
	if picked, _, ok := a.pick(); !ok || picked.source != "quick" {
		t.Errorf("the third worker picked %+v, %v, want quick", picked, ok)
	}
	a.looked(first, woken, true)
	if picked, _, ok := a.pick(); !ok || picked.source != "slow" {
		t.Errorf("after one has ended, a worker picked %+v, %v, want slow", picked, ok)
	}
}
