package storetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
)

func groupCases() []testCase {
	return []testCase{
		{"Groups", groupsListed},
		{"Pages", groupPages},
		{"Filters", groupFilters},
		{"CountIsCapped", groupsCapped},
		{"ShortPages", groupShortPages},
		{"LettersOfAGroup", groupLetters},
		{"NoError", groupWithoutError},
	}
}

// signed fails unless every dead letter has the signature of its last error. The suites call it at the
// end of each case, so it sees every way in which something dies.
func (f *fixture) signed() {
	f.Helper()
	if f.Failed() {
		return // the case may have left the store unusable
	}
	filter := &driver.MessageFilter{Limit: driver.MaxLimit}
	for {
		page, err := f.s.DeadLetters(f.Context(), filter)
		if err != nil {
			f.Fatalf("DeadLetters after the case: %v", err)
		}
		for i := range page.DeadLetters {
			if l := &page.DeadLetters[i]; l.Signature != driver.ErrorSignature(l.LastError) {
				f.Errorf("the dead letter %q of event %q has the signature %q, want that of its error %q", l.MessageID, l.EventID, l.Signature, l.LastError)
			}
		}
		if filter.After = page.Next; filter.After.IsZero() {
			return
		}
	}
}

func (f *fixture) groups(filter *driver.GroupFilter) *driver.GroupPage {
	f.Helper()
	got, err := f.s.ErrorGroups(f.Context(), filter)
	if err != nil {
		f.Fatalf("ErrorGroups(%+v): %v", filter, err)
	}
	return got
}

// die makes a message of the destination dead with an error.
func (f *fixture) die(at time.Time, destination, reason string) {
	f.Helper()
	m := f.leaseOne(at, destination)
	f.mustComplete(at, driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageDead, Error: reason})
}

// dieUndecided claims an event that is dead itself, because the condition of a route was not decided.
func (f *fixture) dieUndecided(at time.Time, source, id, route string) driver.Claim {
	f.Helper()
	c := newClaim(source, id, id)
	c.Undecided = driver.NoteUndecided + route
	f.claimNew(at, c)
	return c
}

// dieInGroups makes dead letters, and returns their groups in the order of the listing.
func (f *fixture) dieInGroups() []driver.ErrorGroup {
	f.Helper()
	second := func(n int) time.Time { return t0.Add(time.Duration(n) * time.Second) }
	for i, death := range []struct{ destination, reason string }{
		{"to-b", "500 for order 17"},
		{"to-a", "dial tcp 10.0.0.1:80: refused"},
		{"to-b", "502 for order 4711"},
		{"to-b", "dial tcp 10.0.0.9:8080: refused"},
		{"to-a", "dial tcp 10.0.0.2:443: refused"},
		{"to-\u00e9", "gone"},
	} {
		f.claimNew(second(i), newClaim("stripe", fmt.Sprint("routed ", i), fmt.Sprint(i), death.destination[len("to-"):]))
		f.die(second(i), death.destination, death.reason)
	}
	f.dieUndecided(second(10), "github", "g1", "mail7")
	f.dieUndecided(second(11), "stripe", "s1", "mail8")
	f.dieUndecided(second(12), "github", "g2", "mail9")
	f.dieUndecided(second(13), "github", "g3", "audit")
	// A living message and one that lived again are in no group.
	f.claimNew(second(20), newClaim("stripe", "waits", "w", "b"))
	again := newClaim("stripe", "again", "x", "z")
	f.claimNew(second(20), again)
	f.die(second(20), "to-z", "gone")
	f.replayDead(second(21), letter(&again, 0))
	return []driver.ErrorGroup{
		{Destination: "to-a", Signature: "dial tcp #.#.#.#:#: refused", Count: 2, FirstAt: second(1), LastAt: second(4), Sample: "dial tcp 10.0.0.2:443: refused"},
		{Destination: "to-b", Signature: "# for order #", Count: 2, FirstAt: second(0), LastAt: second(2), Sample: "502 for order 4711"},
		{Destination: "to-b", Signature: "dial tcp #.#.#.#:#: refused", Count: 1, FirstAt: second(3), LastAt: second(3), Sample: "dial tcp 10.0.0.9:8080: refused"},
		{Destination: "to-\u00e9", Signature: "gone", Count: 1, FirstAt: second(5), LastAt: second(5), Sample: "gone"},
		{Source: "github", Signature: "where undecided: #", Count: 2, FirstAt: second(10), LastAt: second(12), Sample: "where undecided: mail9"},
		{Source: "github", Signature: "where undecided: audit", Count: 1, FirstAt: second(13), LastAt: second(13), Sample: "where undecided: audit"},
		{Source: "stripe", Signature: "where undecided: #", Count: 1, FirstAt: second(11), LastAt: second(11), Sample: "where undecided: mail8"},
	}
}

