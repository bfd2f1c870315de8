package storetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
)

func eventCases() []testCase {
	return []testCase{
		{"NotFound", eventNotFound},
		{"CompositeIds", eventCompositeIDs},
		{"ManyColons", eventManyColons},
		{"Detail", eventDetail},
		{"EmptyListing", eventEmptyListing},
		{"Order", eventOrder},
		{"Paging", eventPaging},
		{"PagingWhileEventsArrive", eventPagingWhileEventsArrive},
		{"Filters", eventFilters},
		{"SinceAndUntil", eventSinceAndUntil},
		{"TextIsLiteral", eventTextIsLiteral},
		{"TextInBodies", eventTextInBodies},
	}
}

func eventNotFound(f *fixture) {
	f.absent("stripe", "evt_1")
	f.claimNew(t0, newClaim("stripe", "evt_1", "{}"))
	for _, id := range []string{"", "evt_", "evt_11", "EVT_1", "evt%", "evt_1 "} {
		f.absent("stripe", id)
	}
	f.absent("", "evt_1")
	f.absent("Stripe", "evt_1")
}

// composite returns a claim of an event whose id has several parts.
func composite(source, body string, parts ...string) driver.Claim {
	c := newClaim(source, strings.Join(parts, ":"), body)
	c.Key = driver.EventKey(source, parts...)
	return c
}

func eventCompositeIDs(f *fixture) {
	for i, parts := range [][]string{
		{"a", "b"}, {"x", "y", "z"}, {"with:colon", "b"}, {"", "b"}, {"a", ""}, {"", ""}, {"", "", ""}, {":", ":"},
	} {
		// Each id has a source of its own, because some of them look alike.
		c := composite(fmt.Sprint("source", i), "{}", parts...)
		f.claimNew(t0, c)
		f.sameEvent(claimed(&c, t0))
	}
	// Two ids that look alike are two events. For such an id, Event returns the first of
	// driver.CandidateKeys that exists; the listing has both.
	pair, single := composite("stripe", "of two parts", "a", "b"), newClaim("stripe", "a:b", "of one part")
	f.claimNew(t0, pair)
	f.sameEvent(claimed(&pair, t0))
	f.claimNew(t0, single)
	f.sameEvent(claimed(&single, t0))
	both := []driver.Event{claimed(&pair, t0).Event, claimed(&single, t0).Event}
	sortEvents(both)
	same(f, "listing", both, f.events(&driver.EventFilter{Source: "stripe", ID: "a:b"}).Events)
}

// eventManyColons uses ids with too many colons for driver.CandidateKeys.
func eventManyColons(f *fixture) {
	parts := strings.Split("a:b:c:d:e:f:g:h:i:j:k:l:m:n", ":")
	single := newClaim("stripe", strings.Join(parts, ":"), "of one part")
	many := composite("github", "of many parts", parts...)
	f.claimNew(t0, single, many)
	f.sameEvent(claimed(&single, t0))
	f.sameEvent(claimed(&many, t0))
	f.absent("shopify", single.EventID)
	f.absent("stripe", single.EventID+":o")
}

