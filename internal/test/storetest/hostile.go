package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
)

func hostileCases() []testCase {
	return []testCase{
		{"Ids", hostileIDs},
		{"Bodies", hostileBodies},
		{"Headers", hostileHeaders},
		{"Names", hostileNames},
		{"Queued", hostileQueued},
		{"BadRowFailsTheWholeClaim", func(f *fixture) { badRowFailsTheWholeClaim(f, driver.BodyRefuse, "billing") }},
		{"BadRowFailsTheWholeClaimQueued", func(f *fixture) { badRowFailsTheWholeClaim(f, driver.BodyIgnore) }},
		{"DamagedRowsStopNoOthers", damagedRowsStopNoOthers},
	}
}

// ids returns event ids that a database might confuse, cut, fold or refuse.
func ids() []string {
	return []string{
		"evt_A", "evt_a", "1", "01", "1.0", "1e0", " 1", "1 ",
		"caf\u00e9", "cafe\u0301", // the NFC and NFD forms of one word are two ids
		"it's", `"quoted"`, `back\slash`, `\x00`, "100%", "under_score", "a;b--c", "$1", "?1", ":name", "%s",
		"null", "NULL", "true", "{}", "''", "\u200b", "\ufeffbom", "\U0001F600", "\u202egnp.exe",
		"a:b", ":", "::", "a:", ":b", "urn:a:b:c:d:e:f:g:h:i:j:k:l",
		strings.Repeat("x", 255), strings.Repeat("x", 254), strings.Repeat("\u00e9", 127), strings.Repeat("'", 255),
	}
}

func hostileIDs(f *fixture) {
	var all []driver.Claim
	for i, id := range ids() {
		all = append(all, newClaim("stripe", id, fmt.Sprint("body ", i), "billing"))
	}
	f.claimNew(t0, all...)
	same(f, "second claims", duplicates(len(all)), f.claim(t0.Add(time.Second), all...))
	for i := range all {
		f.sameEvent(claimed(&all[i], t0))
		page := f.events(&driver.EventFilter{ID: all[i].EventID, Sources: []string{"github", "stripe"}})
		same(f, "events listed under "+all[i].EventID, []driver.Event{claimed(&all[i], t0).Event}, page.Events)
	}
}

// bodies returns bodies that a database might parse, cut or change.
func bodies() [][]byte {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	return [][]byte{
		nil,
		{0},
		every,
		[]byte("a\x00b"),
		[]byte("\xff\xfe\xed\xa0\x80"),
		[]byte(`{"n":1e131071}`),
		[]byte(`{"u":"\u0000"}`),
		[]byte(`\x6162`),
		[]byte("{\"a\":1,\"a\":2}\r\n\r\n  "),
		[]byte(strings.Repeat("[", 20_000)),
		bytes.Repeat([]byte("\x00\xff'\\"), 1<<18), // 1 MiB
	}
}

func hostileBodies(f *fixture) {
	var all []driver.Claim
	for i, body := range bodies() {
		c := newClaim("stripe", fmt.Sprint("evt_", i), "", "billing")
		setBody(&c, body)
		c.BodyGuard = driver.BodyWatch
		all = append(all, c)
	}
	f.claimNew(t0, all...)
	same(f, "second claims", duplicates(len(all)), f.claim(t0.Add(time.Second), all...))
	for i := range all {
		f.sameEvent(claimed(&all[i], t0))
	}
	byID := map[string][]byte{}
	for _, m := range f.lease(t0, "to-billing", len(all)) {
		byID[m.EventID] = m.Body
	}
	for i := range all {
		if got, ok := byID[all[i].EventID]; !ok || !bytes.Equal(got, all[i].Body) {
			f.Errorf("the leased body of %s differs from the claimed one of %d bytes", all[i].EventID, len(all[i].Body))
		}
	}
}

func hostileHeaders(f *fixture) {
	for i, headers := range []string{
		`{}`,
		`{ "B":["2"],  "A":["1","2"],"A":["3"] }` + "\n",
		`{"X":["\u0000"]}`,
		`{"X":["` + strings.Repeat("x", 64<<10) + `"]}`,
		`{"X":["it's \"quoted\" \\ %s $1 ?"]}`,
	} {
		c := newClaim("stripe", fmt.Sprint("evt_", i), "{}", "billing")
		c.Headers = []byte(headers)
		f.claimNew(t0, c)
		f.sameEvent(claimed(&c, t0))
		if got := f.leaseOne(t0, "to-billing"); string(got.Headers) != headers {
			f.Errorf("leased headers are %q, want %q", got.Headers, headers)
		}
	}
}

// hostileNames uses the ids as every other text of a claim.
func hostileNames(f *fixture) {
	var all []driver.Claim
	for i, text := range ids() {
		c := newClaim(text, fmt.Sprint("evt_", i), "{}", text)
		c.Type = text
		all = append(all, c)
	}
	f.claimNew(t0, all...)
	for i := range all {
		f.sameEvent(claimed(&all[i], t0))
		got := f.leaseOne(t0, all[i].Messages[0].Destination)
		same(f, "message", leased(&all[i], 0, t0, got.Token, 1), got)
		page := f.events(&driver.EventFilter{Source: all[i].Source, Type: all[i].Type})
		if len(page.Events) != 1 || page.Events[0].Key != all[i].Key {
			f.Errorf("events of source and type %q: got %+v, want one", all[i].Source, page.Events)
		}
	}
}

// hostileQueued uses the ids as every text, and the bodies, of events without messages.
func hostileQueued(f *fixture) {
	var all []driver.Claim
	for i, text := range ids() {
		c := newEither(text, text, "{}")
		c.Type, c.Remote, c.Gateway = text, text, text
		all = append(all, c)
		if i < len(bodies()) {
			setBody(&all[i], bodies()[i])
		}
	}
	f.claimNew(t0, all...)
	same(f, "second claims", duplicates(len(all)), f.claim(t0.Add(time.Second), all...))
	for i := range all {
		f.sameEvent(claimed(&all[i], t0))
	}
}

// badRowFailsTheWholeClaim puts one row that the database refuses at every position of a batch. The
// store must write none of the batch, and return an error of the class driver.ErrBadRow.
func badRowFailsTheWholeClaim(f *fixture, guard driver.BodyGuard, routes ...string) {
	const n = 5
	var batch []driver.Claim
	for i := range n {
		c := newEither("stripe", fmt.Sprint("evt_", i), fmt.Sprint("body ", i), routes...)
		c.BodyGuard = guard
		batch = append(batch, c)
	}
	batch = sorted(batch...)
	for bad := range n {
		claims := append([]driver.Claim(nil), batch...)
		f.with.BadRow(&claims[bad])
		got, err := f.s.Claim(f.Context(), &driver.ClaimParams{Claims: claims, Now: t0})
		if !errors.Is(err, driver.ErrBadRow) || errors.Is(err, driver.ErrCommitUnknown) {
			f.Fatalf("Claim with a bad row at %d: got %v and the error %v, want %v (see Features.BadRow)", bad, got, err, driver.ErrBadRow)
		}
		for _, c := range batch {
			f.absent(c.Source, c.EventID)
		}
	}
	if got := f.lease(t0.Add(time.Hour), "to-billing", n); len(got) > 0 {
		f.Errorf("a refused claim left messages: %+v", got)
	}
	// The bodies of the refused claims are gone too.
	f.claimNew(t0, batch...)
	for i := range batch {
		f.sameEvent(claimed(&batch[i], t0))
	}
}
