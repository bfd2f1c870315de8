package storetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/group"
)

// combined reports whether the cases combine these filters: in a short run only one of them, all of them, or none.
func combined(filters ...string) bool {
	set := 0
	for _, f := range filters {
		if f != "" {
			set++
		}
	}
	return set <= 1 || set == len(filters) || group.Long()
}

// matchesEvent applies the part of driver.MessageFilter that concerns the event.
func matchesEvent(filter *driver.MessageFilter, e *driver.EventDetail) bool {
	return matches(&driver.EventFilter{
		Source: filter.Source, Type: filter.Type, ID: filter.EventID, Text: filter.Text, Since: filter.Since, Until: filter.Until,
	}, e)
}

func equalOrAny(want, got string) bool { return want == "" || want == got }

// sameListings compares both listings with the filter written in Go.
func sameListings(f *fixture, s *scene, filter driver.MessageFilter) {
	f.Helper()
	events := map[driver.Key]bool{}
	for _, e := range s.details {
		events[e.Key] = matchesEvent(&filter, e)
	}
	var messages []driver.ListedMessage
	for _, m := range s.messages {
		if events[m.Key] && equalOrAny(filter.MessageID, m.ID) && equalOrAny(filter.Destination, m.Destination) &&
			equalOrAny(filter.State, m.State) && equalOrAny(filter.Note, m.Note) {
			messages = append(messages, m)
		}
	}
	var letters []driver.DeadLetter
	for _, d := range s.letters {
		// Dead letters have no note.
		if events[d.Key] && equalOrAny(filter.MessageID, d.MessageID) && equalOrAny(filter.Destination, d.Destination) && filter.Note == "" {
			letters = append(letters, d)
		}
	}
	filter.Limit = driver.MaxLimit
	for _, e := range s.details {
		if !slices.Contains(filter.Sources, e.Source) {
			filter.Sources = append(filter.Sources, e.Source)
		}
	}
	what := fmt.Sprintf(" by %+v", filter)
	same(f, "messages"+what, driver.MessagePage{Messages: messages}, *f.listMessages(&filter))
	same(f, "dead letters"+what, driver.DeadLetterPage{DeadLetters: letters}, *f.deadLetters(&filter))
}

func listFilters(f *fixture) {
	s := f.paint(32)
	for _, source := range []string{"", "stripe"} {
		for _, kind := range []string{"", "push"} {
			for _, state := range append([]string{""}, driver.MessageStates()...) {
				for _, text := range []string{"", `"n":1`} {
					if !combined(source, kind, text) {
						continue
					}
					sameListings(f, s, driver.MessageFilter{Source: source, Type: kind, State: state, Text: text})
					sameListings(f, s, driver.MessageFilter{Source: source, Type: kind, State: state, Text: text, Destination: "shared"})
				}
			}
			sameListings(f, s, driver.MessageFilter{Source: source, Type: kind, Note: driver.NoteDiscarded})
			sameListings(f, s, driver.MessageFilter{Source: source, Type: kind, Note: driver.NoteReplacedByNew})
		}
	}
	for i, d := range s.letters {
		sameListings(f, s, driver.MessageFilter{MessageID: d.MessageID, EventID: d.EventID})
		if i%3 == 0 {
			sameListings(f, s, driver.MessageFilter{MessageID: d.MessageID, Source: d.Source, State: driver.StateSent, Destination: d.Destination})
			sameListings(f, s, driver.MessageFilter{MessageID: d.MessageID, Source: "nobody"})
		}
	}
	for _, filter := range []driver.MessageFilter{
		{EventID: "evt_07"},
		{EventID: "evt_07", Source: "github"},
		{EventID: "evt_"},
		{Source: "nobody"},
		{Type: "nothing"},
		{Text: "evt_1"},
		{Text: "invoice"},
		{Text: "nowhere"},
		{Text: "gone"},
		{Destination: "SHARED"},
		{Destination: "to-B4"},
		{Destination: "to-b4"},
		{State: driver.StateRunning},
		{State: driver.StateDone},
		{State: "DEAD"},
		{Note: driver.NoteNoRoute},
		{MessageID: "msg_"},
		{Since: t0.Add(time.Second), Until: t0.Add(3 * time.Second)},
		{Since: t0.Add(time.Second), Until: t0.Add(3 * time.Second), Destination: "shared", State: driver.StatePending, Text: "push"},
	} {
		sameListings(f, s, filter)
	}
}

