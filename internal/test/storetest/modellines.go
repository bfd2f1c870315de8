package storetest

import (
	"github.com/hookonce/hookonce/driver"
)

// unfinished returns the open and the dead messages of the store by object: all that may keep others waiting.
func (w *orderWorld) unfinished() map[string][]driver.ListedMessage {
	found := map[string][]driver.ListedMessage{}
	for _, state := range []string{driver.StatePending, driver.StateSending, driver.StateDead} {
		filter := driver.MessageFilter{State: state, Limit: driver.MaxLimit}
		for {
			page := w.listMessages(&filter)
			for _, m := range page.Messages {
				found[m.EventID[:2]] = append(found[m.EventID[:2]], m)
			}
			if filter.After = page.Next; filter.After.IsZero() {
				break
			}
		}
	}
	return found
}

// applied returns the highest version of an object that was sent.
func (w *orderWorld) applied(object string) (highest int) {
	for id, sent := range w.sent {
		if sent && id[:2] == object {
			highest = max(highest, versionIn(id))
		}
	}
	return highest
}

// holds reports whether m keeps later messages of its object waiting: it is not stale, and open, or dead and o1 does not pass it.
func (w *orderWorld) holds(m *driver.ListedMessage) bool {
	object := m.EventID[:2]
	return versionIn(m.EventID) >= w.applied(object) && (m.State != driver.StateDead || object != "o1")
}

// mustBeLowest fails if a message was let go although an open one of its object comes before it. One that may have arrived goes
// before all others.
func (w *orderWorld) mustBeLowest(m *ordered, before []driver.ListedMessage) {
	if w.doubtful[m.ID] {
		return
	}
	mine := versionIn(m.EventID)
	for i := range before {
		other := &before[i]
		theirs := versionIn(other.EventID)
		isLower := theirs < mine || theirs == mine && other.ReceivedAt.Before(m.ReceivedAt)
		if other.ID != m.ID && isLower && w.holds(other) {
			w.Errorf("%s is sent before %s, which is %s", m.EventID, other.EventID, other.State)
		}
	}
}

// mustMove fails if messages of an object wait for their turn and nothing will wake them. If a gateway was killed before it could
// wake the next message, the object may wait until a sweep.
func (w *orderWorld) mustMove() {
	for object, all := range w.unfinished() {
		parked, moves := "", w.asleep[object]
		for i := range all {
			m := &all[i]
			if m.State == driver.StatePending && m.DueAt.Equal(driver.ParkedUntil) {
				parked = m.EventID
				continue
			}
			moves = moves || m.State != driver.StateDead || w.holds(m)
		}
		if parked != "" && !moves {
			w.Errorf("%s waits for its turn, and nothing comes before it", parked)
		}
	}
}
