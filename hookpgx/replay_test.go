package hookpgx_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookpgx"
	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/group"
)

// mustClaimDead claims an event and makes all its messages dead.
func (w *world) mustClaimDead(t *testing.T, id string, routes ...string) driver.Claim {
	t.Helper()
	c := newClaim(id, routes...)
	w.mustClaim(t, true, c)
	w.exec(t, "UPDATE {schema}.message SET state = 3, failed_at = now() WHERE event_key = $1", c.Key[:])
	return c
}

func letterOf(c *driver.Claim) *driver.DeadLetterParams {
	return &driver.DeadLetterParams{Letters: []driver.DeadLetterRef{{Key: c.Key, MessageID: c.Messages[0].ID}}}
}

// TestReplayBehindLocks has another session lock rows that a replay needs. A replay of one event
// waits and gives up; a replay of many letters passes over the rows.
func TestReplayBehindLocks(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	c := w.mustClaimDead(t, "evt_1", "billing")
	before, err := w.Event(t.Context(), "stripe", "evt_1")
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		"SELECT FROM {schema}.event WHERE key = $1 FOR NO KEY UPDATE",
		"SELECT FROM {schema}.message WHERE event_key = $1 FOR UPDATE",
	} {
		t.Run(sql, func(t *testing.T) {
			other := w.session(t)
			w.in(t, other, sql, c.Key[:])
			_, err := w.Replay(t.Context(), &driver.ReplayParams{Key: c.Key})
			wantLockTimeout(t, "Replay", err)
			wantLockTimeout(t, "RetryMessage", w.RetryMessage(t.Context(), &driver.RetryMessageParams{ID: c.Messages[0].ID}))
			for name, f := range map[string]func() ([]bool, error){
				"ReplayDead": func() ([]bool, error) { return w.ReplayDead(t.Context(), letterOf(&c)) },
				"Discard":    func() ([]bool, error) { return w.Discard(t.Context(), letterOf(&c)) },
			} {
				done, err := f()
				if diff := cmp.Diff([]bool{false}, done); err != nil || diff != "" {
					t.Errorf("%s: got %v and the error %v, want it passed over", name, done, err)
				}
			}
			if err := other.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	}
	after, err := w.Event(t.Context(), "stripe", "evt_1")
	if diff := cmp.Diff(before, after); err != nil || diff != "" {
		t.Errorf("error %v; the event was changed (-before +after):\n%s", err, diff)
	}
}

func wantLockTimeout(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, driver.ErrLockTimeout) || errors.Is(err, driver.ErrCommitUnknown) {
		t.Errorf("%s: got the error %v, want %v", what, err, driver.ErrLockTimeout)
	}
}

// TestOpenReplay stops a replay right before its end, behind an uncommitted record of the same
// request in another session. Its locks block no claim, and pruning passes over the event.
func TestOpenReplay(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	c := newClaim("evt_1")
	w.mustClaim(t, true, c)
	prune := &driver.PruneParams{DedupeWindow: time.Minute, Retention: time.Minute}
	if _, err := w.Prune(t.Context(), prune); err != nil { // plans the statements, so that the next call is quick
		t.Fatal(err)
	}
	other := w.session(t)
	w.in(t, other, "INSERT INTO {schema}.history (event_key, at, action, generation, request_id)"+
		" VALUES ($1, now(), 'replayed', 0, 'once')", c.Key[:])
	replayed := make(chan error, 1)
	go func() {
		for {
			_, err := w.Replay(t.Context(), &driver.ReplayParams{
				Key: c.Key, Mode: driver.ReplaySameID, RequestID: "once", Routes: newClaim("evt_1", "billing").Messages,
			})
			if !errors.Is(err, driver.ErrLockTimeout) { // after a second, which a slow machine needs
				replayed <- err
				return
			}
		}
	}()
	w.awaitWaiting(t)

	got, err := w.Claim(t.Context(), &driver.ClaimParams{
		Claims: sortedClaims(c, newClaim("evt_2")), LockTimeout: time.Millisecond,
	})
	if err != nil || len(got) != 2 || got[0].Claimed == got[1].Claimed {
		t.Errorf("Claim while a replay is open: got %+v and the error %v, want one duplicate", got, err)
	}
	prune.Now = time.Now().Add(time.Hour)
	pruned, err := w.Prune(t.Context(), prune)
	if err != nil || pruned.Events != 1 || pruned.Bodies != 0 {
		t.Errorf("Prune while a replay is open: got %+v and the error %v, want the other event gone", pruned, err)
	}
	select {
	case err := <-replayed:
		t.Fatalf("Replay did not stay open: %v", err)
	default:
	}
	if err := other.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-replayed; err != nil {
		t.Errorf("Replay: %v", err)
	}
	if n := w.number(t, "SELECT count(*) FROM {schema}.message WHERE event_key = $1 AND state = 0", c.Key[:]); n != 1 {
		t.Errorf("%d messages are due after the replay, want 1", n)
	}
}

