package storetest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
)

// WatchCommitsSQL makes PostgreSQL write into the table commit_level how each commit of a row waits
// for the disk. {schema} stands for the schema.
const WatchCommitsSQL = `
CREATE TABLE {schema}.commit_level (level text NOT NULL, source text NOT NULL);
CREATE FUNCTION {schema}.watch_commit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO {schema}.commit_level VALUES (current_setting('synchronous_commit'), TG_TABLE_NAME);
	RETURN NULL;
END
$$;
DO $$
DECLARE
	watched text;
BEGIN
	FOREACH watched IN ARRAY ARRAY['event', 'event_state', 'message', 'quarantine', 'inline_failure', 'armed_source', 'learned_secret', 'paused_destination'] LOOP
		EXECUTE format('CREATE CONSTRAINT TRIGGER watch_commit AFTER INSERT OR UPDATE ON {schema}.%I
			DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION {schema}.watch_commit()', watched);
	END LOOP;
END
$$`

// WeakenSQL are the statements for Durable.Weaken. The triggers of earlier rows must not see the new
// level, which is not that of the commit.
var WeakenSQL = []string{
	"SET CONSTRAINTS ALL IMMEDIATE", "SET CONSTRAINTS ALL DEFERRED", "SET LOCAL synchronous_commit = off",
}

// Durable holds the functions that ExerciseDurable needs besides those of a Harness.
type Durable[T any] struct {
	// Weaken sets synchronous_commit to off in a transaction, by WeakenSQL.
	Weaken func(ctx context.Context, tx T) error
	// Levels empties the table of WatchCommitsSQL and returns its levels, each once.
	Levels func(t *testing.T, d driver.Driver[T]) []string
}

// ExerciseDurable runs every operation whose commit is a promise, on a PostgreSQL whose sessions have
// synchronous_commit = off, and expects each commit to wait for the disk. Open must have run
// WatchCommitsSQL.
func ExerciseDurable[T any](t *testing.T, h Harness[T], more Durable[T]) {
	t.Helper()
	d := h.Open(t)
	w := &bench[T]{fixture: &fixture{T: t, s: d}, d: d, h: h}
	for _, step := range durableSteps(w, more) {
		if err := step.run(t.Context()); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if diff := cmp.Diff([]string{"on"}, more.Levels(t, d)); diff != "" {
			t.Errorf("%s: synchronous_commit at its commits (-want +got):\n%s", step.name, diff)
		}
	}
}

type durableStep struct {
	name string
	run  func(ctx context.Context) error
}

func durableSteps[T any](w *bench[T], more Durable[T]) []durableStep {
	return slices.Concat(durableClaims(w, more), durableWork(w, more), durableMessages(w), durableRest(w))
}

func durableClaims[T any](w *bench[T], more Durable[T]) []durableStep {
	claim := func(c driver.Claim) *driver.ClaimParams { return &driver.ClaimParams{Claims: []driver.Claim{c}} }
	return []durableStep{
		{"Claim", func(ctx context.Context) error {
			_, err := w.d.Claim(ctx, claim(newClaim("stripe", "routed", "{}", "billing")))
			return err
		}},
		{"ClaimTx", func(ctx context.Context) error {
			tx, commit, _ := w.h.Begin(w.T, w.d)
			if _, err := w.d.ClaimTx(ctx, tx, claim(newInline("in a transaction"))); err != nil {
				return err
			}
			return commit()
		}},
		{"TakeClaim with a handler that weakens its transaction", func(ctx context.Context) error {
			run, _, err := w.d.TakeClaim(ctx, claim(newInline("inline")))
			if err != nil {
				return err
			}
			if err := more.Weaken(ctx, run.Tx()); err != nil {
				return err
			}
			return run.Finish(ctx, &driver.FinishParams{Results: []driver.WorkResult{
				{Key: driver.EventKey("stripe", "inline"), Outcome: driver.WorkSucceeded},
			}})
		}},
		{"CountInlineFailure", func(ctx context.Context) error {
			_, err := w.d.CountInlineFailure(ctx, &driver.InlineFailure{Claim: newInline("failing"), Error: "it failed", Limit: 2})
			return err
		}},
		{"the last CountInlineFailure", func(ctx context.Context) error {
			_, err := w.d.CountInlineFailure(ctx, &driver.InlineFailure{Claim: newInline("failing"), Error: "it failed", Limit: 2})
			return err
		}},
		{"Reopen", func(ctx context.Context) error {
			keys, _, err := w.d.Reopen(ctx, &driver.ReopenParams{Keys: []driver.Key{driver.EventKey("stripe", "failing")}})
			if err == nil && len(keys) != 1 {
				err = fmt.Errorf("reopened %d events", len(keys))
			}
			return err
		}},
	}
}

