package work

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
)

func TestAgenda(t *testing.T) {
	t.Parallel()
	suspects := newAgenda(1)
	a := newAgenda(2)
	want := func(when string, want ...string) {
		t.Helper()
		var got []string
		for range 3 {
			if picked, _, ok := a.pick(); ok && picked.tried {
				got = append(got, picked.source+" tried")
			} else if ok {
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
		a.looked(picked, woken, false)
		a.looked(picked, woken, false) // of a second worker
	}
	want("none has more")
}