// TestReplayBehindPruning replays an event while pruning removes its body or the whole event. The
// replay waits for pruning and finds out.
func TestReplayBehindPruning(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	for _, test := range []struct {
		name, sql string
		want      error
	}{
		{"body", "UPDATE {schema}.event SET body = NULL, headers = NULL WHERE key = $1", driver.ErrBodyPruned},
		{"identity", "DELETE FROM {schema}.event WHERE key = $1", driver.ErrNotFound},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newClaim(test.name, "billing")
			w.mustClaim(t, true, c)
			w.exec(t, "UPDATE {schema}.message SET state = 4 WHERE event_key = $1", c.Key[:])
			failed := make(chan error, 2)
			other := w.session(t)
			w.in(t, other, test.sql, c.Key[:])
			go func() {
				_, err := w.Replay(t.Context(), &driver.ReplayParams{Key: c.Key, Mode: driver.ReplayAsNew})
				failed <- err
			}()
			go func() {
				failed <- w.RetryMessage(t.Context(), &driver.RetryMessageParams{ID: c.Messages[0].ID})
			}()
			w.awaitWaitingFor(t, 2)
			if err := other.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := <-failed; !errors.Is(err, test.want) || errors.Is(err, driver.ErrCommitUnknown) {
					t.Errorf("got the error %v, want %v", err, test.want)
				}
			}
		})
	}
}

// TestRetryBehindANewLife retries a message whose event is pruned and claimed again with another
// route before the retry locks it. The message is gone.
func TestRetryBehindANewLife(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	c := newClaim("evt_1", "billing")
	w.mustClaim(t, true, c)
	w.exec(t, "UPDATE {schema}.message SET state = 4 WHERE event_key = $1", c.Key[:])
	other := w.session(t)
	if _, err := other.Exec(t.Context(), "LOCK TABLE "+w.schema+".event"); err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	go func() { failed <- w.RetryMessage(t.Context(), &driver.RetryMessageParams{ID: c.Messages[0].ID}) }()
	w.awaitWaiting(t) // it has read the message, and waits to lock the event
	w.in(t, other, "DELETE FROM {schema}.message WHERE event_key = $1", c.Key[:])
	w.in(t, other, "INSERT INTO {schema}.message (id, event_key, generation, route, destination, received_at, due_at, created_at)"+
		" VALUES ($1, $2, 0, 'audit', 'to-audit', now(), now(), now())", newClaim("evt_1", "audit").Messages[0].ID, c.Key[:])
	if err := other.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; !errors.Is(err, driver.ErrNotFound) {
		t.Errorf("RetryMessage: got the error %v, want %v", err, driver.ErrNotFound)
	}
	if n := w.number(t, "SELECT count(*) FROM {schema}.history"); n != 0 {
		t.Errorf("%d entries in the history, want none", n)
	}
}