func durableWork[T any](w *bench[T], more Durable[T]) []durableStep {
	take := func(ctx context.Context, tried bool, outcome driver.WorkOutcome) error {
		run, err := w.d.Take(ctx, w.takeParams(time.Time{}, 1, tried))
		if err != nil {
			return err
		}
		if run == nil {
			return fmt.Errorf("no event is due")
		}
		if err := more.Weaken(ctx, run.Tx()); err != nil {
			return err
		}
		return run.Finish(ctx, &driver.FinishParams{Results: []driver.WorkResult{{Key: run.Events()[0].Key, Outcome: outcome}}})
	}
	return []durableStep{
		{"Finish of a failure", func(ctx context.Context) error { return take(ctx, false, driver.WorkRetry) }},
		{"Finish", func(ctx context.Context) error { return take(ctx, true, driver.WorkSucceeded) }},
		{"EnqueueTx", func(ctx context.Context) error {
			tx, commit, _ := w.h.Begin(w.T, w.d)
			if err := w.d.EnqueueTx(ctx, tx, []driver.OutboxMessage{{ID: "msg_1", Destination: "to-mail", Body: []byte("{}")}}); err != nil {
				return err
			}
			return commit()
		}},
	}
}

func durableMessages[T any](w *bench[T]) []durableStep {
	var leased driver.Message
	letter := func() *driver.DeadLetterParams {
		return &driver.DeadLetterParams{Letters: []driver.DeadLetterRef{{Key: leased.Key, MessageID: leased.ID}}}
	}
	lease := func(ctx context.Context) error {
		got, err := w.d.Lease(ctx, &driver.LeaseParams{Destination: "to-billing", Limit: 1, For: time.Minute, MaxAttempts: 5})
		if err != nil {
			return err
		}
		if len(got.Messages) != 1 {
			return fmt.Errorf("leased %d messages", len(got.Messages))
		}
		leased = got.Messages[0]
		return nil
	}
	complete := func(outcome driver.MessageOutcome) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			_, err := w.d.Complete(ctx, &driver.CompleteParams{Completions: []driver.Completion{{ID: leased.ID, Token: leased.Token, Outcome: outcome}}})
			return err
		}
	}
	return []durableStep{
		{"Lease", lease},
		{"Complete", complete(driver.MessageRetry)},
		{"RetryMessage", func(ctx context.Context) error {
			return w.d.RetryMessage(ctx, &driver.RetryMessageParams{ID: leased.ID})
		}},
		{"Lease again", lease},
		{"Complete for good", complete(driver.MessageDead)},
		{"ReplayDead", func(ctx context.Context) error { _, err := w.d.ReplayDead(ctx, letter()); return err }},
		{"Lease after a replay", lease},
		{"Complete after a replay", complete(driver.MessageDead)},
		{"Replay", func(ctx context.Context) error {
			_, err := w.d.Replay(ctx, &driver.ReplayParams{Key: leased.Key})
			return err
		}},
		{"Lease for the last time", lease},
		{"Complete for the last time", complete(driver.MessageDead)},
		{"Discard", func(ctx context.Context) error { _, err := w.d.Discard(ctx, letter()); return err }},
	}
}

func durableRest[T any](w *bench[T]) []durableStep {
	return []durableStep{
		{"Quarantine", func(ctx context.Context) error {
			return w.d.Quarantine(ctx, &driver.QuarantineParams{Requests: []driver.Quarantined{{Source: "stripe", Headers: []byte("{}"), Body: []byte("{"), Reason: "bad"}}})
		}},
		{"Arm", func(ctx context.Context) error {
			_, err := w.d.Arm(ctx, &driver.ArmParams{Source: "stripe", For: time.Hour})
			return err
		}},
		{"LearnSecret", func(ctx context.Context) error {
			learned, err := w.d.LearnSecret(ctx, &driver.LearnParams{Source: "stripe", Secret: "learned secret 0123456789"})
			if err == nil && !learned {
				err = fmt.Errorf("it was not learned")
			}
			return err
		}},
		{"PauseDestination", func(ctx context.Context) error {
			_, err := w.d.PauseDestination(ctx, &driver.PauseParams{Destination: "to-paused"})
			return err
		}},
	}
}
