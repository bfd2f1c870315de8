package hookpgx_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/group"
)

// TestPruneAgainstClaims claims the same few keys repeatedly while they are pruned, counted and
// listed. Nothing may fail, and no row may stay. Without a guard the plain statement claims.
func TestPruneAgainstClaims(t *testing.T) {
	t.Parallel()
	for _, guard := range []driver.BodyGuard{driver.BodyIgnore, driver.BodyWatch} {
		t.Run(fmt.Sprint("guard ", guard), func(t *testing.T) {
			t.Parallel()
			pruneAgainstClaims(t, guard)
		})
	}
}

func pruneAgainstClaims(t *testing.T, guard driver.BodyGuard) {
	w := open(t, nil)
	stores := []*world{w, w.second(t)}
	var all []driver.Claim
	for i := range 12 {
		c := newClaim(fmt.Sprint("evt_", i))
		c.BodyGuard = guard
		all = append(all, c)
	}
	all = sortedClaims(all...)
	var counts driver.CountDeliveriesParams
	for _, c := range all {
		counts.Counts = append(counts.Counts, driver.DeliveryCount{Key: c.Key, Duplicates: 1})
	}

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	pruning := make(chan error, 2)
	var pruned [2]int64
	for i := range pruned {
		go func() {
			for ctx.Err() == nil {
				result, err := stores[i].Prune(t.Context(), &driver.PruneParams{
					DedupeWindow: time.Microsecond, Retention: time.Microsecond, Chunk: 5,
				})
				if err != nil {
					pruning <- err
					return
				}
				pruned[i] += result.Events
			}
			pruning <- nil
		}()
	}
	claimed := 0
	var mu sync.Mutex
	concurrently(t, 4, func(me int) error {
		store := stores[me%2]
		several := func() bool {
			mu.Lock()
			defer mu.Unlock()
			return claimed > 3*len(all)
		}
		for round := 0; round < group.Rounds(20, 60) || !several(); round++ {
			got, err := store.Claim(t.Context(), &driver.ClaimParams{Claims: all, LockTimeout: eventually.Bound})
			if err != nil {
				return err
			}
			mu.Lock()
			for _, result := range got {
				if result.Claimed {
					claimed++
				}
			}
			mu.Unlock()
			if err := store.CountDeliveries(t.Context(), &counts); err != nil {
				return err
			}
		}
		return nil
	})
	stop()
	for range pruned {
		if err := <-pruning; err != nil {
			t.Errorf("Prune: %v", err)
		}
	}
	last, err := w.Prune(t.Context(), &driver.PruneParams{DedupeWindow: time.Microsecond, Retention: time.Microsecond})
	if err != nil {
		t.Fatal(err)
	}
	if total := pruned[0] + pruned[1] + last.Events; total != int64(claimed) || claimed <= len(all) {
		t.Errorf("%d events were claimed and %d pruned, want the same, and each key several times", claimed, total)
	}
	for _, table := range []string{"event", "event_state", "message", "attempt", "event_attempt", "delivery_count", "body_seen"} {
		if n := w.number(t, "SELECT count(*) FROM {schema}."+table); n != 0 {
			t.Errorf("%d rows are left in %s", n, table)
		}
	}
}

