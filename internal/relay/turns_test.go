package relay

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/stale"
)

func lineVersion(t *testing.T, object, version string) driver.ObjectVersion {
	t.Helper()
	return driver.ObjectVersion{Object: driver.ObjectKey("s", "r", object), Version: encoded(version), Shown: version}
}

// encoded pads a number so that its bytes compare as numbers do.
func encoded(version string) []byte { return []byte(strings.Repeat("0", 8-len(version)) + version) }

func atFront(t *turn) bool {
	select {
	case <-t.front:
		return true
	default:
		return false
	}
}

func TestTurnsGoByVersion(t *testing.T) {
	t.Parallel()
	var lines turns
	turns := lines.join([]driver.ObjectVersion{
		lineVersion(t, "a", "3"), lineVersion(t, "b", "9"), lineVersion(t, "a", "1"), lineVersion(t, "a", "2"),
	})
	late := lines.join([]driver.ObjectVersion{lineVersion(t, "a", "0"), lineVersion(t, "a", "2")})
	byName := map[string]*turn{"a3": turns[0], "b9": turns[1], "a1": turns[2], "a2": turns[3], "late a0": late[0], "late a2": late[1]}
	front := func() (names []string) {
		for name, turn := range byName {
			if atFront(turn) {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		return names
	}
	for _, want := range [][]string{
		{"a1", "b9"},
		{"b9", "late a0"}, // it joined a line that had begun
		{"a2", "b9"},
		{"b9", "late a2"},
		{"a3", "b9"},
		{"b9"},
	} {
		got := front()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("at the front (-want +got):\n%s", diff)
		}
		for _, name := range got {
			if name != "b9" {
				byName[name].leave(true)
				delete(byName, name)
			}
		}
	}
	byName["b9"].leave(false)
	if len(lines.all) > 0 {
		t.Errorf("%d lines are left", len(lines.all))
	}
}

func TestTurnsKnowTheSentVersions(t *testing.T) {
	t.Parallel()
	var lines turns
	two, five := lineVersion(t, "a", "2"), lineVersion(t, "a", "5")
	turns := lines.join([]driver.ObjectVersion{lineVersion(t, "a", "3")})
	later := lines.join([]driver.ObjectVersion{two, lineVersion(t, "a", "3.0"), lineVersion(t, "a", "4")})
	turns[0].leave(true)
	shown := func(v *driver.ObjectVersion) string {
		if v == nil {
			return ""
		}
		return v.Shown
	}
	got := []string{
		shown(turns[0].newer(nil)), shown(turns[0].newer(&two)), shown(turns[0].newer(&five)),
		shown(later[0].newer(nil)), shown(later[0].newer(&two)), shown(later[0].newer(&five)),
	}
	later[0].leave(false)
	got = append(got, shown(later[1].newer(nil)))
	later[1].leave(true)
	got = append(got, shown(later[2].newer(&two)), shown(later[2].newer(&five)))
	if diff := cmp.Diff([]string{"", "", "5", "3", "3", "5", "", "", "5"}, got); diff != "" {
		t.Errorf("newer versions (-want +got):\n%s", diff)
	}
}

func TestWaitingInALine(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		freed, cancelled time.Duration // 0 for never
		want             bool
	}{
		"freed":                {time.Second, 0, true},
		"freed too late":       {3 * time.Second, 0, false},
		"stopped":              {0, time.Second, false},
		"stopped, then freed":  {time.Second, time.Second / 2, false},
		"never freed":          {0, 0, false},
		"freed, later stopped": {time.Second, 2 * time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var lines turns
				turns := lines.join([]driver.ObjectVersion{lineVersion(t, "a", "1"), lineVersion(t, "a", "2")})
				if !turns[0].wait(ctx, time.Now().Add(-time.Second)) {
					t.Error("the turn at the front had to wait")
				}
				if tt.freed > 0 {
					time.AfterFunc(tt.freed, func() { turns[0].leave(true) })
				}
				if tt.cancelled > 0 {
					time.AfterFunc(tt.cancelled, cancel)
				}
				if got := turns[1].wait(ctx, time.Now().Add(2*time.Second)); got != tt.want {
					t.Errorf("got %t, want %t", got, tt.want)
				}
				turns[1].leave(false)
				turns[0].leave(false) // a second time in some cases
				time.Sleep(time.Minute)
				if len(lines.all) > 0 {
					t.Errorf("%d lines are left", len(lines.all))
				}
			})
		})
	}
}

// However many messages join, leave and give up at the same time: one turn is at the front of each
// line, it knows every sent version from the line or the record it read after joining, and no turn
// is forgotten.
func TestTurnsUnderLoad(t *testing.T) {
	t.Parallel()
	const objects, workers, rounds = 2, 3, 1000
	var lines turns
	var sending [objects]sync.Mutex
	var recorded [objects]atomic.Pointer[driver.ObjectVersion]
	var clock atomic.Int64
	var wg sync.WaitGroup
	for worker := range workers {
		random := rand.New(rand.NewPCG(1, uint64(worker)))
		wg.Go(func() {
			for range rounds {
				var batch []driver.ObjectVersion
				for o := range objects {
					batch = append(batch, lineVersion(t, fmt.Sprint(o), fmt.Sprint(clock.Add(1)+random.Int64N(20))))
				}
				turns := lines.join(batch)
				runtime.Gosched()
				var read [objects]*driver.ObjectVersion
				for o := range read {
					read[o] = recorded[o].Load()
				}
				for o, turn := range turns {
					if random.IntN(4) == 0 {
						turn.leave(false)
						continue
					}
					<-turn.front
					if !sending[o].TryLock() {
						t.Error("two turns are at the front")
						return
					}
					send := turn.newer(read[o]) == nil
					if now := recorded[o].Load(); send && now != nil && stale.Compare(&turn.version, now) < 0 {
						t.Errorf("%s is sent after %s", turn.version.Shown, now.Shown)
					}
					if send {
						recorded[o].Store(&turn.version)
					}
					sending[o].Unlock()
					turn.leave(send)
				}
			}
		})
	}
	wg.Wait()
	if len(lines.all) > 0 {
		t.Errorf("%d lines are left", len(lines.all))
	}
}
