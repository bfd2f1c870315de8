package sqlitestore

import (
	"database/sql"
	"encoding/hex"
	"strings"

	"github.com/hookonce/hookonce/driver"
)

// isEvent reports whether a number in a line is that of an event; see eventPlaces.
func isEvent(number int64) bool { return number >= 1<<62 }

// eventAt returns the key of an event whose place has an id; see driver.EventPlace.
func eventAt(id string) (key []byte, ok bool) {
	text, ok := strings.CutPrefix(id, "\n")
	if !ok {
		return nil, false
	}
	key, err := hex.DecodeString(text)
	return key, err == nil
}

// numberAt returns the number in a line of a message, or of the event at a place.
func numberAt(query func(string, ...any) *sql.Row, id string) (number int64, err error) {
	if key, ok := eventAt(id); ok {
		err = query(numberOfEvent, key).Scan(&number)
	} else {
		err = query(numberOf, idArgs(id)...).Scan(&number)
	}
	return number, err
}

// mayRun returns those of some events that may run: of each line, only the one that was let go last.
func (t *writeTx) mayRun(p *driver.TakeParams, taken []takenEvent) ([]takenEvent, error) {
	lines := make(map[driver.Key]driver.Key, len(p.Lines))
	for i, line := range p.Lines {
		lines[p.Keys[i]] = line
	}
	var mine []takenEvent
	for i := range taken {
		line, may := lines[taken[i].Key], true
		if line != (driver.Key{}) {
			if err := t.queryRow(selectMayRun, line[:], taken[i].Key[:]).Scan(&may); err != nil {
				return nil, err
			}
		}
		if may {
			mine = append(mine, taken[i])
		}
	}
	return mine, nil
}

// settleRun keeps the versions of handled events, and lets the lines of all events of a run go on, also of those without an
// outcome.
func (t *writeTx) settleRun(r *run, results []driver.WorkResult) error {
	if !r.ordered {
		return nil
	}
	for i := range results {
		if line := results[i].Line; line != nil && results[i].Outcome == driver.WorkSucceeded && len(line.Version) > 0 {
			if err := t.keepVersion(line); err != nil {
				return err
			}
		}
	}
	ids := make([]string, len(r.taken))
	for i := range r.taken {
		ids[i] = driver.EventPlace(r.taken[i].Key)
	}
	return t.settleIDs(ids)
}
