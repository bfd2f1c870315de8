package claims_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/claims"
	"github.com/hookonce/hookonce/internal/test/rig"
)

// heldStore has dead events that another session has locked until free is closed, or longer than a caller waits.
type heldStore struct {
	driver.Store
	waits chan struct{} // closed when a caller waits
	free  chan struct{}
	never bool
}

func (s *heldStore) Reopen(ctx context.Context, p *driver.ReopenParams) (reopened, held []driver.Key, err error) {
	if p.Wait == 0 {
		return nil, p.Keys, nil
	}
	close(s.waits)
	<-s.free
	if s.never {
		return nil, p.Keys, nil
	}
	return s.Store.Reopen(ctx, p)
}

// A dead event that another session has locked delays its own deliveries only. They are answered once it is reopened, and
// fail if it stays locked.
func TestLockedDeadEvents(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		never bool
		want  []string
	}{
		"for a while": {false, []string{duplicate, claimed}},
		"for long":    {true, []string{driver.ErrLockTimeout.Error(), claimed}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inner := rig.OpenSQLite(t)
			buried(t, inner, "dead")
			store := &heldStore{Store: inner, waits: make(chan struct{}), free: make(chan struct{}), never: tt.never}
			reopened := make(chan struct{}, 1)
			q := newQueue(t, store, func(o *claims.Options) { o.Reopened = func() { reopened <- struct{}{} } })
			got := make(chan []string)
			go func() {
				u := claims.NewUnit([]driver.Claim{event("dead", "{}"), event("beside", "{}")}, true, time.Now().Add(time.Minute))
				got <- claim(t, q, u)
			}()
			<-store.waits
			if diff := cmp.Diff([]string{claimed}, claim(t, q, unit("other"))); diff != "" {
				t.Errorf("another delivery meanwhile (-want +got):\n%s", diff)
			}
			select {
			case early := <-got:
				t.Fatalf("answered before the event is free: %q", early)
			default:
			}
			close(store.free)
			if diff := cmp.Diff(tt.want, <-got); diff != "" {
				t.Errorf("outcomes (-want +got):\n%s", diff)
			}
			if !tt.never {
				<-reopened
			}
		})
	}
}
