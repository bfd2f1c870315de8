package storetest

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/hookonce/hookonce/driver"
)

func healthCases() []testCase {
	return []testCase{
		{"Now", healthNow},
		{"Weaknesses", healthWeaknesses},
		{"CancelledContext", healthCancelled},
		{"Migrated", healthMigrated},
		{"Prove", healthProve},
	}
}

// clock returns the database's time.
func (f *fixture) clock() time.Time {
	f.Helper()
	now, err := f.s.Now(f.Context())
	if err != nil {
		f.Fatalf("Now: %v", err)
	}
	return now
}

func healthNow(f *fixture) {
	first := f.clock()
	if off := time.Since(first).Abs(); off > time.Minute {
		f.Errorf("the database's clock is %v, %v off", first, off)
	}
	if second := f.clock(); second.Before(first) {
		f.Errorf("the database's clock went from %v back to %v", first, second)
	}
}

func healthWeaknesses(f *fixture) {
	got, err := f.s.Weaknesses(f.Context())
	if err != nil || len(got) > 0 {
		f.Errorf("Weaknesses: got %+v and the error %v, want none", got, err)
	}
	if found, err := f.s.ForeignTriggers(f.Context()); err != nil || len(found) > 0 {
		f.Errorf("ForeignTriggers: got %q and the error %v, want none", found, err)
	}
}

// healthProve tests that a proof leaves nothing, also beside others.
func healthProve(f *fixture) {
	const n = 8
	errs := make(chan error, n)
	for range n {
		go func() {
			_, err := f.s.Prove(f.Context())
			errs <- err
		}()
	}
	for range n {
		if err := <-errs; err != nil {
			f.Errorf("Prove: %v", err)
		}
	}
	if page := f.events(&driver.EventFilter{}); len(page.Events) > 0 {
		f.Errorf("Prove left events: %+v", page.Events)
	}
}

// healthCancelled calls every method with a cancelled context. Each must return an error, change
// nothing, and leave the store usable.
func healthCancelled(f *fixture) {
	dead := newClaim("stripe", "dead", "{}", "billing")
	open := newClaim("stripe", "open", "{}", "audit")
	queued := newQueued("queued")
	f.claimNew(t0, dead, open, queued)
	f.kill(t0, "to-billing")
	held := f.leaseOne(t0, "to-audit")
	before := []*driver.EventDetail{f.event("stripe", "dead"), f.event("stripe", "open")}

	later := t0.Add(10 * leaseFor)
	cancelled, cancel := context.WithCancel(f.Context())
	cancel()
	late, cancel := context.WithDeadline(f.Context(), time.Unix(1, 0))
	defer cancel()
	calls := everyMethod(f.s, dead.Key, held, later)
	maps.Copy(calls, everyOperation(f.s, letter(&dead, 0), later))
	maps.Copy(calls, everyWork(f.s, later))
	for name, call := range calls {
		for _, ctx := range []context.Context{cancelled, late} {
			if err := call(ctx); !errors.Is(err, driver.ErrUnavailable) && !errors.Is(err, driver.ErrCommitUnknown) {
				f.Errorf("%s with %v returned the error %v, want %v or %v", name, ctx.Err(), err, driver.ErrUnavailable, driver.ErrCommitUnknown)
			}
		}
	}
	f.absent("stripe", "new")
	f.sameEvent(claimed(&queued, t0))
	for _, want := range before {
		f.sameEvent(want)
	}
	same(f, "pruned", driver.PruneResult{}, f.prune(windows(time.Second, later)))
	f.mustComplete(later, driver.Completion{ID: held.ID, Token: held.Token, Outcome: driver.MessageSent})
}

// everyMethod returns a call of every method that takes a context. Each call would change or find
// something: dead is an event that can be reopened, and held is an expired lease.
func everyMethod(s driver.Store, dead driver.Key, held driver.Message, later time.Time) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"Prove": func(ctx context.Context) error { _, err := s.Prove(ctx); return err },
		"Claim": func(ctx context.Context) error {
			_, err := s.Claim(ctx, &driver.ClaimParams{Claims: []driver.Claim{newClaim("stripe", "new", "{}")}, Now: later})
			return err
		},
		"Reopen": func(ctx context.Context) error {
			_, _, err := s.Reopen(ctx, &driver.ReopenParams{Keys: []driver.Key{dead}, Now: later})
			return err
		},
		"CountDeliveries": func(ctx context.Context) error {
			return s.CountDeliveries(ctx, &driver.CountDeliveriesParams{Counts: []driver.DeliveryCount{{Key: held.Key, Duplicates: 1}}, Now: later})
		},
		"Quarantine": func(ctx context.Context) error {
			return s.Quarantine(ctx, &driver.QuarantineParams{Requests: []driver.Quarantined{{Source: "stripe", Headers: []byte("{}"), Reason: "no id"}}, Now: t0})
		},
		"Lease": func(ctx context.Context) error {
			_, err := s.Lease(ctx, &driver.LeaseParams{Destination: "to-audit", Limit: 1, For: leaseFor, MaxAttempts: 9, Now: later})
			return err
		},
		"Complete": func(ctx context.Context) error {
			_, err := s.Complete(ctx, &driver.CompleteParams{Completions: []driver.Completion{{ID: held.ID, Token: held.Token, Outcome: driver.MessageSent}}, Now: later})
			return err
		},
		"Release": func(ctx context.Context) error {
			return s.Release(ctx, &driver.ReleaseParams{Leases: []driver.MessageLease{{ID: held.ID, Token: held.Token}}, Now: later})
		},
		"Events":          func(ctx context.Context) error { _, err := s.Events(ctx, &driver.EventFilter{}); return err },
		"Event":           func(ctx context.Context) error { _, err := s.Event(ctx, "stripe", "dead"); return err },
		"Prune":           func(ctx context.Context) error { _, err := s.Prune(ctx, windows(time.Second, later)); return err },
		"Weaknesses":      func(ctx context.Context) error { _, err := s.Weaknesses(ctx); return err },
		"ForeignTriggers": func(ctx context.Context) error { _, err := s.ForeignTriggers(ctx); return err },
		"RegisterWindows": func(ctx context.Context) error { return s.RegisterWindows(ctx, windows(time.Second, later)) },
		"Now":             func(ctx context.Context) error { _, err := s.Now(ctx); return err },
		"Applied":         func(ctx context.Context) error { _, err := s.Applied(ctx); return err },
		"Apply":           func(ctx context.Context) error { _, err := s.Apply(ctx); return err },
	}
}

