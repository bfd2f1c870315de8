package lifecycle_test

import (
	"fmt"
	"strings"
	"testing"
)

// maxMoments bounds a world, so that one which grew by mistake fails instead of
// filling the memory.
const maxMoments = 3_000_000

// exploration is all moments of a world that were reached, nearest first.
type exploration struct {
	w       *world
	moments []moment
	from    []int32 // the moment before; of the first one, itself
	index   map[moment]int32
	seen    map[happening]int // how often each led somewhere

	// The moments that follow moment i are next[first[i]:first[i+1]]. They are
	// kept only if the world is to be searched backwards.
	keep  bool
	next  []int32
	first []int32
}

// happening is a kind of action.
type happening struct{ step, note string }

// explore goes through everything that can happen in w, breadth first, until a
// step breaks one of the rules; then it tells how that came about. Such a story
// is a shortest one.
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

// stuck returns how a moment comes about from which no quiet one can be
// reached, "" if there is none.
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
			return x.tell(int32(i)) + "      and nothing that can happen finishes it\n"
		}
	}
	return ""
}

// tell returns how moment i came about, by going through it again.
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

// line tells of one step and of what the database holds after it.
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

// rowName names a message by its event, its route, and the generation in its id.
func (x *exploration) rowName(i int) string {
	s := &x.w.slots[i]
	return fmt.Sprintf("%d%s%d", s.event, routeName(s.route), s.generation)
}