// TestPrunePassesOverLockedRows has sessions that lock rows of finished events. Those events stay
// whole, and the others go.
func TestPrunePassesOverLockedRows(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	var all []driver.Claim
	locks := map[string]string{
		"event":   "SELECT FROM {schema}.event WHERE key = $1 FOR KEY SHARE",
		"message": "SELECT FROM {schema}.message WHERE event_key = $1 AND route = 'b' FOR UPDATE",
		"state":   "SELECT FROM {schema}.event_state WHERE key = $1 FOR UPDATE",
		"free":    "",
		// Whoever settles lines changes places, and must never wait for pruning.
		"place":            "SELECT FROM {schema}.ordered_message WHERE event_key = $1 FOR UPDATE",
		"place of message": "SELECT FROM {schema}.ordered_message WHERE message_id IN (SELECT id FROM {schema}.message WHERE event_key = $1) FOR UPDATE",
	}
	for id := range locks {
		c := newClaim(id, "a", "b")
		c.Work = driver.WorkQueued
		if strings.HasPrefix(id, "place") {
			c.Order = &driver.Order{Line: driver.ObjectVersion{Object: driver.ObjectKey("stripe", "\n", id), Source: "stripe", Version: []byte{1}}}
			c.Messages[0].Order = c.Order
		}
		all = append(all, c)
		w.mustClaim(t, true, c)
	}
	w.exec(t, "UPDATE {schema}.message SET state = 2, sent_at = now()")
	w.exec(t, "UPDATE {schema}.event_state SET state = 2, processed_at = now()")
	session := w.session(t) // the pool is small
	for _, c := range all {
		if sql := locks[c.EventID]; sql != "" {
			w.in(t, session, sql, c.Key[:])
		}
	}
	future := time.Now().Add(time.Hour)
	p := &driver.PruneParams{DedupeWindow: time.Minute, Retention: time.Minute, Now: future, Chunk: 1}
	got, err := w.Prune(t.Context(), p)
	if err != nil || got.Events != 1 {
		t.Fatalf("Prune: got %+v and the error %v, want 1 event", got, err)
	}
	if n := w.number(t, "SELECT count(*) FROM {schema}.message") + w.number(t, "SELECT count(*) FROM {schema}.event_state"); n != 5*2+5 {
		t.Errorf("%d rows are left of five events, want 15", n)
	}
}

// TestCompleteAgainstComplete completes the same messages in different orders at once. One call
// ends each lease, and there is no deadlock.
func TestCompleteAgainstComplete(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	for i := range 30 {
		w.mustClaim(t, true, newClaim(fmt.Sprint("evt_", i), "billing"))
	}
	leased, err := w.Lease(t.Context(), &driver.LeaseParams{Destination: "to-billing", Limit: 100, For: time.Hour, MaxAttempts: 3})
	if err != nil || len(leased.Messages) != 30 {
		t.Fatalf("leased %+v, error %v", leased, err)
	}
	messages := leased.Messages
	ended := 0
	var mu sync.Mutex
	concurrently(t, 8, func(me int) error {
		var p driver.CompleteParams
		for i := range messages {
			m := messages[(i*(2*me+1)+me)%len(messages)]
			p.Completions = append(p.Completions, driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageSent})
		}
		held, err := w.Complete(t.Context(), &p)
		if errors.Is(err, driver.ErrSerialization) {
			return fmt.Errorf("a deadlock: %w", err)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, ok := range held {
			if ok {
				ended++
			}
		}
		return err
	})
	if ended != len(messages) {
		t.Errorf("%d leases were ended, want %d", ended, len(messages))
	}
	if n := w.number(t, "SELECT count(*) FROM {schema}.message WHERE sent_at IS NOT NULL AND attempts = 1"); n != len(messages) {
		t.Errorf("%d messages are sent, want %d", n, len(messages))
	}
}