// everyOperation is everyMethod for operators' methods. dead is a dead letter.
func everyOperation(s driver.Store, dead driver.DeadLetterRef, later time.Time) map[string]func(context.Context) error {
	letters := &driver.DeadLetterParams{Letters: []driver.DeadLetterRef{dead}, Now: later}
	return map[string]func(context.Context) error{
		"Replay": func(ctx context.Context) error {
			_, err := s.Replay(ctx, &driver.ReplayParams{Key: dead.Key, RequestID: "r", Now: later})
			return err
		},
		"ReplayDead": func(ctx context.Context) error { _, err := s.ReplayDead(ctx, letters); return err },
		"Discard":    func(ctx context.Context) error { _, err := s.Discard(ctx, letters); return err },
		"RetryMessage": func(ctx context.Context) error {
			return s.RetryMessage(ctx, &driver.RetryMessageParams{ID: dead.MessageID, Now: later})
		},
		"DeadLetters": func(ctx context.Context) error { _, err := s.DeadLetters(ctx, &driver.MessageFilter{}); return err },
		"Messages":    func(ctx context.Context) error { _, err := s.Messages(ctx, &driver.MessageFilter{}); return err },
		"Quarantined": func(ctx context.Context) error { _, err := s.Quarantined(ctx, &driver.QuarantineFilter{}); return err },
		"QuarantinedRequest": func(ctx context.Context) error {
			_, err := s.QuarantinedRequest(ctx, dead.Key)
			return err
		},
		"SettleQuarantined": func(ctx context.Context) error {
			_, err := s.SettleQuarantined(ctx, &driver.SettleQuarantinedParams{Key: dead.Key})
			return err
		},
		"Stats": func(ctx context.Context) error { _, err := s.Stats(ctx); return err },
		"Backlog": func(ctx context.Context) error {
			_, err := s.Backlog(ctx, &driver.BacklogParams{Sources: []string{"stripe"}, Limit: 1})
			return err
		},
	}
}

// everyWork is everyMethod for the methods behind handlers.
func everyWork(s driver.Store, later time.Time) map[string]func(context.Context) error {
	queued := driver.TakenEvent{Key: driver.EventKey("stripe", "queued")}
	return map[string]func(context.Context) error{
		"DueDestinations": func(ctx context.Context) error {
			_, err := s.DueDestinations(ctx, []string{"to-audit"})
			return err
		},
		"DueSources": func(ctx context.Context) error { _, err := s.DueSources(ctx, []string{"stripe"}); return err },
		"Reserve": func(ctx context.Context) error {
			_, err := s.Reserve(ctx, &driver.ReserveParams{Source: "stripe", Types: []string{"*"}, Limit: 1, For: time.Hour, Now: later})
			return err
		},
		"RecordReserved": func(ctx context.Context) error {
			return s.RecordReserved(ctx, &driver.FinishParams{Results: []driver.WorkResult{failed(&queued)}, Now: later})
		},
		"PullBack": func(ctx context.Context) error {
			_, _, err := s.PullBack(ctx, &driver.PullBackParams{Sources: []string{"stripe"}, Destinations: []string{"to-audit"}, Limit: 1, Now: t0.Add(-365 * day)})
			return err
		},
		"SweepRuns": func(ctx context.Context) error { _, err := s.SweepRuns(ctx, sweepParams(later)); return err },
		"Versions":  func(ctx context.Context) error { _, err := s.Versions(ctx, objectKeys("a")); return err },
		"CountInlineFailure": func(ctx context.Context) error {
			_, err := s.CountInlineFailure(ctx, inlineFailure(later, newInline("new"), 1))
			return err
		},
		"FileInlineFailures": func(ctx context.Context) error {
			_, err := s.FileInlineFailures(ctx, &driver.FileFailuresParams{OlderThan: time.Hour, Limit: 1, Now: later})
			return err
		},
	}
}

func healthMigrated(f *fixture) {
	want := f.known()
	for i, m := range f.s.Migrations() {
		if m.Version != i+1 || m.Name == "" || m.SQL == "" {
			f.Errorf("migration %d is %+v, want version %d, a name and SQL", i, m, i+1)
		}
	}
	if len(want) == 0 {
		f.Fatal("the store knows no migrations")
	}
	f.claimNew(t0, newClaim("stripe", "evt_1", "{}"))
	for range 2 {
		same(f, "applied steps", want, f.applied())
		steps, err := f.s.Apply(f.Context())
		if err != nil {
			f.Fatalf("Apply: %v", err)
		}
		same(f, "steps taken", []driver.Migration(nil), steps)
	}
	f.event("stripe", "evt_1") // nothing was lost
}
