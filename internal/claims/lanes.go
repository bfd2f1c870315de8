package claims

import (
	"slices"

	"github.com/hookonce/hookonce/driver"
)

// lanes holds the waiting units, in a lane for each source. Every source gets its share of the queue
// and of each batch, so that a flood of one source delays no other for long. The queue's lock guards
// it.
type lanes struct {
	turns    []*lane // those with units; the first one has the next turn
	bySource map[string]*lane
	units    int // in all lanes
}

// lane is the waiting units of one source, in the order of their arrival.
type lane struct {
	source string
	units  []*Unit
}

func newLanes() lanes { return lanes{bySource: make(map[string]*lane)} }

func (l *lanes) add(u *Unit) {
	one := l.bySource[u.source()]
	if one == nil {
		one = &lane{source: u.source()}
		l.bySource[one.source] = one
		l.turns = append(l.turns, one)
	}
	one.units = append(one.units, u)
	l.units++
}

// remove takes a waiting unit out.
func (l *lanes) remove(u *Unit) {
	one := l.bySource[u.source()]
	one.units = slices.DeleteFunc(one.units, func(w *Unit) bool { return w == u })
	l.units--
	l.drop(one)
}

// drop forgets a lane that has become empty.
func (l *lanes) drop(one *lane) {
	if len(one.units) == 0 {
		delete(l.bySource, one.source)
		l.turns = slices.DeleteFunc(l.turns, func(w *lane) bool { return w == one })
	}
}

// victim returns the last unit of the longest lane if it must make room for a unit of source, and nil
// if source has its share already.
func (l *lanes) victim(source string) *Unit {
	own := 0
	if one := l.bySource[source]; one != nil {
		own = len(one.units)
	}
	var last *Unit
	longest := own + 1 // a difference of one unit is fair
	for _, one := range l.turns {
		if n := len(one.units); n > longest {
			longest, last = n, one.units[n-1]
		}
	}
	return last
}

// take takes the units of one batch out: one of each lane in turn, until the batch is full. Units that
// the picker passes over stay.
func (l *lanes) take(p *unitPicker) []*Unit {
	turns := l.turns
	passed := make(map[*lane][]*Unit)
	l.turns = nil
	for len(turns) > 0 {
		one := turns[0]
		for picked := false; !picked && len(one.units) > 0; {
			u := one.units[0]
			if picked = p.pick(u); p.full {
				break
			}
			one.units[0] = nil // taken units must not stay in memory
			one.units = one.units[1:]
			if !picked {
				passed[one] = append(passed[one], u)
			}
		}
		if p.full {
			break // and the lane keeps its turn
		}
		if turns = turns[1:]; len(one.units) > 0 {
			turns = append(turns, one)
		} else {
			l.turns = append(l.turns, one)
		}
	}
	l.turns = append(turns, l.turns...)
	for one, units := range passed {
		one.units = append(units, one.units...)
	}
	l.turns = slices.DeleteFunc(l.turns, func(one *lane) bool {
		if len(one.units) == 0 {
			delete(l.bySource, one.source)
		}
		return len(one.units) == 0
	})
	l.units -= len(p.units)
	return p.units
}

// unitPicker picks the units of one batch.
type unitPicker struct {
	limit    int // claims
	claiming map[driver.Key]bool
	bodies   map[driver.Key][32]byte // of the picked claims
	passed   map[driver.Key]bool     // keys of units that stay: later copies must not overtake them
	units    []*Unit
	claims   int
	bytes    int
	full     bool
}

func newPicker(limit int, claiming map[driver.Key]bool) *unitPicker {
	return &unitPicker{limit: limit, claiming: claiming, bodies: make(map[driver.Key][32]byte), passed: make(map[driver.Key]bool)}
}

func (p *unitPicker) pick(u *Unit) bool {
	if len(p.units) > 0 && (p.claims+len(u.Claims) > p.limit || p.bytes+u.bytes > MaxBytes) {
		p.full = true
		return false
	}
	for i := range u.Claims {
		c := &u.Claims[i]
		body, picked := p.bodies[c.Key]
		if p.claiming[c.Key] || p.passed[c.Key] || picked && body != c.BodyHash {
			p.pass(u)
			return false
		}
	}
	for i := range u.Claims {
		p.bodies[u.Claims[i].Key] = u.Claims[i].BodyHash
	}
	p.units = append(p.units, u)
	p.claims += len(u.Claims)
	p.bytes += u.bytes
	return true
}

func (p *unitPicker) pass(u *Unit) {
	for i := range u.Claims {
		p.passed[u.Claims[i].Key] = true
	}
}
