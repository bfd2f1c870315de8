package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/group"
)

func walkCases() []testCase {
	return []testCase{
		{"PagesThatEndAtABound", walkBounded},
		{"ManyMessages", walkManyMessages},
		{"IDWithoutASource", walkIDWithoutSource},
		{"IDOfTooManyEvents", walkIDOfTooMany},
		{"HoursOfAType", walkHours},
		{"TraceID", walkTraceID},
	}
}

// walkBounded reads listings in pages that look at very few rows, and compares with the same listing
// in one page.
func walkBounded(f *fixture) {
	s := f.paint(48)
	stopped, empty := 0, 0
	for i, filter := range []driver.MessageFilter{
		{Source: "stripe"},
		{Type: "push"},
		{Text: `"n":1`},
		{Note: driver.NoteDiscarded},
		{Source: "github", Type: "push", Text: "evt_1"},
		{State: driver.StateDead, Source: "stripe"},
		{State: driver.StateSkipped, Destination: "shared"},
		{State: driver.StateSent},
		{Destination: "shared"},
		{Source: "stripe", Since: t0.Add(time.Second), Until: t0.Add(4 * time.Second)},
		{Source: "nobody"},
	} {
		states := append([]string{""}, driver.EventStates()...)
		if i > 0 && !group.Long() { // the states of the others take turns
			states = []string{"", states[1+i%(len(states)-1)]}
		}
		for _, state := range states {
			events := driver.EventFilter{
				Source: filter.Source, Type: filter.Type, Text: filter.Text, Note: filter.Note, State: state, Since: filter.Since, Until: filter.Until,
				Limit: driver.MaxLimit,
			}
			want := f.events(&events)
			var got []driver.Event
			events.Scan, events.Limit = 5, 2
			for more := true; more; more = !events.After.IsZero() {
				page := f.events(&events)
				got, events.After = append(got, page.Events...), page.Next
				noteEnd(f, page.SearchedUntil, page.Next, len(page.Events), &stopped, &empty)
			}
			same(f, fmt.Sprintf("events by %+v in short pages", events), want.Events, got)
		}
		short := filter
		filter.Limit, short.Limit, short.Scan = driver.MaxLimit, 2, 5
		var messages []driver.ListedMessage
		for more := true; more; more = !short.After.IsZero() {
			page := f.listMessages(&short)
			messages, short.After = append(messages, page.Messages...), page.Next
			noteEnd(f, page.SearchedUntil, page.Next, len(page.Messages), &stopped, &empty)
		}
		same(f, fmt.Sprintf("messages by %+v in short pages", short), f.listMessages(&filter).Messages, messages)
		var letters []driver.DeadLetter
		for more := true; more; more = !short.After.IsZero() {
			page := f.deadLetters(&short)
			letters, short.After = append(letters, page.DeadLetters...), page.Next
			noteEnd(f, page.SearchedUntil, page.Next, len(page.DeadLetters), &stopped, &empty)
		}
		same(f, fmt.Sprintf("dead letters by %+v in short pages", short), f.deadLetters(&filter).DeadLetters, letters)
	}
	if stopped < 20 || empty < 20 || len(s.details) == 0 {
		f.Errorf("%d pages ended at a bound, %d of them without a row; want 20 or more of each", stopped, empty)
	}
}

// noteEnd counts pages that ended at a bound, and those of them without rows.
func noteEnd(f *fixture, until time.Time, next driver.Cursor, rows int, stopped, empty *int) {
	f.Helper()
	if until.IsZero() {
		return
	}
	if !until.Equal(next.At) {
		f.Errorf("a page was searched until %s, and its cursor is at %s", until, next.At)
	}
	*stopped++
	if rows == 0 {
		*empty++
	}
}

// walkManyMessages lists so many messages that the store walks their events. A page may end between two
// messages of an event, also of the last one.
func walkManyMessages(f *fixture) {
	var claims []driver.Claim
	for i := range 350 {
		claims = append(claims, newClaim("stripe", fmt.Sprint("evt_", i), "{}", "a", "b", "c"))
	}
	f.claimNew(t0, claims...)
	var want []driver.ListedMessage
	for i := range claims {
		want = append(want, listedOf(claimed(&claims[i], t0))...)
	}
	sortListed(want)
	filter := driver.MessageFilter{Limit: 100}
	var got []driver.ListedMessage
	for more := true; more; more = !filter.After.IsZero() {
		page := f.listMessages(&filter)
		got, filter.After = append(got, page.Messages...), page.Next
	}
	same(f, "all messages", want, got)
	before := &want[len(want)-2]
	filter.After = driver.Cursor{At: before.ReceivedAt, Key: before.Key, ID: before.ID}
	same(f, "the last message", want[len(want)-1:], f.listMessages(&filter).Messages)
}

