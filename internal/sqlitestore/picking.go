package sqlitestore

import (
	"context"
	"slices"

	"github.com/hookonce/hookonce/driver"
)

// maxPassedOver is how many events one call passes over.
const maxPassedOver = 1000

// picking says how due events are picked.
type picking struct {
	limit  int
	skip   []driver.Key
	past   bool // it passes over events that the database refuses to change
	unread bool // it reads no headers and bodies
}

// pastRefusals takes events by take, past those that the database refuses to change. It tells of these, and returns a refusal if no
// other event is due. SQLite writes nothing in a transaction that has met a damaged page. After that, pastRefusals takes one event
// without its body, and then reads the body. After an error of that, the event is still taken.
func (s *Store) pastRefusals(
	ctx context.Context, op string, how picking, tell func(driver.RefusedEvent),
	take func(*picking) ([]takenEvent, []driver.RefusedEvent, error),
) ([]takenEvent, error) {
	var refusal error
	var passed []driver.RefusedEvent
	for {
		taken, refused, err := take(&how)
		switch {
		case isOfRow(err) && !how.past:
			how.past = true
			continue
		case isUnreadable(err) && !how.unread:
			how.past, how.unread, how.limit = true, true, 1
			continue
		case err != nil:
			return nil, err
		}
		for _, e := range refused {
			refusal = s.failed(ctx, op, e.Err)
			e.Err, how.skip = refusal, append(slices.Clip(how.skip), e.Key)
			passed = append(passed, e)
		}
		if len(taken) == 0 && len(refused) > 0 && len(passed) < maxPassedOver {
			continue
		}
		// If none can be changed, the database may be the reason, and the events must not rest.
		if tell != nil && (len(taken) > 0 || len(passed) == 1) {
			for _, e := range passed {
				tell(e)
			}
		}
		switch {
		case len(taken) == 0:
			return nil, refusal
		case how.unread:
			e := &taken[0]
			e.Headers, e.Body, e.Unreadable, err = s.readBody(ctx, e.Key)
		}
		return taken, err
	}
}

// pickBy runs a query of takenColumns.
func (t *writeTx) pickBy(how *picking, bytes int64, query string, args []any) ([]takenEvent, error) {
	if how.unread {
		query = withoutBodies(query)
	}
	if len(how.skip) > 0 {
		query, args = query+` AND NOT `+keyIn(`s.key`, len(how.skip)), append(args, keyArgs(how.skip)...)
	}
	return t.find(bytes, query+orderByDue, append(args, how.limit)...)
}

// change changes picked events, and returns those that it has changed.
func (t *writeTx) change(how *picking, picked []takenEvent, do func(*takenEvent) error) (done []takenEvent, refused []driver.RefusedEvent, err error) {
	each := inOrder[takenEvent]
	if how.past {
		each = passOver
	}
	done, _, err = each(t, picked, func(e *takenEvent) error {
		err := do(e)
		if isOfRow(err) {
			refused = append(refused, driver.RefusedEvent{Key: e.Key, EventID: e.EventID, Err: err})
		}
		return err
	})
	return done, refused, err
}
