package lifecycle_test

import (
	"fmt"
	"strings"
	"testing"
)

// maxMoments limits the size of a world, so that one that is too large by mistake fails instead of
// filling the memory.
const maxMoments = 3_000_000

// exploration holds all moments of a world that were reached, nearest first.
type exploration struct {
	w       *world
	moments []moment
	from    []int32 // the preceding moment; for the first one, itself
	index   map[moment]int32
	seen    map[happening]int // number of steps of each kind that changed something

	// The moments after moment i are next[first[i]:first[i+1]]. They are kept only for a backward
	// search.
	keep  bool
	next  []int32
	first []int32
}

// happening is a kind of action.
type happening struct{ step, note string }

// explore tries every possible step in w, breadth first, until a step breaks one of the rules. It
// then returns the story of that step, which is a shortest one.
func explore(t *testing.T, w *world, keep bool, rules ...rule) (x *exploration, broken, story string) {
	t.Helper()
	w.setUp(t)
	start := w.begin()
	x = &exploration{
		w: w, keep: keep, moments: []moment{start}, from: []int32{0},
		index: map[moment]int32{start: 0}, seen: make(map[happening]int),
	}
	var a action
	var was, is moment
	for i := int32(0); int(i) < len(x.moments) && broken == ""; i++ {
		was = x.moments[i]
		x.first = append(x.first, int32(len(x.next)))
		for _, st := range steps {
			st.run(w, was, func(did action, then moment) {
				a, is = did, then.sorted()
				if broken != "" || is == was {
					return
				}
				for _, r := range rules {
					if !r.keeps(w, &a, &was, &is) {
						broken, story = r.name, x.tell(i)+x.line(a, &is)
						return
					}
				}
				x.reach(i, is)
				x.seen[happening{a.step, a.note}]++
			})
		}
		if len(x.moments) > maxMoments {
			t.Fatalf("world %q has more than %d moments", w.name, maxMoments)
		}
	}
	x.first = append(x.first, int32(len(x.next)))
	return x, broken, story
}

func (x *exploration) reach(from int32, is moment) {
	j, ok := x.index[is]
	if !ok {
		j = int32(len(x.moments))
		x.index[is] = j
		x.moments = append(x.moments, is)
		x.from = append(x.from, from)
	}
	if x.keep {
		x.next = append(x.next, j)
	}
}

// stuck returns the story of a moment that can never become quiet again; "" if there is none.
func (x *exploration) stuck() string {
	good := make([]bool, len(x.moments))
	for i := range x.moments {
		good[i] = x.w.quiet(&x.moments[i])
	}
	for changed := true; changed; {
		changed = false
		for i := len(good) - 1; i >= 0; i-- {
			for _, j := range x.next[x.first[i]:x.first[i+1]] {
				if !good[i] && good[j] {
					good[i], changed = true, true
				}
			}
		}
	}
	for i, ok := range good {
		if !ok {
			return x.tell(int32(i)) + "      and no further step can finish the work\n"
		}
	}
	return ""
}

// tell returns the story of moment i by repeating its steps.
func (x *exploration) tell(i int32) string {
	if i == 0 {
		return ""
	}
	story, line := x.tell(x.from[i]), ""
	for _, st := range steps {
		st.run(x.w, x.moments[x.from[i]], func(a action, is moment) {
			if is = is.sorted(); line == "" && is == x.moments[i] {
				line = x.line(a, &is)
			}
		})
	}
	return story + line
}

// line describes one step and the database's content after it.
func (x *exploration) line(a action, is *moment) string {
	var b strings.Builder
	what := fmt.Sprintf("event %d", a.event)
	if a.row >= 0 {
		what = "message " + x.rowName(a.row)
	}
	fmt.Fprintf(&b, "  %-15s %-11s %-38s ", a.step, what, a.note)
	for e := range x.w.events {
		ev := &is.events[e]
		if !ev.there {
			fmt.Fprintf(&b, "| event %d: none ", e)
		}
		if ev.bodyGone {
			fmt.Fprintf(&b, "| event %d without body ", e)
		}
	}
	for i := range x.w.slots {
		if m := &is.rows[i]; m.state != absent {
			fmt.Fprintf(&b, "| %s: %s, attempts %d, token %d, generation %d ",
				x.rowName(i), m.state, m.attempts, m.token, m.generation)
		}
	}
	for _, l := range is.relays {
		if l.phase != idle {
			fmt.Fprintf(&b, "| a relay has token %d of %s ", l.token, x.rowName(int(l.row)))
		}
	}
	return strings.TrimRight(b.String(), " ") + "\n"
}

// rowName names a message by its event, its route, and its id's generation.
func (x *exploration) rowName(i int) string {
	s := &x.w.slots[i]
	return fmt.Sprintf("%d%s%d", s.event, routeName(s.route), s.generation)
}