// walkIDWithoutSource finds an event, its messages and dead letters by the id alone, if its source is
// known from anywhere.
func walkIDWithoutSource(f *fixture) {
	for _, source := range []string{"given", "window", "figure", "unknown"} {
		f.claimNew(t0, newClaim(source, "evt_1", "{}", "a-"+source), newClaim(source, "evt_2", "{}", "b-"+source))
		f.kill(t0, "to-a-"+source)
	}
	if err := f.s.RegisterWindows(f.Context(), &driver.PruneParams{
		DedupeWindow: time.Hour, Retention: time.Hour,
		Sources: map[string]driver.SourceWindows{"window": {DedupeWindow: time.Hour, Retention: time.Hour}},
	}); err != nil {
		f.Fatal(err)
	}
	f.addFigures(driver.Figure{Of: driver.FigureTypes, At: t0, Name: "figure", Label: "t", N: 1})
	var got []string
	for _, e := range f.events(&driver.EventFilter{ID: "evt_1", Sources: []string{"given", "other"}}).Events {
		got = append(got, e.Source)
	}
	slices.Sort(got)
	same(f, "sources of the events", []string{"figure", "given", "window"}, got)
	byID := &driver.MessageFilter{EventID: "evt_1", Sources: []string{"given"}}
	if got := f.listMessages(byID); len(got.Messages) != 3 {
		f.Errorf("%d messages by the id of an event, want 3", len(got.Messages))
	}
	if got := f.deadLetters(byID); len(got.DeadLetters) != 3 {
		f.Errorf("%d dead letters by the id of an event, want 3", len(got.DeadLetters))
	}
}

// walkIDOfTooMany searches for an id that could be the key of too many events.
func walkIDOfTooMany(f *fixture) {
	c := newClaim("stripe", "a:b:c:d:e:f:g:h:i:j:k", "{}", "a")
	f.claimNew(t0, c)
	sources := []string{"stripe"}
	for i := range 20 {
		sources = append(sources, fmt.Sprint("source", i))
	}
	if _, ok := driver.KeysOf(sources, c.EventID); ok {
		f.Fatal("the id has few keys")
	}
	same(f, "events", []string{c.EventID}, idsOf(f.events(&driver.EventFilter{ID: c.EventID, Sources: sources})))
	if got := f.listMessages(&driver.MessageFilter{EventID: c.EventID, Sources: sources}); len(got.Messages) != 1 {
		f.Errorf("%d messages, want 1", len(got.Messages))
	}
}

// walkHours lists the events of a rare type behind many others: the figures tell the hours. A listing
// of a day does not ask the figures.
func walkHours(f *fixture) {
	at := func(hour int) time.Time {
		return t0.Truncate(time.Hour).Add(time.Duration(hour)*time.Hour + 30*time.Minute)
	}
	var many []driver.Claim
	for i := range 1100 {
		c := newClaim("stripe", fmt.Sprint("common", i), "{}")
		c.Type = "common"
		many = append(many, c)
	}
	f.claimNew(at(0), many...)
	for _, hour := range []int{-40, -20, -5, -3} {
		c := newClaim("github", fmt.Sprint("rare", hour), "{}")
		c.Type = "rare"
		f.claimNew(at(hour), c)
	}
	for label, hours := range map[string][]int{"common": {0, -20, -30}, "rare": {-5}, driver.OtherType: {-20}} {
		for _, hour := range hours {
			f.addFigures(driver.Figure{Of: driver.FigureTypes, At: at(hour), Name: "github", Label: label, N: 1})
		}
	}
	for _, filter := range []driver.EventFilter{{Type: "rare"}, {Type: "rare", Source: "github"}} {
		// The figures do not know the event of 3 hours ago. They begin 30 hours ago.
		same(f, fmt.Sprintf("events by %+v", filter), []string{"rare-5", "rare-20", "rare-40"}, idsOf(f.events(&filter)))
		filter.Since, filter.Until = at(-10), at(1)
		same(f, fmt.Sprintf("events by %+v", filter), []string{"rare-3", "rare-5"}, idsOf(f.events(&filter)))
	}
	same(f, "events of the source", []string{"rare-5", "rare-20", "rare-40"}, idsOf(f.events(&driver.EventFilter{Source: "github"})))
}

func walkTraceID(f *fixture) {
	const id = "0af7651916cd43dd8448eb211c80319c"
	traced, body := newClaim("stripe", "traced", "{}"), newClaim("stripe", "body", "00-"+id+"-b7ad6b7169203331-01")
	traced.Headers = []byte(`{"Traceparent":["00-` + id + `-b7ad6b7169203331-01"]}`)
	f.claimNew(t0, traced, body)
	same(f, "events of the trace", []string{"traced"}, idsOf(f.events(&driver.EventFilter{TraceID: id})))
	same(f, "events of no trace", []string(nil), idsOf(f.events(&driver.EventFilter{TraceID: "1" + id[1:]})))
}
