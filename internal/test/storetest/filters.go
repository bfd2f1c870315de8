package storetest

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// eventFilters lists events that differ in every filterable property with every combination of
// filters, and compares with the filter written in Go.
func eventFilters(f *fixture) {
	var all []driver.EventDetail
	for i := range 32 {
		c := newClaim([]string{"stripe", "github"}[i%2], fmt.Sprintf("evt_%02d", i/2), fmt.Sprintf(`{"n":%d}`, i/4))
		c.Type = []string{"invoice.paid", "push"}[i/2%2]
		route := fmt.Sprint("r", i)
		switch i / 4 % 4 {
		case 0:
			c.Work = driver.WorkQueued
		case 1, 2:
			c.Messages = newClaim(c.Source, c.EventID, "", route).Messages
		}
		f.claimNew(t0.Add(time.Duration(i/8)*time.Second), c)
		if i/4%4 == 2 {
			f.kill(t0.Add(time.Minute), "to-"+route)
		}
		all = append(all, *f.event(c.Source, c.EventID))
	}
	for _, source := range []string{"", "stripe"} {
		for _, kind := range []string{"", "push"} {
			for _, state := range append([]string{""}, driver.EventStates()...) {
				for _, text := range []string{"", `"n":1`} {
					if !combined(source, kind, text) {
						continue
					}
					filterRest(f, all, driver.EventFilter{Source: source, Type: kind, State: state, Text: text})
				}
			}
		}
	}
	for _, filter := range []driver.EventFilter{{Source: "nobody"}, {Type: "nothing"}, {Text: "nowhere"}, {Text: "invoice"}, {Text: "evt_1"}} {
		filterRest(f, all, filter)
	}
}

func filterRest(f *fixture, all []driver.EventDetail, filter driver.EventFilter) {
	f.Helper()
	for _, rest := range []driver.EventFilter{
		{},
		{Note: driver.NoteNoRoute},
		{Note: driver.NoteNoRoute, ID: "evt_07", Since: t0.Add(time.Second), Until: t0.Add(4 * time.Second)},
		{ID: "evt_07"},
		{Since: t0.Add(time.Second), Until: t0.Add(4 * time.Second)},
	} {
		filter.Note, filter.ID, filter.Since, filter.Until = rest.Note, rest.ID, rest.Since, rest.Until
		filter.Limit, filter.Sources = driver.MaxLimit, []string{"stripe", "github"}
		var want []driver.Event
		for i := range all {
			if matches(&filter, &all[i]) {
				want = append(want, all[i].Event)
			}
		}
		sortEvents(want)
		page := f.events(&filter)
		same(f, fmt.Sprintf("listing of %+v", filter), want, page.Events)
		if !page.Next.IsZero() {
			f.Errorf("listing of %+v has a next page", filter)
		}
	}
}

// matches implements the contract of driver.EventFilter.
func matches(filter *driver.EventFilter, e *driver.EventDetail) bool {
	equal := func(want, got string) bool { return want == "" || want == got }
	return equal(filter.Source, e.Source) && equal(filter.Type, e.Type) && equal(filter.State, e.State) &&
		equal(filter.Note, e.Note) && equal(filter.ID, e.EventID) &&
		(strings.Contains(e.EventID, filter.Text) || strings.Contains(e.Type, filter.Text) ||
			bytes.Contains(e.Body, []byte(filter.Text))) &&
		(filter.Since.IsZero() || !e.ReceivedAt.Before(filter.Since)) &&
		(filter.Until.IsZero() || e.ReceivedAt.Before(filter.Until))
}

// idsOf returns the ids of the listed events, sorted by their time of receipt.
func idsOf(page *driver.EventPage) []string {
	var got []string
	for _, e := range page.Events {
		got = append(got, e.EventID)
	}
	return got
}

