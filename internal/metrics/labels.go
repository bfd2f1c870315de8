package metrics

import (
	"maps"
	"slices"
	"sync"
)

// maxNames is the most sources, and the most destinations, that have series of their own. The others
// share those of the name theOthers.
const (
	maxNames  = 200
	theOthers = "other"
)

// labels are the names of sources or destinations that are values of a label.
type labels struct {
	mu    sync.RWMutex
	known map[string]bool
	all   []string // the values that exist from the start
}

// of returns the value of the label for a name. "" stays "".
func (l *labels) of(name string) string {
	if name == "" {
		return ""
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.known[name] {
		return name
	}
	return theOthers
}

// add makes a name known, if there is room.
func (l *labels) add(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.known) < maxNames {
		l.known[name] = true
	}
}

// set makes the first maxNames of names known, which are sorted, and forgets all others. It returns
// the values that no name has any more.
func (l *labels) set(names []string) (gone []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.known
	l.known = map[string]bool{}
	for _, name := range names[:min(len(names), maxNames)] {
		l.known[name] = true
	}
	l.all = slices.Sorted(maps.Keys(l.known))
	if len(names) > maxNames {
		l.all = append(l.all, theOthers)
	}
	for name := range before {
		if !l.known[name] {
			gone = append(gone, name)
		}
	}
	return gone
}

// values returns the values that exist from the start.
func (l *labels) values() []string {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.all
}
