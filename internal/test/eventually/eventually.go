// Package eventually lets tests wait, on a machine of any speed. No other place
// says how long a test waits.
package eventually

import (
	"context"
	"testing"
	"time"
)

// Bound ends every wait. It only runs out if something is broken.
const Bound = 2 * time.Minute

// The first polls follow each other quickly, because most states are reached within milliseconds. The pauses of a
// longer wait are a twentieth of it, because a poll may cost as much as a request to a gateway and its database.
const firstPause, quickPause, longestPause = time.Millisecond, 20 * time.Millisecond, 200 * time.Millisecond

// True polls state until it returns true. what names this state.
func True(t testing.TB, what string, state func() bool) {
	t.Helper()
	poll(t, what, func() (bool, error) { return state(), nil })
}

// Succeeds calls try until it returns nil, as clients repeat calls that fail for a while. what names
// the success.
func Succeeds(t testing.TB, what string, try func() error) {
	t.Helper()
	poll(t, what, func() (bool, error) {
		err := try()
		return err == nil, err
	})
}

func poll(t testing.TB, what string, look func() (bool, error)) {
	t.Helper()
	began := time.Now()
	for pause := firstPause; ; {
		ok, err := look()
		waited := time.Since(began)
		switch {
		case ok:
			return
		case waited < Bound:
			time.Sleep(pause)
			pause = min(2*pause, max(quickPause, waited/20), longestPause)
		case err != nil:
			t.Fatalf("not within %s: %s: %v", Bound, what, err)
		default:
			t.Fatalf("not within %s: %s", Bound, what)
		}
	}
}

// Receive waits for a value of a channel, or for its end. what names this event.
func Receive[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()
	v, _ := Next(t, what, from)
	return v
}

// Next is Receive, and reports whether there was a value.
func Next[T any](t testing.TB, what string, from <-chan T) (v T, ok bool) {
	t.Helper()
	select {
	case v, ok = <-from:
	case <-time.After(Bound):
		t.Fatalf("not within %s: %s", Bound, what)
	}
	return v, ok
}

// Context returns a context for calls that must succeed. It ends after Bound, or with the test.
func Context(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), Bound)
	t.Cleanup(cancel)
	return ctx
}