// TestLostCommitReplyOfReplay loses the reply to the commit of a replay. A second call with the
// same request id returns the result of the first. A replay whose connection is lost before the
// commit did not happen.
func TestLostCommitReplyOfReplay(t *testing.T) {
	t.Parallel()
	w, direct, proxy := proxied(t)
	c := direct.mustClaimDead(t, "evt_1", "billing")
	p := &driver.ReplayParams{Key: c.Key, RequestID: "once"}

	proxy.DropReply("INSERT INTO", dbtest.CutReset)
	if _, err := w.Replay(t.Context(), p); !errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrCommitUnknown) {
		t.Fatalf("Replay that was cut off before its commit: got the error %v, want %v", err, driver.ErrUnavailable)
	}
	// The NUL ends the text: "begin isolation level read committed" holds "commit" too.
	drop := proxy.DropReply("commit\x00", dbtest.CutReset)
	if _, err := w.Replay(t.Context(), p); !errors.Is(err, driver.ErrCommitUnknown) {
		t.Fatalf("Replay whose commit's reply was lost: got the error %v, want %v", err, driver.ErrCommitUnknown)
	}
	eventually.Receive(t, "the server answers", drop.Done())
	got, err := w.Replay(t.Context(), p)
	if diff := cmp.Diff(&driver.Replayed{Generation: 1, Messages: 1, Repeated: true}, got); err != nil || diff != "" {
		t.Errorf("Replay again: error %v, result differs (-want +got):\n%s", err, diff)
	}
	if n := direct.number(t, "SELECT count(*) FROM {schema}.history"); n != 1 {
		t.Errorf("%d replays are in the history, want 1", n)
	}
}

