package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
)

func refusedCases() []testCase {
	return []testCase{
		{"List", listRefused},
		{"Pages", listRefusedPages},
		{"NewestOfEachSource", refusedNewest},
		{"HostileTexts", refusedHostile},
		{"PruneByRetention", refusedPruned},
		{"ApartFromClaims", refusedApart},
	}
}

func (f *fixture) addRefused(requests ...driver.RefusedRequest) {
	f.Helper()
	if err := f.s.AddRefused(f.Context(), &driver.AddRefusedParams{Requests: requests}); err != nil {
		f.Fatalf("AddRefused: %v", err)
	}
}

func (f *fixture) refusedPage(filter *driver.RefusedFilter) *driver.RefusedPage {
	f.Helper()
	got, err := f.s.Refused(f.Context(), filter)
	if err != nil {
		f.Fatalf("Refused(%+v): %v", filter, err)
	}
	return got
}

func newRefused(id, source string, at time.Time) driver.RefusedRequest {
	return driver.RefusedRequest{
		ErrorID: id, At: at, Source: source, Reason: "signature_wrong", Status: 401, Method: "POST", Remote: "203.0.113.9", Gateway: "gw-1",
		Headers: []byte(`{"A":["b"]}`), Body: []byte("{}"), BodySize: 2,
	}
}

// newestFirst sorts requests as the listing does.
func newestFirst(all []driver.RefusedRequest) {
	slices.SortFunc(all, func(a, b driver.RefusedRequest) int { return compareListed(a.At, b.At, a.Key(), b.Key(), "", "") })
}

func listRefused(f *fixture) {
	f.addRefused()
	same(f, "nothing", driver.RefusedPage{}, *f.refusedPage(&driver.RefusedFilter{}))
	a, b, c := newRefused("a", "stripe", t0), newRefused("b", "stripe", t0.Add(time.Second)), newRefused("c", "", t0.Add(2*time.Second))
	b.Reason, b.Remote, b.BodySize, b.Body, b.Headers = "method", "[2001:db8::1]:443", -1, nil, nil
	c.Status, c.Body, c.BodySize = 404, bytes.Repeat([]byte{0xff, 0}, driver.MaxRefusedBody/2), 1<<40
	f.addRefused(a, b)
	changed := a
	changed.Reason = "other"
	f.addRefused(c, changed) // the id of a is known
	for name, tt := range map[string]struct {
		filter driver.RefusedFilter
		want   []driver.RefusedRequest
	}{
		"all":              {driver.RefusedFilter{}, []driver.RefusedRequest{c, b, a}},
		"a source":         {driver.RefusedFilter{Source: "stripe"}, []driver.RefusedRequest{b, a}},
		"a reason":         {driver.RefusedFilter{Reason: "method"}, []driver.RefusedRequest{b}},
		"a remote address": {driver.RefusedFilter{Remote: "203.0.113.9"}, []driver.RefusedRequest{c, a}},
		"an id":            {driver.RefusedFilter{ErrorID: "a"}, []driver.RefusedRequest{a}},
		"an id elsewhere":  {driver.RefusedFilter{ErrorID: "a", Source: "github"}, nil},
		"since":            {driver.RefusedFilter{Since: b.At}, []driver.RefusedRequest{c, b}},
		"until":            {driver.RefusedFilter{Until: b.At}, []driver.RefusedRequest{a}},
		"not text":         {driver.RefusedFilter{Source: "a\x00"}, nil},
	} {
		same(f, name, driver.RefusedPage{Requests: tt.want}, *f.refusedPage(&tt.filter))
	}
}

func listRefusedPages(f *fixture) {
	var all []driver.RefusedRequest
	for i := range 23 {
		// Many at one time.
		all = append(all, newRefused(fmt.Sprint(i), []string{"stripe", "github"}[i%2], t0.Add(time.Duration(i/7)*time.Microsecond)))
	}
	f.addRefused(all...)
	newestFirst(all)
	for _, limit := range []int{1, 7, 22, 23, 24} {
		filter := driver.RefusedFilter{Limit: limit}
		var got []driver.RefusedRequest
		for len(got) <= len(all) {
			page := f.refusedPage(&filter)
			got = append(got, page.Requests...)
			if filter.After = page.Next; filter.After.IsZero() {
				break
			}
		}
		same(f, fmt.Sprintf("pages of %d", limit), all, got)
	}
}

// refusedNewest keeps the newest of each source, in every order of arrival.
func refusedNewest(f *fixture) {
	var many []driver.RefusedRequest
	for i := range driver.MaxRefused + 5 {
		many = append(many, newRefused(fmt.Sprint(i), "stripe", t0.Add(time.Duration(i)*time.Second)))
	}
	f.addRefused(newRefused("other", "github", t0.Add(-time.Hour)))
	f.addRefused(many[100:]...)
	f.addRefused(many[:100]...)
	count, oldest := 0, time.Time{}
	filter := driver.RefusedFilter{Source: "stripe", Limit: driver.MaxLimit}
	for {
		page := f.refusedPage(&filter)
		if count += len(page.Requests); len(page.Requests) > 0 {
			oldest = page.Requests[len(page.Requests)-1].At
		}
		if filter.After = page.Next; filter.After.IsZero() {
			break
		}
	}
	if count != driver.MaxRefused || !oldest.Equal(many[5].At) {
		f.Errorf("%d requests from %v on, want %d from %v on", count, oldest, driver.MaxRefused, many[5].At)
	}
	if got := f.refusedPage(&driver.RefusedFilter{Source: "github"}).Requests; len(got) != 1 {
		f.Errorf("the other source has %d requests, want 1", len(got))
	}
}