// eventDetail sets everything that a detail can hold.
func eventDetail(f *fixture) {
	first := guarded(driver.BodyWatch, "github", "first", "body")
	f.claimNew(t0.Add(-time.Hour), first)
	c := guarded(driver.BodyWatch, "github", "second", "body", "zeta", "alpha", "beta")
	c.OccurredAt = t0.Add(-time.Minute)
	f.claim(t0, c)
	want := claimed(&c, t0)
	want.Deliveries.RepeatOf = first.EventID

	at := t0.Add(time.Second)
	for n, outcome := range []driver.MessageOutcome{driver.MessageSent, driver.MessageRetry, driver.MessageDead} {
		m := f.leaseOne(at, want.Messages[n].Destination)
		at = at.Add(time.Second)
		d := driver.Completion{ID: m.ID, Token: m.Token, Outcome: outcome, StatusCode: 200 + n, RetryIn: time.Minute, Took: time.Millisecond}
		f.mustComplete(at, d)
		ended(sending(want, n, at, 1), n, at, d)
	}
	at = at.Add(time.Hour)
	f.leaseOne(at, "to-beta")
	sending(want, 1, at, 2)
	f.count(at, driver.DeliveryCount{Key: c.Key, Duplicates: 3, OtherBodies: 1, Repeats: 2})
	want.Duplicates = 3
	want.Deliveries.Count, want.Deliveries.LastAt = 4, at
	want.Deliveries.OtherBodies, want.Deliveries.Repeats = 1, 2
	f.sameEvent(want)
	listing := []driver.Event{want.Event, claimed(&first, t0.Add(-time.Hour)).Event}
	same(f, "listing", listing, f.events(&driver.EventFilter{}).Events)
	listing[0].Destinations = []string{"to-alpha", "to-beta", "to-zeta"}
	same(f, "listing with destinations", listing, f.events(&driver.EventFilter{Destinations: true}).Events)
}

func eventEmptyListing(f *fixture) {
	if page := f.events(&driver.EventFilter{}); len(page.Events) > 0 || !page.Next.IsZero() {
		f.Errorf("the listing of an empty store is %+v", page)
	}
}

// claimMany claims n events, in groups with equal times, and returns them in the order of a
// listing: newest first, then by key, descending.
func (f *fixture) claimMany(n, group int) []driver.Event {
	f.Helper()
	var want []driver.Event
	for start := 0; start < n; start += group {
		at := t0.Add(time.Duration(start) * time.Microsecond)
		var claims []driver.Claim
		for i := start; i < min(start+group, n); i++ {
			c := newClaim("stripe", fmt.Sprintf("evt_%04d", i), "{}")
			claims = append(claims, c)
			want = append(want, claimed(&c, at).Event)
		}
		f.claimNew(at, claims...)
	}
	sortEvents(want)
	return want
}

func sortEvents(events []driver.Event) {
	slices.SortFunc(events, func(a, b driver.Event) int {
		if c := b.ReceivedAt.Compare(a.ReceivedAt); c != 0 {
			return c
		}
		return compareKeys(b.Key, a.Key)
	})
}

func eventOrder(f *fixture) {
	want := f.claimMany(120, 7)
	same(f, "listing", want, f.events(&driver.EventFilter{Limit: driver.MaxLimit}).Events)
	page := f.events(&driver.EventFilter{})
	same(f, "listing without a limit", want[:driver.DefaultLimit], page.Events)
}

// eventPaging pages through the listing with several limits. The cursor is converted to text and
// back each time, as in the API.
func eventPaging(f *fixture) {
	want := f.claimMany(120, 40)
	for _, limit := range []int{1, 7, 40, 50, 60, 119, 120, 121} {
		filter := driver.EventFilter{Limit: limit, Source: "stripe"}
		var got []driver.Event
		pages := 0
		for {
			page := f.events(&filter)
			pages++
			got = append(got, page.Events...)
			if page.Next.IsZero() || len(got) > len(want) {
				break
			}
			if len(page.Events) != limit {
				f.Errorf("limit %d: page %d has %d events and is not the last", limit, pages, len(page.Events))
			}
			next, err := driver.ParseCursor(page.Next.String())
			if err != nil {
				f.Fatalf("ParseCursor: %v", err)
			}
			filter.After = next
		}
		same(f, fmt.Sprint("pages of ", limit), want, got)
		if most := (len(want) + limit - 1) / limit; pages != most {
			f.Errorf("limit %d: the listing has %d pages, want %d", limit, pages, most)
		}
	}
}

func eventPagingWhileEventsArrive(f *fixture) {
	want := f.claimMany(30, 10)
	first := f.events(&driver.EventFilter{Limit: 15})
	f.claimNew(t0.Add(time.Hour), newClaim("stripe", "late", "{}"))
	second := f.events(&driver.EventFilter{Limit: 15, After: first.Next})
	same(f, "both pages", want, slices.Concat(first.Events, second.Events))
}
