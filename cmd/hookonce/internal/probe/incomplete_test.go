package probe

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// TestIncomplete checks that a check that had no more time or requests is unknown, unless it has found
// an accepted forgery.
func TestIncomplete(t *testing.T) {
	t.Parallel()
	over, cancel := context.WithCancelCause(context.Background())
	cancel(errTime)
	failed, let := fail("connection closed"), fail("200")
	let.let = true
	for _, tt := range []struct {
		name string
		ctx  context.Context
		sent int64
		talk outcome
		want Verdict
		saw  string
	}{
		{"complete", context.Background(), maxRequests, failed, Fail, failed.saw},
		{"no time", over, 1, failed, Unknown, errTime.Error()},
		{"no requests", context.Background(), maxRequests + 1, failed, Unknown, errBudget.Error()},
		{"accepted forgery", over, maxRequests + 1, let, Fail, let.saw},
	} {
		p := &probe{client: &client{}}
		p.client.sent.Store(tt.sent)
		got := p.converse(tt.ctx, talk(func(context.Context) outcome { return tt.talk }))
		if got.verdict != tt.want || !strings.HasSuffix(got.saw, tt.saw) {
			t.Errorf("%s: %s, %q; want %s, %q", tt.name, got.verdict, got.saw, tt.want, tt.saw)
		}
	}
}

// TestCountEnds checks that a command of --effects that hangs ends, and says why.
func TestCountEnds(t *testing.T) {
	t.Parallel()
	p := &probe{sender: &sender{Config: &Config{Effects: "sleep 600 # {id}", Count: 50 * time.Millisecond}}, unsent: "none", most: map[string]int{}}
	if err := p.checkEffects(context.Background()); err == nil || err.Error() != "it did not end in 50ms" {
		t.Errorf("a hanging command: %v", err)
	}
	p.Count = time.Hour
	ctx, cancel := context.WithTimeoutCause(context.Background(), 50*time.Millisecond, errCountTime)
	defer cancel()
	if err := p.checkEffects(ctx); !errors.Is(err, errCountTime) {
		t.Errorf("at the end of the time for counting: %v", err)
	}
}

// TestLimitOf checks the longest answer time that passes: 3 s, or 0.8 of the provider's own time-out
// where that is shorter.
func TestLimitOf(t *testing.T) {
	t.Parallel()
	for timeout, want := range map[time.Duration]time.Duration{
		0: 3 * time.Second, time.Second: 800 * time.Millisecond, 3 * time.Second: 2400 * time.Millisecond, 20 * time.Second: 3 * time.Second,
	} {
		if got := limitOf(timeout); got != want {
			t.Errorf("for a provider that waits for %s: %s, want %s", timeout, got, want)
		}
	}
}
