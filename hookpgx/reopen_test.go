package hookpgx_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
)

// TestReopenBehindLocks has another session hold a dead event. Its delivery must not be taken for a plain duplicate: the dead
// event would stay dead, and the sender would not come again.
func TestReopenBehindLocks(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	w.mustClaimDead(t, "another one", "billing")
	type result struct{ Reopened, Held bool }
	for name, tt := range map[string]struct {
		lock, end string
		wait      time.Duration
		want      result
	}{
		"held":              {"SELECT FROM {schema}.event WHERE key = $1 FOR UPDATE", "", 0, result{Held: true}},
		"messages held":     {"SELECT FROM {schema}.message WHERE event_key = $1 FOR UPDATE", "", 50 * time.Millisecond, result{Held: true}},
		"one message held":  {"SELECT FROM {schema}.message WHERE event_key = $1 AND route = 'audit' FOR UPDATE", "", 0, result{Held: true}},
		"then given up":     {"UPDATE {schema}.message SET state = 0 WHERE event_key = $1", "ROLLBACK", time.Minute, result{Reopened: true}},
		"then reopened":     {"UPDATE {schema}.message SET state = 0 WHERE event_key = $1", "COMMIT", time.Minute, result{}},
		"sent, not held":    {"UPDATE {schema}.message SET state = 2 WHERE event_key = $1", "COMMIT", 0, result{}},
		"not held":          {"SELECT FROM {schema}.event WHERE key <> $1 FOR UPDATE", "", 0, result{Reopened: true}},
		"held without work": {"SELECT FROM {schema}.event WHERE key = $1 FOR KEY SHARE", "", 0, result{Reopened: true}},
	} {
		t.Run(name, func(t *testing.T) {
			c := w.mustClaimDead(t, name, "billing", "audit")
			other := w.session(t)
			w.in(t, other, tt.lock, c.Key[:])
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				if tt.end != "" {
					_, _ = other.Exec(t.Context(), tt.end)
				}
			}()
			if tt.wait == 0 {
				<-ended
			}
			reopened, held, err := w.Reopen(t.Context(), &driver.ReopenParams{Keys: []driver.Key{c.Key}, Wait: tt.wait})
			<-ended
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, result{len(reopened) > 0, len(held) > 0}); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
		})
	}
}
