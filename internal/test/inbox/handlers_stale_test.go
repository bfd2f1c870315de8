package inbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/group"
)

// Stale rules decide whether a handler runs. Refetch supplies the current state of the object.

func TestStaleEventsAreSkipped(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*hookonce.Config){"queued": func(*hookonce.Config) {}, "inline": inline} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := onSQLite(t)
			in := inbox(t, l, handling(effectOf(l)), func(c *hookonce.Config) { stale(c); change(c) })
			run(t, in)
			skipped := outcome{State: driver.StateSkipped, Note: driver.NoteStale, LastError: " is older than 10, which was applied"}
			for _, e := range []struct {
				object, version string
				want            outcome
			}{
				{"a", "5", done}, {"a", "5.0", done}, {"a", "10", done}, {"a", "3", skipped}, {"b", "1", done},
			} {
				deliver(in, versioned(e.object, e.version))
				wantOutcome(t, l, e.object+"-"+e.version, e.want)
			}
			deliver(in, versioned("a", "1", typed("issues"))) // no rule for this type
			deliverAll(t, in, "without a version")
			wantDone(t, l, "a-1", "without a version")
			if _, err := in.Replay(t.Context(), &hookonce.ReplayRequest{Source: "gh", EventID: "a-3"}); err != nil {
				t.Fatal(err)
			}
			wantOutcome(t, l, "a-3", outcome{State: driver.StateDone, Attempts: 1, Generation: 1})
			deliver(in, versioned("a", "3.0")) // the replay did not lower the applied version
			wantOutcome(t, l, "a-3.0", skipped)
			wantEffects(t, l, "a-1", "a-10", "a-3", "a-5", "a-5.0", "b-1", "without a version")
		})
	}
}

// Many workers of two processes take the versions of a few objects in any order. The last version
// applied to each object is the highest.
func TestVersionsSideBySide(t *testing.T) {
	t.Parallel()
	objects, versions := 2, 10
	if group.Long() {
		objects, versions = 3, 40
	}
	l := onPGX(t)
	var mu sync.Mutex
	last := make(map[string]int) // the version of the last run, by object
	mux := &hookonce.Mux[pgx.Tx]{}
	hookonce.HandleJSON(mux, "gh", "push", func(ctx context.Context, tx pgx.Tx, ev *hookonce.Event, body struct {
		O string
		V int `json:",string"`
	},
	) error {
		mu.Lock()
		last[body.O] = body.V // under the lock of the object
		mu.Unlock()
		return l.insert(ctx, tx, ev.ID)
	})
	settings := func(c *hookonce.Config) { stale(c); c.Workers, c.Batch = 4, 3 }
	a, b := inbox(t, l, mux, settings), inbox(t, l, mux, settings)
	var wg sync.WaitGroup
	for o := range objects {
		for v := range versions {
			shuffled := (v*7 + o) % versions
			wg.Go(func() { deliver(a, versioned(fmt.Sprint(o), fmt.Sprint(shuffled))) })
		}
	}
	run(t, a)
	run(t, b)
	wg.Wait()
	for o := range objects {
		for v := range versions {
			ended(t, l, fmt.Sprintf("%d-%d", o, v))
		}
		if got := last[fmt.Sprint(o)]; got != versions-1 {
			t.Errorf("version %d was applied last to object %d, want %d", got, o, versions-1)
		}
	}
}

func TestRefetch(t *testing.T) {
	t.Parallel()
	for _, isInline := range []bool{false, true} {
		t.Run(fmt.Sprint("inline ", isInline), func(t *testing.T) {
			t.Parallel()
			l := onSQLite(t)
			mux := &hookonce.Mux[*sql.Tx]{}
			hookonce.HandleJSON(mux, "gh", "push", func(ctx context.Context, tx *sql.Tx, ev *hookonce.Event, now struct{ State string }) error {
				return l.insert(ctx, tx, ev.ID+" "+now.State)
			})
			in := inbox(t, l, mux, func(c *hookonce.Config) {
				c.Sources[0].Inline, c.Sources[0].RefetchTimeout, c.Retry.Attempts = isInline, time.Second, 2
				c.Sources[0].Refetch = func(ctx context.Context, ev *hookonce.Event) ([]byte, error) {
					switch ev.ID {
					case "gone":
						return nil, hookonce.Permanent(errors.New("404"))
					case "slow":
						<-ctx.Done()
						return nil, ctx.Err()
					}
					return []byte(`{"state":"paid"}`), nil
				}
			})
			run(t, in)
			deliverAll(t, in, "good", "gone")
			wantDone(t, l, "good")
			wantOutcome(t, l, "gone", outcome{State: driver.StateDead, Attempts: 1, LastError: "getting the current state: 404"})
			if isInline {
				if got := deliver(in, delivery("slow", "{}")); got != failed {
					t.Errorf("the slow delivery: %+v, want %+v", got, failed)
				}
			} else {
				deliverAll(t, in, "slow")
				wantOutcome(t, l, "slow", outcome{State: driver.StateDead, Attempts: 2, LastError: context.DeadlineExceeded.Error()})
			}
			wantEffects(t, l, "good paid")
		})
	}
}