func groupsListed(f *fixture) {
	same(f, "nothing", driver.GroupPage{}, *f.groups(&driver.GroupFilter{}))
	want := f.dieInGroups()
	same(f, "all", driver.GroupPage{Groups: want}, *f.groups(&driver.GroupFilter{}))
	// A group ends with its last letter.
	page := f.deadLetters(&driver.MessageFilter{Destination: "to-\u00e9"})
	f.discard(t0, driver.DeadLetterRef{Key: page.DeadLetters[0].Key, MessageID: page.DeadLetters[0].MessageID})
	same(f, "without the discarded", driver.GroupPage{Groups: slices.Delete(want, 3, 4)}, *f.groups(&driver.GroupFilter{}))
}

func groupPages(f *fixture) {
	want := f.dieInGroups()
	for limit := 1; limit <= len(want); limit++ {
		filter := &driver.GroupFilter{Limit: limit}
		var all []driver.ErrorGroup
		for pages := 1; ; pages++ {
			page := f.groups(filter)
			all = append(all, page.Groups...)
			if page.Next.IsZero() {
				break
			}
			if len(page.Groups) != limit || pages > len(want) {
				f.Fatalf("a page of %d has %d groups and another page", limit, len(page.Groups))
			}
			filter.After = page.Next
		}
		same(f, fmt.Sprint("pages of ", limit), want, all)
	}
	same(f, "behind the last", driver.GroupPage{}, *f.groups(&driver.GroupFilter{After: want[len(want)-1].Cursor()}))
	// A cursor of a group that has ended is still a place.
	between := driver.GroupCursor{Name: "to-a", Signature: "e"}
	same(f, "from between", driver.GroupPage{Groups: want[1:]}, *f.groups(&driver.GroupFilter{After: between}))
}

func groupFilters(f *fixture) {
	all := f.dieInGroups()
	b := all[1]
	late := all[0]
	late.Count, late.FirstAt = 1, late.LastAt
	for name, tt := range map[string]struct {
		filter driver.GroupFilter
		want   []driver.ErrorGroup
	}{
		"a destination":                   {driver.GroupFilter{Destination: "to-b"}, all[1:3]},
		"a destination without":           {driver.GroupFilter{Destination: "to-0"}, nil},
		"a source":                        {driver.GroupFilter{Source: "github"}, all[4:6]},
		"both":                            {driver.GroupFilter{Source: "github", Destination: "to-b"}, nil},
		"a signature":                     {driver.GroupFilter{Signature: "dial tcp #.#.#.#:#: refused"}, []driver.ErrorGroup{all[0], all[2]}},
		"a signature of events":           {driver.GroupFilter{Signature: "where undecided: #"}, []driver.ErrorGroup{all[4], all[6]}},
		"a signature and a destination":   {driver.GroupFilter{Signature: b.Signature, Destination: "to-b"}, []driver.ErrorGroup{b}},
		"since":                           {driver.GroupFilter{Since: t0.Add(4 * time.Second), Until: t0.Add(10 * time.Second)}, []driver.ErrorGroup{late, all[3]}},
		"since, to less than microsecond": {driver.GroupFilter{Since: t0.Add(13*time.Second - 1)}, all[5:6]},
		"until":                           {driver.GroupFilter{Until: t0.Add(time.Second)}, []driver.ErrorGroup{{Destination: "to-b", Signature: b.Signature, Count: 1, FirstAt: t0, LastAt: t0, Sample: "500 for order 17"}}},
		"not text":                        {driver.GroupFilter{Destination: "a\x00"}, nil},
		"not text either":                 {driver.GroupFilter{Signature: "\xff"}, nil},
	} {
		same(f, name, driver.GroupPage{Groups: tt.want}, *f.groups(&tt.filter))
	}
}

// groupsCapped makes one group larger than a page counts.
func groupsCapped(f *fixture) {
	const n, batch = driver.MaxGroupCount + 2, 500
	all := newClaims(n, "a")
	for claims := range slices.Chunk(all, batch) {
		f.claimNew(t0, claims...)
	}
	for left := n - 2; left > 0; left -= batch {
		f.killAll(t0, "to-a", min(left, batch))
	}
	want := driver.ErrorGroup{Destination: "to-a", Signature: "gone #", Count: driver.MaxGroupCount, FirstAt: t0, LastAt: t0, Sample: "gone 410"}
	same(f, "as many as are counted", driver.GroupPage{Groups: []driver.ErrorGroup{want}}, *f.groups(&driver.GroupFilter{}))
	f.killAll(t0, "to-a", 1)
	want.More = true
	same(f, "one more", driver.GroupPage{Groups: []driver.ErrorGroup{want}}, *f.groups(&driver.GroupFilter{}))
}

