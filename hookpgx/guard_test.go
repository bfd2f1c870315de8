package hookpgx_test

import (
	"crypto/sha256"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/eventually"
)

func guardedClaim(id, body string, guard driver.BodyGuard) driver.Claim {
	c := newClaim(id, "billing")
	c.Body, c.BodyHash, c.BodyGuard = []byte(body), sha256.Sum256([]byte(body)), guard
	return c
}

// TestOneWatchedBodyManyIDs claims one body under many ids at once over two stores. BodyWatch
// claims all of them, and all but the first name the first.
func TestOneWatchedBodyManyIDs(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	stores := []*world{w, w.second(t)}
	for round := range 10 {
		body := fmt.Sprint("round ", round)
		results := map[string]driver.ClaimResult{}
		var mu sync.Mutex
		concurrently(t, 16, func(me int) error {
			c := guardedClaim(fmt.Sprint(body, " id ", me), body, driver.BodyWatch)
			got, err := stores[me%2].Claim(t.Context(), claimOf(c))
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				results[c.EventID] = got[0]
			}
			return err
		})
		checkOneFirst(t, driver.BodyWatch, results)
	}
}

func checkOneFirst(t *testing.T, guard driver.BodyGuard, results map[string]driver.ClaimResult) {
	t.Helper()
	var first []string
	for id, result := range results {
		if result.RepeatOf == "" {
			first = append(first, id)
		}
	}
	if len(first) != 1 {
		t.Fatalf("%d ids are first with their body: %v", len(first), results)
	}
	for id, got := range results {
		want := driver.ClaimResult{Claimed: true}
		if id != first[0] {
			want = driver.ClaimResult{
				Claimed: guard == driver.BodyWatch, Duplicate: guard == driver.BodyRefuse, RepeatOf: first[0], RepeatOfKey: driver.EventKey("stripe", first[0]),
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("result of %q differs (-want +got):\n%s", id, diff)
		}
	}
}

// TestBodyOfALostClaim has a session that writes a body first but loses its key to a third session
// with another body. Its row of the body is void: a claim that waited for the row must be claimed
// and not refused, because no event holds the body.
func TestBodyOfALostClaim(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	winner := guardedClaim("contested", "body of the winner", driver.BodyRefuse)
	loser := guardedClaim("contested", "body of the loser", driver.BodyRefuse)
	waiting := guardedClaim("waiting", "body of the loser", driver.BodyRefuse)
	third := guardedClaim("third", "body of the loser", driver.BodyRefuse)
	w.mustClaim(t, true, winner)

	// The state in the middle of the loser's statement: its body is written and not committed.
	other := w.session(t)
	bodyKey := driver.BodyKey("stripe", loser.BodyHash)
	w.in(t, other, "INSERT INTO {schema}.body_seen VALUES ($1, $2, now())", bodyKey[:], loser.Key[:])
	result := make(chan error, 1)
	go func() {
		got, err := w.Claim(t.Context(), &driver.ClaimParams{Claims: []driver.Claim{waiting}, LockTimeout: eventually.Bound})
		if err == nil && !got[0].Claimed {
			err = fmt.Errorf("got %+v, want it claimed", got[0])
		}
		result <- err
	}()
	w.awaitWaiting(t)
	if err := other.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-result; err != nil {
		t.Errorf("claim that waited for a body which no event holds: %v", err)
	}
	got, err := w.Claim(t.Context(), claimOf(third))
	want := []driver.ClaimResult{{Duplicate: true, RepeatOf: "waiting", RepeatOfKey: waiting.Key}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("claim after it: error %v, results differ (-want +got):\n%s", err, diff)
	}
}

// TestVoidBodyIsTakenOnce claims many ids at once with a body whose row names an event with another
// body.
func TestVoidBodyIsTakenOnce(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	for round := range 5 {
		holder := guardedClaim(fmt.Sprint("holder ", round), fmt.Sprint("its own body ", round), driver.BodyRefuse)
		w.mustClaim(t, true, holder)
		body := fmt.Sprint("void ", round)
		first := guardedClaim(fmt.Sprint("first ", round), body, driver.BodyRefuse)
		bodyKey := driver.BodyKey("stripe", first.BodyHash)
		w.exec(t, "INSERT INTO {schema}.body_seen VALUES ($1, $2, now())", bodyKey[:], holder.Key[:])
		results := map[string]driver.ClaimResult{}
		var mu sync.Mutex
		concurrently(t, 8, func(me int) error {
			c := guardedClaim(fmt.Sprint(body, " id ", me), body, driver.BodyRefuse)
			got, err := w.Claim(t.Context(), claimOf(c))
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				results[c.EventID] = got[0]
			}
			return err
		})
		checkOneFirst(t, driver.BodyRefuse, results)
	}
}

// TestContestedIDAndBody mixes few ids and few bodies at random over two stores. Afterwards exactly
// one event holds each body that was ever claimed or refused.
func TestContestedIDAndBody(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	stores := []*world{w, w.second(t)}
	const bodies = 6
	var mu sync.Mutex
	refusedFor := map[string]bool{} // bodies that were refused as seen before
	concurrently(t, 24, func(me int) error {
		for round := range 12 {
			body := fmt.Sprint("body ", (me+round)%bodies)
			c := guardedClaim(fmt.Sprint("id ", (me*7+round*3)%9), body, driver.BodyRefuse)
			got, err := stores[me%2].Claim(t.Context(), &driver.ClaimParams{Claims: []driver.Claim{c}, LockTimeout: eventually.Bound})
			if err != nil {
				return err
			}
			if !got[0].Claimed && got[0].RepeatOf != "" {
				mu.Lock()
				refusedFor[body] = true
				mu.Unlock()
			}
		}
		return nil
	})
	for body := range refusedFor {
		hash := sha256.Sum256([]byte(body))
		if n := w.number(t, "SELECT count(*) FROM {schema}.event WHERE body_sha256 = $1", hash[:]); n != 1 {
			t.Errorf("%q was refused as a repetition, and %d events hold it", body, n)
		}
	}
	if n := w.number(t, "SELECT coalesce(max(n), 0) FROM (SELECT count(*) AS n FROM {schema}.event GROUP BY body_sha256) AS x"); n != 1 {
		t.Errorf("a body is held by %d events", n)
	}
}
