package hooksql_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hooksql"
)

// refuseEvents has a trigger refuse changes of events.
func refuseEvents(t *testing.T, store *hooksql.Store, ids ...string) {
	t.Helper()
	keys := make([]string, len(ids))
	for i, id := range ids {
		keys[i] = fmt.Sprintf("x'%x'", driver.EventKey("stripe", id))
	}
	if _, err := store.Writer().ExecContext(t.Context(), `CREATE TRIGGER refuse BEFORE UPDATE ON hookonce_event_state
		WHEN NEW.key IN (`+strings.Join(keys, ",")+`) BEGIN SELECT RAISE(ABORT, 'not this one'); END`); err != nil {
		t.Fatal(err)
	}
}

// TestDamagedBehindRefused has a refused event in front of one with a damaged body and a good one. Both are reserved and taken,
// and the refused one is named.
func TestDamagedBehindRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "hookonce.db")
	store := openMigrated(t, path)
	for _, id := range []string{"refused", "damaged", "good"} {
		c := newClaim(id)
		c.Body, c.Messages, c.Work = bytes.Repeat([]byte(id[:1]), 50_000), nil, driver.WorkQueued
		if _, err := store.Claim(t.Context(), &driver.ClaimParams{Claims: []driver.Claim{c}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	damage(t, path, "d")
	store = open(t, path)
	refuseEvents(t, store, "refused")
	var named []string
	refused := func(e driver.RefusedEvent) { named = append(named, e.EventID) }
	var got []string
	add := func(events []driver.TakenEvent) {
		for _, e := range events {
			got = append(got, fmt.Sprint(e.EventID, " ", len(e.Body), " ", e.Unreadable != nil))
		}
	}
	for range 2 {
		reserved, err := store.Reserve(t.Context(), &driver.ReserveParams{
			Source: "stripe", Types: []string{"*"}, Limit: 10, For: time.Hour, Refused: refused,
		})
		if err != nil {
			t.Fatal(err)
		}
		add(reserved)
	}
	for _, key := range []string{"damaged", "good"} {
		run, err := store.Take(t.Context(), &driver.TakeParams{
			Source: "stripe", Types: []string{"*"}, Limit: 10, HandlerTimeout: time.Second, Refused: refused,
			Keys: []driver.Key{driver.EventKey("stripe", "refused"), driver.EventKey("stripe", key)},
		})
		if err != nil || run == nil {
			t.Fatalf("Take of %s: %v, error %v", key, run, err)
		}
		add(run.Events())
		if err := run.Finish(t.Context(), outcomes(run, driver.WorkSucceeded)); err != nil {
			t.Error(err)
		}
	}
	want := []string{"damaged 0 true", "good 50000 false", "damaged 0 true", "good 50000 false"}
	if !slices.Equal(got, want) || len(named) != 4 || slices.ContainsFunc(named, func(id string) bool { return id != "refused" }) {
		t.Errorf("got %q and named %q, want %q and the refused one each time", got, named, want)
	}
}

// TestBehindManyRefused has a trigger that refuses the first 45 of 47 events. The others are reserved and taken one by one. Without
// them, the refusal is the error.
func TestBehindManyRefused(t *testing.T) {
	t.Parallel()
	r := newRuns(t)
	var refused []string
	for i := range 47 {
		r.queue(fmt.Sprint("evt_", i))
		refused = append(refused, fmt.Sprint("evt_", i))
	}
	refuseEvents(t, r.store, refused[:45]...)
	var named []driver.Key
	p := &driver.ReserveParams{Source: "stripe", Types: []string{"*"}, Limit: 1, For: time.Hour}
	p.Refused = func(e driver.RefusedEvent) { named = append(named, e.Key) }
	reserved, err := r.store.Reserve(t.Context(), p)
	if err != nil || len(reserved) != 1 || reserved[0].EventID != "evt_45" || len(named) != 45 {
		t.Fatalf("Reserve: %+v, error %v; want evt_45 past 45, not %d", reserved, err, len(named))
	}
	r.succeed(r.take(1))
	if run, err := takeFrom(t.Context(), r.store, 1); run != nil || !driver.FaultOfRows(err) {
		t.Errorf("Take of the refused events alone: %v, error %v, want a fault of rows", run, err)
	}
	p.Skip = named
	if reserved, err := r.store.Reserve(t.Context(), p); err != nil || len(reserved) != 0 {
		t.Errorf("Reserve without the refused events: %+v, error %v, want none", reserved, err)
	}
}

// A trigger that refuses all events names none of them: they would rest after it is gone.
func TestAllRefused(t *testing.T) {
	t.Parallel()
	r := newRuns(t, "a", "b", "c")
	refuseEvents(t, r.store, "a", "b", "c")
	p := &driver.ReserveParams{Source: "stripe", Types: []string{"*"}, Limit: 2, For: time.Hour}
	p.Refused = func(e driver.RefusedEvent) { t.Errorf("%s was named", e.EventID) }
	if reserved, err := r.store.Reserve(t.Context(), p); err == nil {
		t.Errorf("reserved %d events, want an error", len(reserved))
	}
}
