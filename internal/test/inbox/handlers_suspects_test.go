package inbox_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/group"
)

// suspectsAndOthers returns an Inbox with the suspects s1 and s2, whose handlers report to began and
// last until release is closed, and with three other events.
func suspectsAndOthers(t *testing.T, l *library[pgx.Tx], attempts int) (in *hookonce.Inbox[pgx.Tx], began chan string, running *atomic.Int32, release chan struct{}) {
	began, running, release = make(chan string, 10), &atomic.Int32{}, make(chan struct{})
	mux := handling(func(ctx context.Context, tx pgx.Tx, ev *hookonce.Event) error {
		if ev.ID[0] == 's' {
			running.Add(1)
			defer running.Add(-1)
			began <- ev.ID
			<-release
		} else if attempts == 1 && running.Load() > 0 {
			t.Errorf("%s runs during the last attempt of a suspect", ev.ID)
		}
		return l.insert(ctx, tx, ev.ID)
	})
	in = inbox(t, l, mux, func(c *hookonce.Config) {
		c.Retry = hookonce.Retry{Attempts: attempts, First: time.Second, Max: time.Second}
	})
	deliverAll(t, in, "s1", "s2", "a", "b", "c")
	// As if a process had ended during their runs.
	l.exec(t, `UPDATE {schema}.event_state s SET crashes = 1, attempts = 0
		FROM {schema}.event e WHERE e.key = s.key AND e.event_id LIKE 's%'`)
	run(t, in)
	return in, began, running, release
}

// Suspects run one at a time, beside the other events.
func TestSuspectsDoNotHoldOthersUp(t *testing.T) {
	t.Parallel()
	l := onPGX(t)
	in, began, running, release := suspectsAndOthers(t, l, 3)
	<-began
	deliverAll(t, in, "d", "e")
	wantDone(t, l, "a", "b", "c", "d", "e")
	if n := running.Load(); n != 1 {
		t.Errorf("%d suspects run at a time, want 1", n)
	}
	close(release)
	wantDone(t, l, "s1", "s2")
	wantEffects(t, l, "a", "b", "c", "d", "e", "s1", "s2")
}

// looking signals each look for due events, until over is closed.
type looking struct {
	driver.Driver[pgx.Tx]
	looks, over chan struct{}
}

func (l *looking) DueSources(ctx context.Context, sources []string) ([]driver.DueSource, error) {
	due, err := l.Driver.DueSources(ctx, sources)
	select {
	case l.looks <- struct{}{}:
	case <-l.over:
	case <-ctx.Done():
	}
	return due, err
}

// A suspect that would be dead if its process ended runs while no other queued handler does, so it
// cannot become dead because of another event.
func TestTheLastAttemptOfASuspectIsExclusive(t *testing.T) {
	t.Parallel()
	l := onPGX(t)
	looks, over := make(chan struct{}), make(chan struct{})
	l.db = &looking{l.db, looks, over}
	in, began, _, release := suspectsAndOthers(t, l, 1)
	first := ""
	for first == "" {
		select {
		case first = <-began:
		case <-looks:
		}
	}
	deliverAll(t, in, "d", "e")
	for range 3 { // so that "d" and "e" would run by now
		<-looks
	}
	close(over)
	close(release)
	wantDone(t, l, "a", "b", "c", "d", "e", first) // the other suspect has its turn later
}

// reserving signals when a suspect was reserved.
type reserving struct {
	driver.Driver[pgx.Tx]
	reserved chan struct{}
}

func (r *reserving) Reserve(ctx context.Context, p *driver.ReserveParams) ([]driver.TakenEvent, error) {
	events, err := r.Driver.Reserve(ctx, p)
	if p.Suspects == driver.OnlySuspects && len(events) > 0 {
		select {
		case r.reserved <- struct{}{}:
		default:
		}
	}
	return events, err
}

// lastAttemptBesideSlow returns an inbox whose event "slow" is in its handler until release is closed,
// and which has reserved the event "suspect" for its last attempt.
func lastAttemptBesideSlow(t *testing.T) (l *library[pgx.Tx], in *hookonce.Inbox[pgx.Tx], release chan struct{}) {
	t.Helper()
	l = onPGX(t)
	reserved := make(chan struct{}, 1)
	l.db = &reserving{l.db, reserved}
	handle, began, release := held(l, "slow")
	in = inbox(t, l, handling(handle), func(c *hookonce.Config) {
		c.Retry = hookonce.Retry{Attempts: 1, First: time.Second, Max: time.Second}
	})
	deliverAll(t, in, "slow", "suspect")
	l.exec(t, `UPDATE {schema}.event_state s SET crashes = 1, due_at = 'infinity'
		FROM {schema}.event e WHERE e.key = s.key AND e.event_id = 'suspect'`)
	run(t, in)
	<-began
	l.exec(t, `UPDATE {schema}.event_state SET due_at = now() WHERE crashes = 1`)
	<-reserved
	return l, in, release
}

// The last attempt of a suspect waits for a slow handler. Other events do not stand still with it. Once
// the slow handler has ended, the suspect has its turn, after the others have had theirs for a while.
func TestALastAttemptThatWaitsHoldsNothingUp(t *testing.T) {
	t.Parallel()
	l, in, release := lastAttemptBesideSlow(t)
	deliverAll(t, in, "a", "b", "c")
	wantDone(t, l, "a", "b", "c")
	close(release)
	wantDone(t, l, "slow")
	if group.Long() {
		wantDone(t, l, "suspect")
	}
}

// The last attempt of a suspect waits longer than its reservation, so another process reserves it for its
// own last attempt, which waits too. The first one that can run it does: otherwise processes with slow
// handlers would take it from each other for good.
func TestALastAttemptThatTwoProcessesWaitFor(t *testing.T) {
	t.Parallel()
	l, _, release := lastAttemptBesideSlow(t)
	l.exec(t, `UPDATE {schema}.event_state SET due_at = now() + interval '1 hour' WHERE crashes = 1`) // the other process
	close(release)
	wantDone(t, l, "slow", "suspect")
	wantEffects(t, l, "slow", "suspect")
}
