package storetest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hookonce/hookonce/driver"
)

func (f *fixture) quarantined(filter *driver.QuarantineFilter) *driver.QuarantinePage {
	f.Helper()
	got, err := f.s.Quarantined(f.Context(), filter)
	if err != nil {
		f.Fatalf("Quarantined(%+v): %v", filter, err)
	}
	return got
}

// kept returns a request as the listing shows it after one delivery.
func kept(q *driver.Quarantined, at time.Time) driver.QuarantinedRequest {
	return driver.QuarantinedRequest{
		Key: driver.BodyKey(q.Source, q.BodyHash), Source: q.Source, BodySHA256: q.BodyHash, Part: q.Part, Headers: q.Headers, Body: q.Body,
		Reason: q.Reason, Handled: q.Handled, Count: 1, FirstAt: at, LastAt: at,
	}
}

func sortQuarantined(all []driver.QuarantinedRequest) {
	slices.SortFunc(all, func(a, b driver.QuarantinedRequest) int {
		return compareListed(a.LastAt, b.LastAt, a.Key, b.Key, "", "")
	})
}

// listQuarantine lists hostile bodies of two sources. A repeated body is counted, and moves to the
// front.
func listQuarantine(f *fixture) {
	var all []driver.Quarantined
	for i, body := range bodies() {
		for _, source := range []string{"stripe", "it's"} {
			all = append(all, driver.Quarantined{Source: source, Body: body, Reason: fmt.Sprintf("it's \"%d\"", i), Headers: []byte(`{"A":["b"]}`)})
		}
	}
	f.quarantine(t0, all...)
	var want []driver.QuarantinedRequest
	for i := range all {
		want = append(want, kept(&all[i], t0))
	}
	sortQuarantined(want)
	same(f, "quarantine", driver.QuarantinePage{Requests: want}, *f.quarantined(&driver.QuarantineFilter{Limit: driver.MaxLimit}))

	later := t0.Add(time.Second)
	again := slices.IndexFunc(want, func(q driver.QuarantinedRequest) bool { return q.Source == "it's" && len(q.Body) == 1 })
	repeated := driver.Quarantined{Source: "it's", Body: want[again].Body, Reason: want[again].Reason, Headers: want[again].Headers}
	f.quarantine(later, repeated, repeated)
	want[again].Count, want[again].LastAt = 3, later
	sortQuarantined(want)
	got := f.quarantined(&driver.QuarantineFilter{Limit: driver.MaxLimit})
	same(f, "quarantine after a repetition", want, got.Requests)
	if want[0].Count != 3 {
		f.Errorf("the first request is %+v, want the latest", want[0])
	}
	want = slices.DeleteFunc(want, func(q driver.QuarantinedRequest) bool { return q.Source != "it's" })
	same(f, "quarantine of one source", want, f.quarantined(&driver.QuarantineFilter{Source: "it's", Limit: driver.MaxLimit}).Requests)
	for _, source := range []string{"nobody", "IT'S", "%", "it's ", "a\x00", "\xff"} {
		same(f, "quarantine of "+source, driver.QuarantinePage{}, *f.quarantined(&driver.QuarantineFilter{Source: source}))
	}
}

func listQuarantinePages(f *fixture) {
	var want []driver.QuarantinedRequest
	for i := range 60 {
		at := t0.Add(time.Duration(i/7) * time.Microsecond) // many at one time
		q := driver.Quarantined{Source: []string{"stripe", "github"}[i%2], Body: fmt.Append(nil, i), Reason: "no id"}
		some := []driver.Quarantined{q}
		f.quarantine(at, some...)
		want = append(want, kept(&some[0], at))
	}
	sortQuarantined(want)
	same(f, "quarantine without a limit", want[:driver.DefaultLimit], f.quarantined(&driver.QuarantineFilter{}).Requests)
	for _, limit := range []int{1, 7, 59, 60, 61, driver.MaxLimit} {
		filter := driver.QuarantineFilter{Limit: limit}
		var got []driver.QuarantinedRequest
		for len(got) <= len(want) {
			page := f.quarantined(&filter)
			got = append(got, page.Requests...)
			if page.Next.IsZero() {
				break
			}
			if len(page.Requests) != limit {
				f.Errorf("limit %d: a page has %d requests and is not the last", limit, len(page.Requests))
			}
			var err error
			if filter.After, err = driver.ParseCursor(page.Next.String()); err != nil {
				f.Fatalf("ParseCursor: %v", err)
			}
		}
		same(f, fmt.Sprint("pages of ", limit), want, got)
	}
}