// groupShortPages has more groups without a match than a page looks at. The pages still come to the end.
func groupShortPages(f *fixture) {
	var all []driver.Claim
	for i := range driver.MaxGroupsVisited + 1 {
		c := newClaim("stripe", fmt.Sprint("evt_", i), "{}")
		// Letters, because all words with digits are alike.
		c.Undecided = driver.NoteUndecided + strings.Map(func(r rune) rune { return 'g' + r - '0' }, fmt.Sprintf("%05d", i))
		all = append(all, c)
	}
	for claims := range slices.Chunk(all, 500) {
		f.claimNew(t0, claims...)
	}
	late := f.dieUndecided(t0.Add(time.Hour), "stripe", "late", "zz") // the last group
	filter := &driver.GroupFilter{Since: t0.Add(time.Minute)}
	first := f.groups(filter)
	if len(first.Groups) != 0 || first.Next.IsZero() {
		f.Fatalf("the first page has the groups %+v and the next one at %+v, want none, and a next page", first.Groups, first.Next)
	}
	filter.After = first.Next
	want := driver.ErrorGroup{Source: "stripe", Signature: late.Undecided, Count: 1, FirstAt: t0.Add(time.Hour), LastAt: t0.Add(time.Hour), Sample: late.Undecided}
	same(f, "the second page", driver.GroupPage{Groups: []driver.ErrorGroup{want}}, *f.groups(filter))
}

// groupLetters lists the letters of a group.
func groupLetters(f *fixture) {
	f.dieInGroups()
	for name, tt := range map[string]struct {
		filter driver.MessageFilter
		want   []string
	}{
		"messages":               {driver.MessageFilter{Signature: "dial tcp #.#.#.#:#: refused"}, []string{"routed 4", "routed 3", "routed 1"}},
		"of one destination":     {driver.MessageFilter{Signature: "dial tcp #.#.#.#:#: refused", Destination: "to-a"}, []string{"routed 4", "routed 1"}},
		"events":                 {driver.MessageFilter{Signature: "where undecided: #"}, []string{"g2", "s1", "g1"}},
		"events of one source":   {driver.MessageFilter{Signature: "where undecided: #", Source: "github"}, []string{"g2", "g1"}},
		"a part of a signature":  {driver.MessageFilter{Signature: "dial tcp"}, nil},
		"no text of a signature": {driver.MessageFilter{Signature: "a\x00"}, nil},
	} {
		var got []string
		for filter := tt.filter; ; {
			filter.Limit = 2
			page := f.deadLetters(&filter)
			for _, l := range page.DeadLetters {
				got = append(got, l.EventID)
			}
			if filter.After = page.Next; filter.After.IsZero() {
				break
			}
		}
		same(f, name, tt.want, got)
	}
}

// groupWithoutError buries a message that has no error: its only attempt was given back, and then the
// limit of attempts fell.
func groupWithoutError(f *fixture) {
	f.claimNew(t0, newClaim("stripe", "evt_1", "{}", "a"))
	f.die(t0, "to-a", "")
	want := driver.ErrorGroup{Destination: "to-a", Signature: driver.NoErrorSignature, Count: 1, FirstAt: t0, LastAt: t0}
	same(f, "groups", driver.GroupPage{Groups: []driver.ErrorGroup{want}}, *f.groups(&driver.GroupFilter{}))
	f.claimNew(t0, newClaim("stripe", "evt_2", "{}", "b"))
	f.leaseOne(t0, "to-b")
	got := f.leaseAndBury(&driver.LeaseParams{Destination: "to-b", Limit: 1, For: leaseFor, MaxAttempts: 2, Now: t0.Add(leaseFor)})
	lease := driver.MessageLease{ID: got.Messages[0].ID, Token: got.Messages[0].Token}
	f.release(t0, lease)
	f.leaseAndBury(&driver.LeaseParams{Destination: "to-b", Limit: 1, For: leaseFor, MaxAttempts: 1, Now: t0})
	want.Destination = "to-b"
	same(f, "a buried message without an error", driver.GroupPage{Groups: []driver.ErrorGroup{want}}, *f.groups(&driver.GroupFilter{Destination: "to-b"}))
}