func eventSinceAndUntil(f *fixture) {
	us, less := time.Microsecond, 500*time.Nanosecond
	for i, id := range []string{"before", "at", "after"} {
		f.claimNew(t0.Add(time.Duration(i-1)*us), newClaim("stripe", id, "{}"))
	}
	elsewhere := time.FixedZone("", -7*60*60)
	for _, c := range []struct {
		filter driver.EventFilter
		want   []string
	}{
		{driver.EventFilter{Since: t0}, []string{"after", "at"}},
		{driver.EventFilter{Since: t0.In(elsewhere)}, []string{"after", "at"}},
		{driver.EventFilter{Since: t0.Add(us)}, []string{"after"}},
		{driver.EventFilter{Since: t0.Add(less)}, []string{"after"}},
		{driver.EventFilter{Since: t0.Add(-less)}, []string{"after", "at"}},
		{driver.EventFilter{Until: t0}, []string{"before"}},
		{driver.EventFilter{Until: t0.Add(less)}, []string{"at", "before"}},
		{driver.EventFilter{Until: t0.Add(-less)}, []string{"before"}},
		{driver.EventFilter{Until: t0.Add(us).In(elsewhere)}, []string{"at", "before"}},
		{driver.EventFilter{Since: t0, Until: t0.Add(us)}, []string{"at"}},
		{driver.EventFilter{Since: t0, Until: t0}, nil},
		{driver.EventFilter{Since: t0.Add(us), Until: t0}, nil},
		{driver.EventFilter{Since: time.Unix(0, 0), Until: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}, []string{"after", "at", "before"}},
	} {
		same(f, fmt.Sprintf("listing of %+v", c.filter), c.want, idsOf(f.events(&c.filter)))
	}
}

// eventTextIsLiteral searches ids, types and bodies for text that has a meaning in SQL patterns,
// strings and regular expressions.
func eventTextIsLiteral(f *fixture) {
	texts := []string{
		"%", "_", "%%", `\`, `\\`, `\%`, "'", "''", `"`, "*", "?", "[a]", ".", "$1", "?1", ":n", "--", "/*", ";", "x'00'",
		"\u00e9", "e\u0301", "\U0001F600", "A", "a", " ", "\t", "\n",
	}
	var all []driver.EventDetail
	at := func(i int) time.Time { return t0.Add(time.Duration(i) * time.Second) }
	for i, text := range append(texts, "plain") {
		inID := newClaim("id", "n"+text, "0")
		inType := newClaim("type", fmt.Sprint(i), "0")
		inType.Type = "n" + text
		inBody := newClaim("body", fmt.Sprint(i), "n"+text)
		for _, c := range []driver.Claim{inID, inType, inBody} {
			f.claimNew(at(i), c)
			all = append(all, *claimed(&c, at(i)))
		}
	}
	for _, text := range append(texts, "n%", "n_", "N", "nplain", "plain%", "' OR ''='") {
		var want []driver.Event
		for i := range all {
			if matches(&driver.EventFilter{Text: text}, &all[i]) {
				want = append(want, all[i].Event)
			}
		}
		sortEvents(want)
		page := f.events(&driver.EventFilter{Text: text, Limit: driver.MaxLimit})
		same(f, fmt.Sprintf("listing of text %q", text), want, page.Events)
	}
	for _, text := range []string{"%", "_", "' OR ''='", `\`} {
		for _, filter := range []driver.EventFilter{{Source: text}, {Type: text}, {State: text}, {Note: text}, {ID: text}} {
			same(f, fmt.Sprintf("listing of %+v", filter), []string(nil), idsOf(f.events(&filter)))
		}
	}
}

func eventTextInBodies(f *fixture) {
	binary := newClaim("stripe", "binary", "\x00\xff needle \x00 \xc3")
	behind := newClaim("stripe", "behind", strings.Repeat("x", 1<<20)+"needle")
	none := newClaim("stripe", "none", "\xff")
	f.claimNew(t0, binary)
	f.claimNew(t0.Add(time.Second), behind)
	f.claimNew(t0.Add(2*time.Second), none)
	same(f, "found", []string{"behind", "binary"}, idsOf(f.events(&driver.EventFilter{Text: "needle"})))
	same(f, "found", []string(nil), idsOf(f.events(&driver.EventFilter{Text: "needles"})))
	// Bytes that are not valid text in a database can still be searched for.
	same(f, "found", []string{"binary"}, idsOf(f.events(&driver.EventFilter{Text: "\x00"})))
	same(f, "found", []string{"none", "binary"}, idsOf(f.events(&driver.EventFilter{Text: "\xff"})))
	for _, bad := range []string{"bin\x00ary", "binary\x00", "\xff"} {
		for _, filter := range []driver.EventFilter{{ID: bad}, {Source: bad}, {Type: bad}, {State: bad}, {Note: bad}} {
			same(f, fmt.Sprintf("listing of %+v", filter), []string(nil), idsOf(f.events(&filter)))
		}
		f.absent("stripe", bad)
		f.absent(bad, "binary")
	}
	now := t0.Add(2 * time.Hour)
	f.prune(&driver.PruneParams{DedupeWindow: 24 * time.Hour, Retention: time.Hour, Now: now})
	same(f, "found past retention", []string(nil), idsOf(f.events(&driver.EventFilter{Text: "needle"})))
	same(f, "found by id past retention", []string{"none"}, idsOf(f.events(&driver.EventFilter{Text: "none"})))
}