// handledQuarantined keeps a request as handled from the first arrival in a program with handlers on,
// also within one call.
func handledQuarantined(f *fixture) {
	for _, arrivals := range [][]bool{{false}, {true}, {false, true}, {true, false}} {
		apart := driver.Quarantined{Source: "stripe", Body: fmt.Append(nil, "apart", arrivals), Reason: "no id"}
		together, some := apart, []driver.Quarantined{}
		together.Body = fmt.Append(nil, "together", arrivals)
		for _, handled := range arrivals {
			apart.Handled, together.Handled = handled, handled
			f.quarantine(t0, apart)
			some = append(some, together)
		}
		f.quarantine(t0, some...)
		for _, q := range []*driver.Quarantined{&apart, &together} {
			got, err := f.s.QuarantinedRequest(f.Context(), driver.BodyKey(q.Source, sha256.Sum256(q.Body)))
			if want := slices.Contains(arrivals, true); err != nil || got.Handled != want || got.Count != int64(len(arrivals)) {
				f.Errorf("%s: got %+v and the error %v, want handled %t", q.Body, got, err, want)
			}
		}
	}
}

// settleQuarantined reads requests by their keys, gives one a new reason, and removes it. Other
// requests stay as they are, also one with the same body.
func settleQuarantined(f *fixture) {
	all := []driver.Quarantined{
		{Source: "stripe", Body: []byte("a"), Part: driver.PartItem, Reason: "no id", Headers: []byte(`{"A":["b"]}`)},
		{Source: "github", Body: []byte("a"), Part: driver.PartEntry, Reason: "no id", Handled: true},
		{Source: "stripe", Body: []byte{}, Reason: "no id"},
	}
	f.quarantine(t0, all...)
	f.quarantine(t0.Add(time.Second), all[0])
	want := make([]driver.QuarantinedRequest, len(all))
	for i := range all {
		want[i] = kept(&all[i], t0)
	}
	want[0].Count, want[0].LastAt = 2, t0.Add(time.Second)
	check := func(when string, there ...int) {
		f.Helper()
		for i := range want {
			got, err := f.s.QuarantinedRequest(f.Context(), want[i].Key)
			switch {
			case !slices.Contains(there, i):
				if got != nil || !errors.Is(err, driver.ErrNotFound) {
					f.Errorf("%s: request %d is %+v with the error %v, want %v", when, i, got, err, driver.ErrNotFound)
				}
			case err != nil:
				f.Errorf("%s: QuarantinedRequest %d: %v", when, i, err)
			default:
				same(f, fmt.Sprint(when, ": request ", i), want[i], *got)
			}
		}
	}
	settle := func(i int, reason string, found bool) {
		f.Helper()
		got, err := f.s.SettleQuarantined(f.Context(), &driver.SettleQuarantinedParams{Key: want[i].Key, Reason: reason})
		if err != nil || got != found {
			f.Errorf("SettleQuarantined %d with the reason %q: %t with the error %v, want %t", i, reason, got, err, found)
		}
	}
	check("stored", 0, 1, 2)
	settle(0, "it's \"other\"", true)
	want[0].Reason = "it's \"other\""
	check("with a new reason", 0, 1, 2)
	settle(0, "", true)
	check("removed", 1, 2)
	settle(0, "", false)
	settle(0, "late", false)
	check("settled again", 1, 2)
	f.quarantine(t0, all[0])
	want[0] = kept(&all[0], t0)
	check("stored again", 0, 1, 2)
}
