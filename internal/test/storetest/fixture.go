package storetest

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hookonce/hookonce/driver"
)

// t0 is the start of the tests' time. It has microseconds, the precision of a store, so that a
// store that rounds fails.
var t0 = time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC)

// fixture is one store under test. Its methods call the store and fail the test on an error.
type fixture struct {
	*testing.T
	s    driver.Store
	with Features
	// hint is the next claim's MostlyKnown. It alternates, because it must not change any result.
	hint bool
}

// newClaim returns a claim with WorkNone and one message per route. Route r has the destination
// "to-r".
func newClaim(source, id, body string, routes ...string) driver.Claim {
	c := driver.Claim{
		Key:     driver.EventKey(source, id),
		Source:  source,
		EventID: id,
		Type:    "thing.happened",
		Remote:  "192.0.2.7:54321",
		Gateway: "gateway-1",
		Headers: []byte(`{"Content-Type":["application/json"]}`),
	}
	setBody(&c, []byte(body))
	for _, route := range routes {
		c.Messages = append(c.Messages, driver.NewMessage{
			ID: driver.MessageID(c.Key, 0, route), Route: route, Destination: "to-" + route,
		})
	}
	return c
}

// newEither returns a claim with messages or, without routes, one that waits for a handler. A store may
// claim the two by different statements.
func newEither(source, id, body string, routes ...string) driver.Claim {
	c := newClaim(source, id, body, routes...)
	if len(routes) == 0 {
		c.Work = driver.WorkQueued
	}
	return c
}

// newClaims returns n claims with the ids evt_0, evt_1 and so on, all with one body.
func newClaims(n int, routes ...string) []driver.Claim {
	all := make([]driver.Claim, n)
	for i := range all {
		all[i] = newClaim("stripe", fmt.Sprint("evt_", i), "{}", routes...)
	}
	return all
}

func setBody(c *driver.Claim, body []byte) {
	c.Body = body
	c.BodyHash = sha256.Sum256(body)
}

func compareKeys(a, b driver.Key) int { return bytes.Compare(a[:], b[:]) }

// sorted returns the claims in the order that the contract requires.
func sorted(claims ...driver.Claim) []driver.Claim {
	return slices.SortedFunc(slices.Values(claims), func(a, b driver.Claim) int { return compareKeys(a.Key, b.Key) })
}

// claim claims at the given time in one call, and returns the results in the order of its
// arguments.
func (f *fixture) claim(at time.Time, claims ...driver.Claim) []driver.ClaimResult {
	f.Helper()
	ordered := sorted(claims...)
	results, err := f.s.Claim(f.Context(), &driver.ClaimParams{Claims: ordered, MostlyKnown: f.hint, Now: at})
	f.hint = !f.hint
	if err != nil {
		f.Fatalf("Claim: %v", err)
	}
	if len(results) != len(claims) {
		f.Fatalf("Claim returned %d results for %d claims", len(results), len(claims))
	}
	byKey := make(map[driver.Key]driver.ClaimResult, len(results))
	for i, result := range results {
		byKey[ordered[i].Key] = result
	}
	back := make([]driver.ClaimResult, len(claims))
	for i, c := range claims {
		back[i] = byKey[c.Key]
	}
	return back
}

// duplicates returns n results of duplicates.
func duplicates(n int) []driver.ClaimResult {
	return slices.Repeat([]driver.ClaimResult{{Duplicate: true}}, n)
}

// claimNew claims events, and fails unless all are new.
func (f *fixture) claimNew(at time.Time, claims ...driver.Claim) {
	f.Helper()
	for i, result := range f.claim(at, claims...) {
		if !result.Claimed {
			f.Fatalf("claim of %q: got %+v, want it claimed", claims[i].EventID, result)
		}
	}
}

func (f *fixture) reopen(at time.Time, keys ...driver.Key) []driver.Key {
	f.Helper()
	got, _, err := f.s.Reopen(f.Context(), &driver.ReopenParams{Keys: keys, Now: at})
	if err != nil {
		f.Fatalf("Reopen: %v", err)
	}
	return got
}

// leaseTerms are the parameters of a lease that no case varies.
const (
	leaseFor    = 20 * time.Second
	maxAttempts = 5
)

func (f *fixture) lease(at time.Time, destination string, limit int) []driver.Message {
	f.Helper()
	return f.leaseWith(&driver.LeaseParams{
		Destination: destination, Limit: limit, For: leaseFor, MaxAttempts: maxAttempts, Now: at,
	})
}

func (f *fixture) leaseWith(p *driver.LeaseParams) []driver.Message {
	f.Helper()
	return f.leaseAndBury(p).Messages
}

func (f *fixture) leaseAndBury(p *driver.LeaseParams) *driver.Leased {
	f.Helper()
	got, err := f.s.Lease(f.Context(), p)
	if err != nil {
		f.Fatalf("Lease: %v", err)
	}
	return got
}

// leaseOne leases exactly one due message.
func (f *fixture) leaseOne(at time.Time, destination string) driver.Message {
	f.Helper()
	got := f.lease(at, destination, 10)
	if len(got) != 1 {
		f.Fatalf("Lease of %q returned %d messages, want 1: %+v", destination, len(got), got)
	}
	return got[0]
}

func (f *fixture) complete(at time.Time, completions ...driver.Completion) []bool {
	f.Helper()
	got, err := f.s.Complete(f.Context(), &driver.CompleteParams{Completions: completions, Now: at})
	if err != nil {
		f.Fatalf("Complete: %v", err)
	}
	if len(got) != len(completions) {
		f.Fatalf("Complete returned %d answers for %d completions", len(got), len(completions))
	}
	return got
}

