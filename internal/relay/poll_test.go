package relay

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/limit"
)

// quietStore has no messages. It notes each statement with its second.
type quietStore struct {
	Store
	began time.Time

	mu  sync.Mutex
	due []string
	err error
	got []string
}

func (s *quietStore) note(statement string) {
	s.got = append(s.got, time.Since(s.began).Truncate(time.Second).String()+" "+statement)
}

func (s *quietStore) Lease(_ context.Context, p *driver.LeaseParams) (*driver.Leased, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note("lease " + p.Destination)
	return &driver.Leased{}, nil
}

func (s *quietStore) DueDestinations(_ context.Context, destinations []string) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note("look for " + strings.Join(slices.Sorted(slices.Values(destinations)), " "))
	return s.due, s.err
}

// One statement a second looks for the due messages of all idle destinations. A destination is leased from at the start
// and when it has some.
func TestIdleDestinationsShareALook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &quietStore{began: time.Now()}
		g := NewGroup(store, Options{Log: slog.New(slog.DiscardHandler), Observe: func(*Observed) {}})
		destinations := make(map[string]*Destination)
		for _, name := range []string{"a", "b", "c"} {
			destinations[name] = &Destination{Name: name, Concurrency: 4, Timeout: time.Second, Rate: &limit.Bucket{}, Circuit: &Circuit{}}
		}
		g.Set(destinations)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			g.Run(ctx)
			close(done)
		}()
		set := func(err error, due ...string) {
			store.mu.Lock()
			store.due, store.err = due, err
			store.mu.Unlock()
			time.Sleep(time.Second)
			synctest.Wait()
		}
		time.Sleep(500 * time.Millisecond)
		set(nil)
		set(nil, "b")
		set(errors.New("the database is away"))
		set(nil, "removed")
		stop()
		<-done
		slices.Sort(store.got[:3]) // of three goroutines
		want := []string{
			"0s lease a", "0s lease b", "0s lease c",
			"1s look for a b c",
			"2s look for a b c", "2s lease b",
			"3s look for a b c",
			"4s look for a b c",
		}
		if diff := cmp.Diff(want, store.got); diff != "" {
			t.Errorf("statements (-want +got):\n%s", diff)
		}
	})
}
