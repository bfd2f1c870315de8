package relay

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/limit"
)

func TestRoomAhead(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		note func(*ahead)
		want int // for 16 slots
	}{
		"nothing known":      {func(*ahead) {}, 0},
		"very quick answers": {func(a *ahead) { a.note(true, 0, 100) }, 64},
		"quick answers":      {func(a *ahead) { a.note(true, 10*time.Millisecond, 100) }, 32},
		"slow answers":       {func(a *ahead) { a.note(true, 21*time.Millisecond, 100) }, 0},
		"large bodies":       {func(a *ahead) { a.note(true, time.Millisecond, 1<<20) }, 8},
		"after a failure": {func(a *ahead) {
			a.note(true, time.Millisecond, 100)
			a.note(false, time.Millisecond, 100)
		}, 0},
		"an average": {func(a *ahead) {
			for range 100 {
				a.note(true, 10*time.Millisecond, 100)
			}
			a.note(true, 100*time.Millisecond, 100)
		}, 16},
	} {
		var a ahead
		tt.note(&a)
		if got := a.room(16); got != tt.want {
			t.Errorf("%s: room for %d messages, want %d", name, got, tt.want)
		}
	}
}

// TestLeasesAhead sends many messages to a quick destination. Leases and outcomes take few statements, and
// the slots are busy all the time.
func TestLeasesAhead(t *testing.T) {
	t.Parallel()
	const messages, slots, few = 400, 8, 50 // half of the slots at a time would take 100 statements
	synctest.Test(t, func(t *testing.T) {
		var last atomic.Int64
		began := time.Now()
		dest := destination(func(d *Destination) {
			d.Concurrency = slots
			d.Sender = func(context.Context, *driver.Message, http.Header, http.Header) error {
				time.Sleep(time.Millisecond)
				last.Store(int64(time.Since(began)))
				return nil
			}
		})
		store := &backlog{began: began, left: messages}
		runFor(t, store, dest, 990*time.Millisecond)
		if len(store.leases) > few || len(store.completed) > few {
			t.Errorf("%d leases and %d statements for outcomes, want %d at most: %v, %v",
				len(store.leases), len(store.completed), few, store.leases, store.completed)
		}
		if got := time.Duration(last.Load()); got != messages/slots*time.Millisecond {
			t.Errorf("sending took %v: slots stood empty", got)
		}
	})
}

// returningStore is a backlog that counts the messages of each release.
type returningStore struct {
	backlog
	released []int
}

func (s *returningStore) Release(_ context.Context, p *driver.ReleaseParams) error {
	s.released = append(s.released, len(p.Leases))
	return nil
}

// Messages that were leased ahead are given back, by one statement, when they may not be sent any more:
// they spend no attempt and keep no token of the rate.
func TestLeasedAheadAndGivenBack(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for name, tt := range map[string]struct {
		later    time.Duration // of the sends after the first one, which takes 1 ms
		stopped  time.Duration // when the relay is stopped
		sends    int64         // that begin
		released []int
	}{
		"the process stops":     {later: 5 * ms, stopped: 2 * ms, sends: 2, released: []int{4}},
		"the destination hangs": {later: time.Minute, stopped: 10 * time.Second, sends: 2, released: []int{4}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var sends atomic.Int64
				rate := limit.New(6, time.Hour)
				dest := destination(func(d *Destination) {
					d.Concurrency, d.Rate, d.Timeout = 1, rate, time.Hour
					d.Sender = func(ctx context.Context, _ *driver.Message, _, _ http.Header) error {
						takes := tt.later
						if sends.Add(1) == 1 {
							takes = ms
						}
						select {
						case <-time.After(takes):
							return nil
						case <-ctx.Done():
							return ctx.Err()
						}
					}
				})
				store := &returningStore{backlog: backlog{began: time.Now(), left: 6}}
				runFor(t, store, dest, tt.stopped)
				if got := sends.Load(); got != tt.sends {
					t.Errorf("%d sends began, want %d", got, tt.sends)
				}
				if diff := cmp.Diff(tt.released, store.released); diff != "" {
					t.Errorf("released (-want +got):\n%s", diff)
				}
				if n, _ := rate.TakeUpTo(6, time.Now()); n != 6-int(tt.sends) {
					t.Errorf("the rate allows %d more, want %d", n, 6-int(tt.sends))
				}
			})
		})
	}
}

// TestCircuitOpensBeforeMessagesAhead lets a quick destination fail: messages that wait for a slot when the
// circuit opens are not sent.
func TestCircuitOpensBeforeMessagesAhead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var sends atomic.Int64
		dest := destination(func(d *Destination) {
			d.Concurrency, d.Retry = 4, driver.Retry{Attempts: 9, First: time.Hour, Max: time.Hour}
			d.Sender = func(context.Context, *driver.Message, http.Header, http.Header) error {
				n := sends.Add(1)
				time.Sleep(time.Millisecond)
				if n <= 4 {
					return nil // these are the first lease; the next one is of 17 messages or more
				}
				return errors.New("out of order")
			}
		})
		store := &returningStore{backlog: backlog{began: time.Now(), left: 1000}}
		runFor(t, store, dest, 500*time.Millisecond)
		if got, most := sends.Load(), int64(4+circuitThreshold+4); got > most {
			t.Errorf("%d sends began, want %d at most", got, most)
		}
		if len(store.released) != 1 {
			t.Errorf("released %v, want one statement", store.released)
		}
	})
}
