package storetest

import (
	"slices"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// Rows that somebody changed by hand fail neither the leases nor the listings of the others. A message
// whose token cannot grow is dead, with the reason.
func damagedRowsStopNoOthers(f *fixture) {
	for i, how := range []Damage{EndlessTimes, BeginlessTimes, LastToken} {
		c := newClaim("stripe", string(how), "{}", "billing")
		f.claimNew(t0.Add(time.Duration(i)*time.Second), c)
		f.with.Damage(f.T, f.s, c.Key, how)
	}
	f.claimNew(t0, newClaim("stripe", "intact", "{}", "billing"))
	now := t0.Add(time.Hour)
	leased := f.leaseAndBury(&driver.LeaseParams{
		Destination: "to-billing", Limit: 10, For: leaseFor, MaxAttempts: maxAttempts, Now: now,
	})
	var ids, buried []string
	for _, m := range leased.Messages {
		ids = append(ids, m.EventID)
	}
	for _, m := range leased.Buried {
		buried = append(buried, m.EventID)
	}
	slices.Sort(ids)
	same(f, "leased", []string{string(BeginlessTimes), string(EndlessTimes), "intact"}, ids)
	same(f, "buried", []string{string(LastToken)}, buried)
	letters := f.deadLetters(&driver.MessageFilter{}).DeadLetters
	if len(letters) != 1 || letters[0].LastError != driver.ErrorTokenUsedUp {
		f.Errorf("dead letters: got %+v, want one with the error %q", letters, driver.ErrorTokenUsedUp)
	}
	for _, m := range leased.Messages {
		f.complete(now, driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageDead, Error: "refused"})
	}
	same(f, "dead letters", 4, len(f.deadLetters(&driver.MessageFilter{}).DeadLetters))
	same(f, "events", 4, len(f.events(&driver.EventFilter{}).Events))
	for _, ev := range f.events(&driver.EventFilter{}).Events {
		if year := ev.ReceivedAt.Year(); year < 1 || year > 9999 {
			f.Errorf("event %q was received in the year %d, which JSON cannot hold", ev.EventID, year)
		}
		f.event(ev.Source, ev.EventID)
	}
}