func refusedHostile(f *fixture) {
	for i, text := range []string{"it's", `"{},\`, "NULL", "\u2028", strings.Repeat("é", driver.MaxFigureText/2)} {
		r := newRefused(text, text, t0)
		r.Reason, r.Method, r.Remote, r.Gateway, r.BodySize = text, text, text, text, int64(i)
		f.addRefused(r)
		same(f, text, []driver.RefusedRequest{r}, f.refusedPage(&driver.RefusedFilter{Source: text, Reason: text, Remote: text, ErrorID: text}).Requests)
	}
	before := f.refusedPage(&driver.RefusedFilter{})
	for name, change := range map[string]func(*driver.RefusedRequest){
		"source":  func(r *driver.RefusedRequest) { r.Source = "a\x00" },
		"reason":  func(r *driver.RefusedRequest) { r.Reason = "\xff" },
		"method":  func(r *driver.RefusedRequest) { r.Method = strings.Repeat("a", driver.MaxFigureText+1) },
		"headers": func(r *driver.RefusedRequest) { r.Headers = make([]byte, driver.MaxRefusedHeaders+1) },
		"body":    func(r *driver.RefusedRequest) { r.Body = make([]byte, driver.MaxRefusedBody+1) },
	} {
		good, bad := newRefused("good", "stripe", t0), newRefused("bad", "stripe", t0)
		change(&bad)
		if err := f.s.AddRefused(f.Context(), &driver.AddRefusedParams{Requests: []driver.RefusedRequest{good, bad}}); !errors.Is(err, driver.ErrBadRow) {
			f.Errorf("%s: the error is %v, want %v", name, err, driver.ErrBadRow)
		}
	}
	same(f, "after refused calls", *before, *f.refusedPage(&driver.RefusedFilter{}))
}

// refusedPruned keeps refused requests as long as the bodies of their source.
func refusedPruned(f *fixture) {
	for i := range 3 {
		f.addRefused(newRefused(fmt.Sprint("s", i), "stripe", t0), newRefused(fmt.Sprint("g", i), "github", t0), newRefused(fmt.Sprint("u", i), "", t0))
	}
	p := &driver.PruneParams{
		DedupeWindow: 30 * day, Retention: day, Chunk: 2,
		Sources: map[string]driver.SourceWindows{"stripe": {DedupeWindow: 30 * day, Retention: 2 * day}},
	}
	for _, tt := range []struct {
		at   time.Duration
		want int
	}{{day, 9}, {day + time.Second, 3}, {2 * day, 3}, {2*day + time.Second, 0}} {
		same(f, "result of pruning", driver.PruneResult{}, f.pruneAt(t0.Add(tt.at), p))
		if got := len(f.refusedPage(&driver.RefusedFilter{}).Requests); got != tt.want {
			f.Errorf("after %v: %d requests, want %d", tt.at, got, tt.want)
		}
	}
}

// refusedApart claims an event whose id is the error id of a refused request.
func refusedApart(f *fixture) {
	r := newRefused("evt_1", "stripe", t0)
	f.addRefused(r)
	if r.Key() == driver.EventKey("stripe", "evt_1") {
		f.Error("the keys of an event and of a refused request are equal")
	}
	c := newClaim("stripe", "evt_1", "{}")
	f.claimNew(t0, c)
	f.sameEvent(claimed(&c, t0))
	same(f, "events", []string{"evt_1"}, idsOf(f.events(&driver.EventFilter{})))
}

// raceRefused adds to one source in two processes.
func raceRefused(p *pair) {
	p.atOnce(20, func(s driver.Store, i int) error {
		var requests []driver.RefusedRequest
		for j := range 100 {
			// Each request comes twice.
			id := i/2*100 + j
			requests = append(requests, newRefused(fmt.Sprint(id), "stripe", t0.Add(time.Duration(id)*time.Second)))
		}
		return s.AddRefused(p.Context(), &driver.AddRefusedParams{Requests: requests})
	})
	p.addRefused(newRefused("last", "stripe", t0))
	n := 0
	for filter := (driver.RefusedFilter{Limit: driver.MaxLimit}); ; {
		page := p.refusedPage(&filter)
		n += len(page.Requests)
		if filter.After = page.Next; filter.After.IsZero() {
			break
		}
	}
	if n != driver.MaxRefused {
		p.Errorf("%d requests, want %d", n, driver.MaxRefused)
	}
}