// mustComplete completes leases, and fails unless all are held.
func (f *fixture) mustComplete(at time.Time, completions ...driver.Completion) {
	f.Helper()
	if got := f.complete(at, completions...); slices.Contains(got, false) {
		f.Fatalf("Complete: got %v, want every lease held", got)
	}
}

func (f *fixture) release(at time.Time, leases ...driver.MessageLease) {
	f.Helper()
	if err := f.s.Release(f.Context(), &driver.ReleaseParams{Leases: leases, Now: at}); err != nil {
		f.Fatalf("Release: %v", err)
	}
}

func (f *fixture) count(at time.Time, counts ...driver.DeliveryCount) {
	f.Helper()
	slices.SortFunc(counts, func(a, b driver.DeliveryCount) int { return compareKeys(a.Key, b.Key) })
	if err := f.s.CountDeliveries(f.Context(), &driver.CountDeliveriesParams{Counts: counts, Now: at}); err != nil {
		f.Fatalf("CountDeliveries: %v", err)
	}
}

func (f *fixture) prune(p *driver.PruneParams) driver.PruneResult {
	f.Helper()
	got, err := f.s.Prune(f.Context(), p)
	if err != nil {
		f.Fatalf("Prune: %v", err)
	}
	return *got
}

func (f *fixture) event(source, id string) *driver.EventDetail {
	f.Helper()
	got, err := f.s.Event(f.Context(), source, id)
	if err != nil {
		f.Fatalf("Event(%q, %q): %v", source, id, err)
	}
	return got
}

func (f *fixture) events(filter *driver.EventFilter) *driver.EventPage {
	f.Helper()
	got, err := f.s.Events(f.Context(), filter)
	if err != nil {
		f.Fatalf("Events(%+v): %v", filter, err)
	}
	return got
}

// absent fails if the event exists.
func (f *fixture) absent(source, id string) {
	f.Helper()
	got, err := f.s.Event(f.Context(), source, id)
	if !errors.Is(err, driver.ErrNotFound) {
		f.Errorf("Event(%q, %q): got %+v and the error %v, want %v", source, id, got, err, driver.ErrNotFound)
	}
}

// same fails the test if got differs from want. Empty and nil are equal, so a store may return
// either for an empty body. It ignores the due times of taken events.
func same(t testing.TB, what string, want, got any, opts ...cmp.Option) {
	t.Helper()
	if reflect.DeepEqual(want, got) {
		return // the usual case; cmp takes many times as long
	}
	if diff := cmp.Diff(want, got, append(opts, cmpopts.EquateEmpty(), equalBytes, anyDueAt)...); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", what, diff)
	}
}

// sameList is same for lists. It compares one element after another if there are as many, because same is quick only with
// equal values.
func sameList[E any](t testing.TB, what string, want, got []E, opts ...cmp.Option) {
	t.Helper()
	if len(want) != len(got) {
		same(t, what, want, got, opts...)
		return
	}
	for i := range want {
		same(t, fmt.Sprintf("%s: element %d", what, i), want[i], got[i], opts...)
	}
}

// anyDueAt ignores the due times of taken events; cases of reservations compare them.
var anyDueAt = cmpopts.IgnoreFields(driver.TakenEvent{}, "DueAt")

// equalBytes keeps cmp from comparing large equal bodies byte by byte.
var equalBytes = cmp.FilterValues(
	func(a, b []byte) bool { return len(a) > 0 && bytes.Equal(a, b) },
	cmp.Comparer(func(_, _ []byte) bool { return true }),
)

// sameEvent compares the whole detail of an event with want.
func (f *fixture) sameEvent(want *driver.EventDetail, opts ...cmp.Option) {
	f.Helper()
	want.Waiting = waits(want)
	same(f, "event "+want.EventID, want, f.event(want.Source, want.EventID), opts...)
}

// waits reports whether messages of a running event wait, and none is being sent.
func waits(e *driver.EventDetail) bool {
	in := func(state string) bool {
		return slices.ContainsFunc(e.Messages, func(m driver.MessageDetail) bool { return m.State == state })
	}
	return e.State == driver.StateRunning && in(driver.StatePending) && !in(driver.StateSending)
}

// claimed returns the detail of an event after the claim c at the given time.
func claimed(c *driver.Claim, at time.Time) *driver.EventDetail {
	want := &driver.EventDetail{
		Event: driver.Event{
			Key: c.Key, Source: c.Source, EventID: c.EventID, Type: c.Type,
			ReceivedAt: at, OccurredAt: c.OccurredAt,
		},
		Headers: c.Headers, Body: c.Body, BodySHA256: c.BodyHash,
		Deliveries: driver.Deliveries{Count: 1, FirstAt: at, LastAt: at, FirstRemote: c.Remote, FirstGateway: c.Gateway},
		Recent:     []driver.Delivery{{At: at, Remote: c.Remote, Gateway: c.Gateway, SameBody: true}},
	}
	switch {
	case c.Work == driver.WorkQueued:
		want.State = driver.StatePending
	case len(c.Messages) > 0:
		want.State = driver.StateRunning
	default:
		want.State, want.Note, want.ProcessedAt = driver.StateDone, driver.NoteNoRoute, at
	}
	for _, m := range c.Messages {
		want.Messages = append(want.Messages, driver.MessageDetail{
			ID: m.ID, Route: m.Route, Destination: m.Destination,
			State: driver.StatePending, DueAt: at, CreatedAt: at,
		})
	}
	slices.SortFunc(want.Messages, func(a, b driver.MessageDetail) int {
		return strings.Compare(a.Route+"\x00"+a.ID, b.Route+"\x00"+b.ID)
	})
	want.Waiting = waits(want)
	return want
}
