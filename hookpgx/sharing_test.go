package hookpgx

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestSharing learns how many connections there are: fewer while they are refused, more while calls wait, and all once
// they suffice. Neither kind of calls gets those of the other kind.
func TestSharing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &sharing{most: 8}
		if entered, err := s.enter(t.Context(), short); entered || err != nil {
			t.Fatalf("before a refusal a call must not wait: %t, %v", entered, err)
		}
		if !s.learn(5) {
			t.Fatal("the first refusal does not begin the sharing")
		}
		has := func(shorts, longs int) {
			t.Helper()
			synctest.Wait()
			if got := [2]int{s.halves[short].used, s.halves[long].used}; got != [2]int{shorts, longs} {
				t.Errorf("%d short and %d long calls have a connection, want %d and %d", got[short], got[long], shorts, longs)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		ask := func(k kind) {
			go func() { _, _ = s.enter(ctx, k) }()
			synctest.Wait()
		}
		for range 5 {
			ask(short)
			ask(long)
		}
		has(3, 2)

		time.Sleep(settling + 1)
		for range 4 {
			s.learn(0)
			time.Sleep(settling + 1)
		}
		if s.total != fewest {
			t.Errorf("refusals leave %d connections, want %d", s.total, fewest)
		}
		s.leave(long)
		has(3, 1)
		s.leave(long) // no connection for the next long call: the last one of this kind is in use
		has(3, 1)

		for range 2 * (8 - fewest) {
			time.Sleep(growAfter + 1)
			ask(short)
		}
		if s.active() {
			t.Errorf("the store still shares %d connections, though it was refused none of 8", s.total)
		}
		if len(s.halves[long].waiting) > 0 {
			t.Error("calls still wait")
		}
		cancel()
	})
}

// TestSharingYields gives one connection up after a while, so that another process gets one. A call that ends its
// waiting leaves no trace.
func TestSharingYields(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &sharing{most: 8}
		s.learn(4)
		time.Sleep(yieldAfter + 1)
		enter := func(k kind) bool {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			entered, err := s.enter(ctx, k)
			if entered == (err != nil) {
				t.Errorf("entered: %t, error: %v", entered, err)
			}
			return entered
		}
		if !enter(long) || s.total != 3 {
			t.Errorf("after %s a store with 4 connections has %d, want 3", yieldAfter, s.total)
		}
		if enter(long) {
			t.Error("a second long call has a connection of three")
		}
		if n := len(s.halves[long].waiting); n != 0 {
			t.Errorf("%d calls still wait", n)
		}
		s.leave(long)
		if !enter(long) {
			t.Error("the connection is lost")
		}
	})
}
