package inbox_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/provider"
)

// inlineStripe makes the source an Inline one of Stripe, which can be reconciled.
func inlineStripe(url string, deadLetter hookonce.DeadLetterPolicy) func(*hookonce.Config) {
	return func(c *hookonce.Config) {
		c.Sources[0].Provider, c.Sources[0].Inline, c.Sources[0].DeadLetter = provider.Stripe, true, deadLetter
		c.Sources[0].Reconcile = &hookonce.Reconcile{Key: "rk_test", URL: url}
	}
}

func deliverInline(t *testing.T, in *hookonce.Engine, e *stripeEvent) result {
	t.Helper()
	return deliver(in, signAs(t, &hookonce.Source{Name: "gh", Provider: provider.Stripe}, secret, e.body()))
}

// blindDriver knows no event when it is asked, as if each arrived right after the question.
type blindDriver[T any] struct{ driver.Driver[T] }

func (blindDriver[T]) EventParts(context.Context, []driver.Key) ([]driver.EventParts, error) {
	return nil, nil
}

// Missing events of an Inline source run their handler with their claim. One that fails is run again by the next look, and is
// dead after the last failure. No look reopens it; its webhook does.
func TestReconcileInline(t *testing.T) {
	t.Parallel()
	l := onSQLite(t)
	list, url := newList(t, 4) // evt_0004 to evt_0001
	list.events[3].Type = "charge.failed"
	list.events = append(list.events, stripeEvent{ID: "evt_other", Type: "payout.paid", Created: list.events[3].Created})
	var fails atomic.Bool
	fails.Store(true)
	mux := &hookonce.Mux[*sql.Tx]{}
	hookonce.Handle(mux, "gh", "invoice.paid", func(ctx context.Context, tx *sql.Tx, ev *hookonce.Event) error {
		if err := l.insert(ctx, tx, ev.ID); err != nil {
			return err
		}
		if ev.ID == "evt_0002" && fails.Load() {
			return errNoStock
		}
		return nil
	})
	change := func(c *hookonce.Config) {
		inlineStripe(url, hookonce.AfterAttempts(2))(c)
		sendBy(c, func(context.Context, *hookonce.Outgoing) error { return nil })
		c.Routes[0].Types = []string{"charge.*"}
	}
	in := inbox(t, l, mux, change).Engine
	if got := deliverInline(t, in, &list.events[0]); got != ok {
		t.Fatalf("answer %v", got)
	}
	look := func(plan bool, want hookonce.Reconciled, wantErr string) {
		t.Helper()
		reconcile := in.Reconcile
		if plan {
			reconcile = in.PlanReconcile
		}
		done, err := reconcile(t.Context(), "gh", 48*time.Hour)
		if (err == nil) != (wantErr == "") || err != nil && !strings.Contains(err.Error(), wantErr) {
			t.Errorf("error %v, want %q", err, wantErr)
		}
		if done.Unmatched != 1 || done.Known != want.Known || done.Missing != want.Missing || done.Claimed != want.Claimed {
			t.Errorf("done %+v, want %+v", done, want)
		}
	}
	look(true, hookonce.Reconciled{Known: 1, Missing: 3}, "")
	wantEffects(t, l, "evt_0004")
	look(false, hookonce.Reconciled{Known: 1, Missing: 3, Claimed: 2}, "an Inline handler failed: no stock")
	wantEffects(t, l, "evt_0003", "evt_0004")
	look(false, hookonce.Reconciled{Known: 3, Missing: 1, Claimed: 1}, "")
	wantOutcome(t, l, "evt_0002", outcome{State: driver.StateDead, Attempts: 2, LastError: "no stock"})
	look(false, hookonce.Reconciled{Known: 4}, "")
	wantOutcome(t, l, "evt_0002", outcome{State: driver.StateDead, Attempts: 2, LastError: "no stock"})
	for id, byList := range map[string]bool{"evt_0004": false, "evt_0003": true, "evt_0002": true, "evt_0001": true} {
		ev, err := l.db.Event(t.Context(), "gh", id)
		if err != nil || ev.Reconciled != byList || ev.Deliveries.Count != 1 {
			t.Errorf("%s: %t with the count %d, error %v; want %t with 1", id, ev.Reconciled, ev.Deliveries.Count, err, byList)
		}
	}
	fails.Store(false)
	blind := *l
	blind.db = blindDriver[*sql.Tx]{l.db}
	if done, err := inbox(t, &blind, mux, change).Reconcile(t.Context(), "gh", 48*time.Hour); err != nil || done.Missing != 4 || done.Claimed != 0 {
		t.Errorf("events that arrive meanwhile: %+v, error %v; want 4 missing, none claimed", done, err)
	}
	wantOutcome(t, l, "evt_0002", outcome{State: driver.StateDead, Attempts: 2, LastError: "no stock"})
	if got := deliverInline(t, in, &list.events[2]); got != reopened {
		t.Errorf("the webhook of the dead event is answered %v, want %v", got, reopened)
	}
	wantOutcome(t, l, "evt_0002", outcome{State: driver.StateDone, Attempts: 1, Generation: 1})
	wantEffects(t, l, "evt_0002", "evt_0003", "evt_0004")
}

// 64 deliveries arrive while two libraries reconcile: each handler takes effect once.
func TestReconcileInlineMeanwhile(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		reconcileInlineMeanwhile(t, onSQLite(t))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		reconcileInlineMeanwhile[pgx.Tx](t, onPGX(t))
	})
}

func reconcileInlineMeanwhile[T any](t *testing.T, l *library[T]) {
	list, url := newList(t, 40)
	var engines []*hookonce.Engine
	for range 2 {
		mux := &hookonce.Mux[T]{}
		hookonce.Handle(mux, "gh", "invoice.paid", func(ctx context.Context, tx T, ev *hookonce.Event) error { return l.insert(ctx, tx, ev.ID) })
		engines = append(engines, inbox(t, l, mux, inlineStripe(url, hookonce.DeadLetterPolicy{})).Engine)
	}
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range 64 {
		wg.Go(func() {
			<-start
			if got := deliverInline(t, engines[i%2], &list.events[i%8]); got != ok && got != duplicate && got.Code != 503 {
				t.Errorf("answer %v", got)
			}
		})
	}
	for _, in := range engines {
		wg.Go(func() {
			<-start
			if _, err := in.Reconcile(t.Context(), "gh", 48*time.Hour); err != nil {
				t.Error(err)
			}
		})
	}
	close(start)
	wg.Wait()
	var all []string
	for i := range list.events {
		all = append(all, fmt.Sprintf("evt_%04d", i+1))
	}
	wantEffects(t, l, all...)
}
