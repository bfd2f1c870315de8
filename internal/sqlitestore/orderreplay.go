package sqlitestore

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/lifecycle"
)

// keepOrder refuses a plan that would send a message after a higher version, unless the replay allows it.
func (t *writeTx) keepOrder(p *driver.ReplayParams, e *lifecycle.Event, plan *lifecycle.Plan) error {
	if p.Stale {
		return nil
	}
	again, _, before := plan.InLines(e)
	for _, id := range append(again, before...) {
		var passed bool
		number, err := numberAt(t.queryRow, id)
		if err == nil {
			err = t.queryRow(selectPassed, number).Scan(&passed)
		}
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if passed {
			return fmt.Errorf("%w: message %s", driver.ErrPassed, id)
		}
	}
	return nil
}

// replace gives the messages of a plan that was carried out their places in lines, and lets the lines go on.
func (t *writeTx) replace(p *driver.ReplayParams, e *lifecycle.Event, plan *lifecycle.Plan) error {
	again, added, before := plan.InLines(e)
	for i, id := range added {
		var number int64
		if err := t.queryRow(numberOf, idArgs(id)...).Scan(&number); err != nil {
			return err
		}
		if _, err := t.exec(copyOrdered, idArgs(before[i], p.Stale, number)...); err != nil {
			return err
		}
	}
	if err := t.settleIDs(slices.Concat(plan.Skip, plan.Replace, again)); err != nil || !p.Stale {
		return err
	}
	for _, id := range again {
		number, err := numberAt(t.queryRow, id)
		if err == nil {
			_, err = t.exec(forceOrdered, number)
		}
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
	}
	return nil
}

// settleIDs settles the lines of messages, and of events by their places, after they ended, were given back, or are due again:
// all ways but an outcome of goOn come here. It ignores those that are in no line.
func (t *writeTx) settleIDs(ids []string) error {
	var lines []driver.Key
	for _, id := range ids {
		var m inLine
		var err error
		switch m.number, err = numberAt(t.queryRow, id); {
		case errors.Is(err, sql.ErrNoRows):
			continue
		case err != nil:
			return err
		}
		if placed, err := t.findPlace(&m); err != nil {
			return err
		} else if !placed {
			continue
		}
		for _, query := range []string{reopenOrdered, unforceOrdered} {
			if _, err := t.exec(query, m.number); err != nil {
				return err
			}
		}
		lines = append(lines, m.line)
	}
	return t.settleAll(lines)
}
