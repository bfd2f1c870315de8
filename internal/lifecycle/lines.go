package lifecycle

import "github.com/hookonce/hookonce/driver"

// InLines returns the messages that the plan makes due again, and the place of e if that is due again, and the new ones, each with an earlier message of
// e that has the same route and destination, and so the same place in a line.
func (p *Plan) InLines(e *Event) (again, added, before []string) {
	again, added, before = append([]string{}, p.Reset...), []string{}, []string{}
	if p.Event {
		again = append(again, driver.EventPlace(e.Key))
	}
	for i := range p.Add {
		for j := range e.Messages {
			if makes(&p.Add[i], &e.Messages[j]) {
				added, before = append(added, p.Add[i].ID), append(before, e.Messages[j].ID)
				break
			}
		}
	}
	return again, added, before
}