// TestOperatorsAgainstWork replays, discards, retries, reopens, sends, counts and prunes the same
// few events at once, over two stores. There may be no deadlock, and no other failure than a lock
// timeout.
func TestOperatorsAgainstWork(t *testing.T) {
	t.Parallel()
	config, err := pgxpool.ParseConfig(migrated(t).DSN()) // its count of deadlocks must stay 0
	if err != nil {
		t.Fatal(err)
	}
	patient(config)
	w := connectWith(t, config, hookpgx.DefaultSchema, nil)
	stores := []*world{w, w.second(t)}
	var all []driver.Claim
	var keys []driver.Key
	letters := &driver.DeadLetterParams{}
	for i := range 12 {
		c := newClaim(fmt.Sprint("evt_", i), "billing", "audit")
		all, keys = append(all, c), append(keys, c.Key)
		for _, m := range c.Messages {
			letters.Letters = append(letters.Letters, driver.DeadLetterRef{Key: c.Key, MessageID: m.ID})
		}
	}
	all = sortedClaims(all...)
	var counts driver.CountDeliveriesParams
	for _, c := range all {
		counts.Counts = append(counts.Counts, driver.DeliveryCount{Key: c.Key, Duplicates: 1})
	}
	do := []func(s *world, round int) error{
		func(s *world, round int) error {
			_, err := s.Claim(t.Context(), &driver.ClaimParams{Claims: all, LockTimeout: eventually.Bound})
			return err
		},
		func(s *world, round int) error { return sendSome(t, s, round) },
		func(s *world, round int) error { return sendSome(t, s, round+1) },
		func(s *world, round int) error {
			_, err := s.Replay(t.Context(), &driver.ReplayParams{Key: keys[round%len(keys)], Mode: driver.ReplayMode(round % 3)})
			return err
		},
		func(s *world, round int) error {
			return s.RetryMessage(t.Context(), &driver.RetryMessageParams{ID: letters.Letters[round%len(letters.Letters)].MessageID})
		},
		func(s *world, _ int) error { _, err := s.ReplayDead(t.Context(), letters); return err },
		func(s *world, _ int) error { _, err := s.Discard(t.Context(), letters); return err },
		func(s *world, _ int) error {
			_, _, err := s.Reopen(t.Context(), &driver.ReopenParams{Keys: keys})
			return err
		},
		func(s *world, _ int) error { return s.CountDeliveries(t.Context(), &counts) },
		func(s *world, _ int) error {
			_, err := s.Prune(t.Context(), &driver.PruneParams{DedupeWindow: time.Millisecond, Retention: time.Millisecond, Chunk: 5})
			return err
		},
	}
	rounds := group.Rounds(15, 60)
	worked := make([]atomic.Int32, len(do))
	// A call may need what another one makes, so all go on until each has had its turn.
	allWorked := func() bool {
		for i := range worked {
			if worked[i].Load() == 0 {
				return false
			}
		}
		return true
	}
	concurrently(t, 2*len(do), func(me int) error {
		for round, began := 0, time.Now(); round < rounds || !allWorked() && time.Since(began) < eventually.Bound; round++ {
			err := do[me%len(do)](stores[me/len(do)], round)
			if err != nil && !refusedReplay(err) {
				return fmt.Errorf("worker %d, round %d: %w", me, round, err)
			}
			if err == nil {
				worked[me%len(do)].Add(1)
			}
		}
		return nil
	})
	for i := range worked {
		if worked[i].Load() == 0 {
			t.Errorf("worker %d was refused each time", i)
		}
	}
	if n := w.number(t, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"); n != 0 {
		t.Errorf("%d deadlocks", n)
	}
	if n := w.number(t, "SELECT count(*) FROM {schema}.message m JOIN {schema}.event e ON e.key = m.event_key"+
		" WHERE m.state IN (0, 1, 3) AND e.body IS NULL"); n != 0 {
		t.Errorf("%d open messages have no body", n)
	}

	w.exec(t, "UPDATE {schema}.message SET state = 2")
	if _, err := w.Prune(t.Context(), &driver.PruneParams{DedupeWindow: time.Microsecond, Retention: time.Microsecond, Now: time.Now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"event", "message", "attempt", "history", "delivery_count"} {
		if n := w.number(t, "SELECT count(*) FROM {schema}."+table); n != 0 {
			t.Errorf("%d rows are left in %s", n, table)
		}
	}
}

// sendSome leases messages and gives each an outcome.
func sendSome(t *testing.T, w *world, round int) error {
	leased, err := w.Lease(t.Context(), &driver.LeaseParams{
		Destination: []string{"to-billing", "to-audit"}[round%2], Limit: 7, For: time.Hour, MaxAttempts: 3,
	})
	if err != nil {
		return err
	}
	p := &driver.CompleteParams{}
	for i, m := range leased.Messages {
		p.Completions = append(p.Completions, driver.Completion{
			ID: m.ID, Token: m.Token, Outcome: []driver.MessageOutcome{driver.MessageSent, driver.MessageDead, driver.MessageRetry}[(i+round)%3],
		})
	}
	_, err = w.Complete(t.Context(), p)
	return err
}

// refusedReplay reports whether a call did not fit the present state of its event.
func refusedReplay(err error) bool {
	for _, want := range []error{
		driver.ErrNotFound, driver.ErrOpen, driver.ErrSent, driver.ErrModeNeeded, driver.ErrBodyPruned,
		driver.ErrNoRoute, driver.ErrLockTimeout,
	} {
		if errors.Is(err, want) {
			return true
		}
	}
	return false
}

// TestReplayWhileBodiesArePruned replays events while retention removes their bodies. Pruning must
// also see a replay that ends between its look at an event and its lock of the row: an open message
// has its body.
func TestReplayWhileBodiesArePruned(t *testing.T) {
	t.Parallel()
	const events = 200
	rounds := group.Rounds(4, 10)
	w := open(t, nil)
	replayed := 0
	for round := range rounds {
		var claims []driver.Claim
		for i := range events {
			claims = append(claims, newClaim(fmt.Sprintf("evt_%d_%d", round, i), "billing"))
		}
		slices.SortFunc(claims, func(a, b driver.Claim) int { return bytes.Compare(a.Key[:], b.Key[:]) })
		if _, err := w.Claim(t.Context(), claimOf(claims...)); err != nil {
			t.Fatal(err)
		}
		w.exec(t, "UPDATE {schema}.message SET state = 2, sent_at = now() WHERE state = 0")
		var count atomic.Int64
		concurrently(t, 5, func(me int) error {
			if me == 0 {
				_, err := w.Prune(t.Context(), &driver.PruneParams{
					DedupeWindow: 24 * time.Hour, Retention: time.Hour, Now: time.Now().Add(2 * time.Hour), Chunk: events,
				})
				return err
			}
			for i := me - 1; i < events; i += 4 {
				_, err := w.Replay(t.Context(), &driver.ReplayParams{Key: claims[i].Key, Mode: driver.ReplaySameID})
				if err == nil {
					count.Add(1)
				} else if !errors.Is(err, driver.ErrBodyPruned) {
					return err
				}
			}
			return nil
		})
		replayed += int(count.Load())
		if n := w.number(t, "SELECT count(*) FROM {schema}.message m JOIN {schema}.event e ON e.key = m.event_key WHERE m.state = 0 AND e.body IS NULL"); n != 0 {
			t.Fatalf("round %d: %d open messages have no body", round, n)
		}
		w.exec(t, "UPDATE {schema}.message SET state = 2 WHERE state = 0")
	}
	if replayed == 0 || replayed == rounds*events {
		t.Errorf("%d of %d events were replayed: pruning and replaying did not meet", replayed, rounds*events)
	}
}
