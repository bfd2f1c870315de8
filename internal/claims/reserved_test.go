package claims_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/claims"
	"github.com/hookonce/hookonce/internal/test/rig"
)

// reservations notes how each reservation ended, by event id.
type reservations struct {
	mu    sync.Mutex
	ended map[string][]string
}

type reservation struct {
	all *reservations
	m   *driver.Message
}

func (r *reservations) end(m *driver.Message, how string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended == nil {
		r.ended = make(map[string][]string)
	}
	r.ended[m.EventID] = append(r.ended[m.EventID], how)
}

func (v reservation) LeaseFor() time.Duration { return time.Minute }
func (v reservation) Cancel()                 { v.all.end(v.m, "canceled") }

func (v reservation) Send(token int64, receivedAt time.Time) {
	how := "sent"
	if token == 0 || receivedAt.IsZero() {
		how = "sent without a lease"
	}
	v.all.end(v.m, how)
}

// routed returns a unit of events with one message each, to "app".
func routed(ids ...string) *claims.Unit {
	u := unit(ids...)
	for i := range u.Claims {
		c := &u.Claims[i]
		c.Messages = []driver.NewMessage{{ID: driver.MessageID(c.Key, 0, "r"), Route: "r", Destination: "app"}}
	}
	return u
}

// Every reservation ends once, also if its claim fails.
func TestReservationsEnd(t *testing.T) {
	t.Parallel()
	full := errors.New("the disk is full")
	for name, tt := range map[string]struct {
		before func(ctx context.Context, p *driver.ClaimParams) error
		room   func(id string) bool
		want   map[string][]string
		asked  []string // the claims that wake their relay
	}{
		"claimed": {want: map[string][]string{"1": {"sent"}, "2": {"sent"}, "known": {"canceled"}}},
		"without room": {
			room: func(id string) bool { return id == "2" }, want: map[string][]string{"2": {"sent"}}, asked: []string{"1"},
		},
		"one fails": {
			before: rig.FailFor(driver.ErrBadRow, "1"),
			want:   map[string][]string{"1": {"canceled"}, "2": {"sent"}, "known": {"canceled"}},
		},
		"all fail": {
			before: func(context.Context, *driver.ClaimParams) error { return full },
			want:   map[string][]string{"1": {"canceled"}, "2": {"canceled"}, "known": {"canceled"}},
		},
		"panic": {
			before: func(context.Context, *driver.ClaimParams) error { panic("of a driver") },
			want:   map[string][]string{"1": {"canceled"}, "2": {"canceled"}, "known": {"canceled"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inner := rig.OpenSQLite(t)
			claim(t, newQueue(t, inner, nil), routed("known"))
			var all reservations
			var asked []string
			if tt.before == nil {
				tt.before = func(context.Context, *driver.ClaimParams) error { return nil }
			}
			q := newQueue(t, &rig.FaultStore{Store: inner, Before: tt.before}, func(o *claims.Options) {
				o.Reserve = func(m *driver.Message) claims.Reservation {
					if tt.room != nil && !tt.room(m.EventID) {
						return nil
					}
					return reservation{&all, m}
				}
				o.Claimed = func(claimed []*driver.Claim) {
					for _, c := range claimed {
						if c.Messages[0].LeaseFor == 0 {
							asked = append(asked, c.EventID)
						}
					}
				}
			})
			claim(t, q, routed("1", "2", "known"))
			q.Close()
			slices.Sort(asked)
			if diff := cmp.Diff(tt.want, all.ended); diff != "" {
				t.Errorf("reservations (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.asked, asked); diff != "" {
				t.Errorf("claims to lease the usual way (-want +got):\n%s", diff)
			}
		})
	}
}

// leavingStore returns when the context ends, while it still reads the claims: as a store that waits for a disk.
type leavingStore struct {
	claims.Store
	goOn chan struct{}
	read sync.WaitGroup
}

func (s *leavingStore) Claim(ctx context.Context, p *driver.ClaimParams) ([]driver.ClaimResult, error) {
	s.read.Go(func() {
		<-s.goOn
		for i := range p.Claims {
			if c := &p.Claims[i]; len(c.Body) == 0 || c.Messages[0].LeaseFor == 0 {
				panic("the claim was changed")
			}
		}
	})
	<-ctx.Done()
	return nil, driver.ErrUnavailable
}

// The race detector finds a write to the claim.
func TestReservationEndsWhileTheStoreReadsTheClaim(t *testing.T) {
	t.Parallel()
	store := &leavingStore{Store: rig.OpenSQLite(t), goOn: make(chan struct{})}
	var all reservations
	q := newQueue(t, store, func(o *claims.Options) {
		o.Reserve = func(m *driver.Message) claims.Reservation { return reservation{&all, m} }
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	u := routed("1")
	if err := q.Claim(ctx, u); err == nil && u.Results[0].Err == nil {
		t.Error("it was claimed")
	}
	close(store.goOn)
	store.read.Wait()
	if diff := cmp.Diff(map[string][]string{"1": {"canceled"}}, all.ended); diff != "" {
		t.Errorf("reservations (-want +got):\n%s", diff)
	}
}
