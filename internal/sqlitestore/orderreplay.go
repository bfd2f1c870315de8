package sqlitestore

import (
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
		if err := t.queryRow(selectPassed, idArgs(id)...).Scan(&passed); err != nil {
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
		if _, err := t.exec(forceOrdered, idArgs(id)...); err != nil {
			return err
		}
	}
	return nil
}