// listHostile puts text with a meaning in SQL into every field of a filter.
func listHostile(f *fixture) {
	var s scene
	for i, text := range ids() {
		c := newClaim("source", text, "body", text)
		c.Type = fmt.Sprint(i, text)
		c.Messages[0].Destination = text
		f.claimNew(t0, c)
		f.kill(t0, text)
		s.add(f.event("source", text), false)
	}
	sortListed(s.messages)
	sortLetters(s.letters)
	for i, text := range ids() {
		for _, filter := range []driver.MessageFilter{
			{EventID: text},
			{Destination: text},
			{Type: fmt.Sprint(i, text)},
			{Text: text},
			{Text: fmt.Sprint(i, text)},
			{Source: text},
			{State: text},
			{Note: text},
			{MessageID: text},
		} {
			sameListings(f, &s, filter)
		}
	}
	for _, bad := range []string{"a\x00b", "\x00", "\xff", "\xed\xa0\x80", strings.Repeat("x", 1<<16)} {
		for _, filter := range []driver.MessageFilter{
			{EventID: bad}, {Destination: bad}, {Type: bad}, {Text: bad}, {Source: bad}, {State: bad}, {Note: bad}, {MessageID: bad},
		} {
			sameListings(f, &s, filter)
		}
		if _, err := f.s.Quarantined(f.Context(), &driver.QuarantineFilter{Source: bad}); err != nil {
			f.Errorf("Quarantined of the source %.20q: %v", bad, err)
		}
	}
	// A cursor still marks a place if its message or event was pruned or never existed.
	middle := s.messages[len(s.messages)/2]
	for _, id := range []string{"", "it's", "msg_zzz", "\U0001F600", strings.Repeat("z", 255)} {
		after := driver.Cursor{At: middle.ReceivedAt, Key: middle.Key, ID: id}
		var want []driver.ListedMessage
		for _, m := range s.messages {
			if compareListed(middle.ReceivedAt, m.ReceivedAt, middle.Key, m.Key, id, m.ID) < 0 {
				want = append(want, m)
			}
		}
		same(f, fmt.Sprintf("messages after %q", id), want, f.listMessages(&driver.MessageFilter{Limit: driver.MaxLimit, After: after}).Messages)
		if got := f.deadLetters(&driver.MessageFilter{Limit: driver.MaxLimit, After: after}); len(got.DeadLetters) != len(want) {
			f.Errorf("%d dead letters are after %q, want %d", len(got.DeadLetters), id, len(want))
		}
	}
}

func listSinceAndUntil(f *fixture) {
	us, less := time.Microsecond, 500*time.Nanosecond
	var s scene
	for i, id := range []string{"before", "at", "after"} {
		f.claimNew(t0.Add(time.Duration(i-1)*us), newClaim("stripe", id, "{}", "a"))
		f.kill(t0.Add(time.Hour), "to-a")
		s.add(f.event("stripe", id), false)
	}
	sortListed(s.messages)
	sortLetters(s.letters)
	elsewhere := time.FixedZone("", -7*60*60)
	for _, filter := range []driver.MessageFilter{
		{Since: t0},
		{Since: t0.In(elsewhere)},
		{Since: t0.Add(us)},
		{Since: t0.Add(less)},
		{Since: t0.Add(-less)},
		{Until: t0},
		{Until: t0.Add(less)},
		{Until: t0.Add(-less)},
		{Until: t0.Add(us).In(elsewhere)},
		{Since: t0, Until: t0.Add(us)},
		{Since: t0, Until: t0},
		{Since: t0.Add(us), Until: t0},
		{Since: time.Unix(0, 0), Until: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)},
	} {
		sameListings(f, &s, filter)
	}
}

func listTextPastRetention(f *fixture) {
	c := newClaim("stripe", "evt_1", "\x00\xff needle", "a")
	f.claimNew(t0, c)
	f.sendOne(t0, "to-a")
	for _, text := range []string{"needle", "\xff", "\x00"} {
		if got := f.listMessages(&driver.MessageFilter{Text: text}); len(got.Messages) != 1 {
			f.Errorf("%d messages have the text %q, want 1", len(got.Messages), text)
		}
	}
	f.prune(&driver.PruneParams{DedupeWindow: 30 * day, Retention: day, Now: t0.Add(2 * day)})
	for text, want := range map[string]int{"needle": 0, "\xff": 0, "evt": 1} {
		if got := f.listMessages(&driver.MessageFilter{Text: text}); len(got.Messages) != want {
			f.Errorf("%d messages have the text %q past retention, want %d", len(got.Messages), text, want)
		}
	}
}
