package sqlitestore

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// A row may wait for the disk, too. The caller leaves at its deadline, and nothing is committed behind its back.
func TestCallerLeavesDuringARow(t *testing.T) {
	t.Parallel()
	store := storeWith(t, &faults{})
	started, goOn := make(chan struct{}), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-started
		cancel()
	}()
	err := store.writeApart(ctx, opClaim, func(w *writeTx) error {
		c, result := newClaim("evt_1"), driver.ClaimResult{}
		if err := w.claim(&c, &result); err != nil {
			t.Error(err)
		}
		close(started)
		<-goOn
		return nil
	})
	if !errors.Is(err, driver.ErrUnavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("got the error %v, want %v", err, driver.ErrUnavailable)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := claimUnder(ctx, store, "evt_2"); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("a claim beside it: got the error %v, want %v", err, driver.ErrUnavailable)
	}
	close(goOn)
	if err := claim(t, store, "evt_3"); err != nil {
		t.Fatal(err)
	}
	wantEvents(t, store, "evt_3")
}

// Both the caller and the transaction decide at the end. One of them wins, and the error is that of the winner.
func TestCallerLeavesJustBeforeTheCommit(t *testing.T) {
	t.Parallel()
	for range 200 {
		var a apart
		commits := make(chan bool)
		go func() { commits <- a.commits() }()
		leaves := a.leave()
		if <-commits == leaves {
			t.Fatalf("committed: %v, and rolled back: %v", !leaves, leaves)
		}
	}
}

func TestPanicApartGivesTheLockBack(t *testing.T) {
	t.Parallel()
	store := storeWith(t, &faults{})
	err := store.writeApart(t.Context(), "test", func(*writeTx) error { panic("boom") })
	if !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "panic: boom") || !strings.Contains(err.Error(), "apart_test.go") {
		t.Errorf("got the error %v", err)
	}
	if err := claim(t, store, "evt_1"); err != nil {
		t.Fatal(err)
	}
	wantEvents(t, store, "evt_1")
}