// TestForgottenWindows checks that registered windows are removed after seven days, and that a row
// is written again only after some minutes.
func TestForgottenWindows(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	p := &driver.PruneParams{DedupeWindow: time.Hour, Retention: time.Hour, Sources: map[string]driver.SourceWindows{"stripe": {}}}
	register := func(at time.Time) {
		t.Helper()
		p.Now = at
		if err := w.RegisterWindows(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Now().Truncate(time.Microsecond)
	register(now)
	register(now.Add(time.Minute))
	if n := w.number(t, "SELECT count(*) FROM {schema}.source_window WHERE last_seen = $1", now); n != 2 {
		t.Errorf("%d rows are as they were written first, want 2", n)
	}
	register(now.Add(time.Hour))
	delete(p.Sources, "stripe")
	register(now.Add(2 * time.Hour))
	p.Now = now.Add(driver.WindowsHold + time.Hour)
	if _, err := w.Prune(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if n := w.number(t, "SELECT count(*) FROM {schema}.source_window WHERE source = ''"); n != 1 {
		t.Errorf("%d rows for other sources, want 1", n)
	}
	if n := w.number(t, "SELECT count(*) FROM {schema}.source_window"); n != 1 {
		t.Errorf("%d rows are left, want 1", n)
	}
}

// TestTurnLost stops a call in its turn, between the reading of the windows and the first chunk, and lets
// another process have the turn. The call removes nothing when it goes on, and leaves nothing to the next
// one.
func TestTurnLost(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	w.mustClaim(t, true, newClaim("evt_1"))
	stop := w.session(t)
	if _, err := stop.Exec(t.Context(), strings.ReplaceAll("LOCK TABLE {schema}.source_window IN ACCESS EXCLUSIVE MODE", "{schema}", w.schema)); err != nil {
		t.Fatal(err)
	}
	p := &driver.PruneParams{DedupeWindow: time.Minute, Retention: time.Minute, Now: time.Now().Add(time.Hour)}
	ended := make(chan error, 1)
	go func() {
		_, err := w.Prune(t.Context(), p)
		ended <- err
	}()
	w.awaitWaiting(t)
	const turn = "SELECT count(*) FROM {schema}.prune_turn WHERE until > now() AND state = ''"
	if n := w.number(t, turn); n != 1 {
		t.Fatalf("%d turns last, want one", n)
	}
	w.exec(t, "UPDATE {schema}.prune_turn SET fence = fence + 1") // as another process does when the minute is over
	if err := stop.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, driver.ErrTurnLost) {
		t.Errorf("Prune returned %v, want %v", err, driver.ErrTurnLost)
	}
	if n := w.number(t, "SELECT count(*) FROM {schema}.event"); n != 1 {
		t.Errorf("%d events are left, want the one", n)
	}
	if n := w.number(t, turn); n != 1 {
		t.Error("the call that lost the turn ended the turn of the other")
	}
}

// TestTurnOfADeadProcess leaves a turn as a killed process leaves it. No other call prunes until it is over.
// A turn that ends far ahead is from before the clock was set back.
func TestTurnOfADeadProcess(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	prune := func() int64 {
		t.Helper()
		w.mustClaim(t, true, newClaim("evt_1"))
		got, err := w.Prune(t.Context(), &driver.PruneParams{
			DedupeWindow: time.Minute, Retention: time.Minute, Now: time.Now().Add(time.Hour), Background: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		w.exec(t, "DELETE FROM {schema}.event")
		return got.Events
	}
	for _, step := range []struct {
		sql  string
		want int64
	}{
		{"", 1},
		{"UPDATE {schema}.prune_turn SET until = now() + interval '1 minute'", 0},
		{"UPDATE {schema}.prune_turn SET until = now() - interval '1 second', state = ''", 1},
		{"UPDATE {schema}.prune_turn SET until = now() + interval '1 day', state = ''", 1},
		{"DELETE FROM {schema}.prune_turn", 1},
	} {
		if step.sql != "" {
			w.exec(t, step.sql)
		}
		if got := prune(); got != step.want {
			t.Errorf("after %q: %d events were pruned, want %d", step.sql, got, step.want)
		}
	}
}

// plansOfPruning has many old events that stay because they are unfinished, or were finished late. Passes in the
// background must not read them all each time.
func plansOfPruning(t *testing.T) {
	t.Parallel()
	for name, fill := range map[string]func(*testing.T, *world){
		"unfinished":     func(t *testing.T, w *world) { claimOld(t, w, queued) },
		"processed late": takeMany,
		"sent late":      leaseMany,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, plans := openExplained(t, nil)
			fill(t, w)
			p := &driver.PruneParams{DedupeWindow: 50 * time.Minute, Retention: 50 * time.Minute, Background: true}
			readsFew(t, plans, func(int) error {
				_, err := w.Prune(t.Context(), p)
				return err
			})
			if n := w.number(t, "SELECT count(*) FROM {schema}.event"); n != finishedRows {
				t.Errorf("%d events are left, want all %d", n, finishedRows)
			}
		})
	}
}

// A step after those for events fails in each pass. Events are looked at again nevertheless, and the turn is given
// back. The clock may change later.
func TestPruneThatFailsLate(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	w.mustClaim(t, true, newClaim("old"))
	w.exec(t, "ALTER TABLE {schema}.refused RENAME TO refused_away")
	result, err := w.Prune(t.Context(), &driver.PruneParams{DedupeWindow: time.Microsecond, Retention: time.Microsecond, Background: true})
	if err == nil || result == nil || result.Events != 1 || !result.Further {
		t.Errorf("removed %+v, error %v; want one event and an error", result, err)
	}
	if n := w.number(t, `SELECT count(*) FROM {schema}.prune_turn
		WHERE until = '-infinity' AND NOT state::jsonb ? 'since' AND state::jsonb ? 'next'`); n != 1 {
		t.Error("the turn lasts, or the look at everything counts as unfinished")
	}
}
