package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/metrics"
	"github.com/hookonce/hookonce/internal/test/rig"
)

var goVersion = runtime.Version()

var inside = regexp.MustCompile("([a-z])([A-Z])")

// Every method of a store that may fail has a label op of its own. A method without one would be
// missing in the metrics.
func TestEveryCallIsMeasured(t *testing.T) {
	t.Parallel()
	g := newGateway(t, rig.OpenSQLite(t), nil)
	store := reflect.ValueOf(g.Metrics.Store(struct{ driver.Store }{})) // its calls panic, after the measuring has begun
	contract := reflect.TypeFor[driver.Store]()
	want := map[string]string{}
	for method := range contract.Methods() {
		if method.Type.NumIn() == 0 || method.Type.In(0) != reflect.TypeFor[context.Context]() {
			continue
		}
		op := strings.ToLower(inside.ReplaceAllString(method.Name, "${1}_$2"))
		want[fmt.Sprintf("hookonce_store_seconds_count{op=%q}", op)] = "1"
		arguments := []reflect.Value{reflect.ValueOf(t.Context())}
		for i := 1; i < method.Type.NumIn(); i++ {
			arguments = append(arguments, reflect.Zero(method.Type.In(i)))
		}
		func() {
			defer func() { _ = recover() }()
			store.MethodByName(method.Name).Call(arguments)
		}()
	}
	for _, op := range []string{"backlog", "applied", "now", "weaknesses", "server", "prove"} { // the scrape itself calls them
		delete(want, fmt.Sprintf("hookonce_store_seconds_count{op=%q}", op))
	}
	wantSamples(t, g.scrape(t), want)
}

// broken is a store whose Replay returns an error, and whose Backlog counts its calls.
type broken struct {
	driver.Store
	err   error
	calls atomic.Int32
}

func (b *broken) Replay(context.Context, *driver.ReplayParams) (*driver.Replayed, error) {
	return nil, b.err
}

func (b *broken) Backlog(ctx context.Context, p *driver.BacklogParams) (*driver.Backlog, error) {
	b.calls.Add(1)
	if b.err != nil {
		return nil, b.err
	}
	return b.Store.Backlog(ctx, p)
}

func TestStoreErrors(t *testing.T) {
	t.Parallel()
	b := &broken{}
	m := metrics.New("", "")
	store := m.Store(b)
	want := map[string]string{}
	for err, class := range map[error]string{
		driver.ErrNotFound:                                 "",
		driver.ErrTimedOut:                                 "timed_out",
		driver.ErrUnavailable:                              "unavailable",
		errors.New("a secret"):                             "other",
		fmt.Errorf("late: %w", context.Canceled):           "canceled",
		fmt.Errorf("cut off: %w", driver.ErrCommitUnknown): "commit_unknown",
	} {
		b.err = err
		if _, err := store.Replay(t.Context(), nil); !errors.Is(err, b.err) {
			t.Errorf("Replay returned %v, want %v", err, b.err)
		}
		if class != "" {
			want[fmt.Sprintf(`hookonce_store_errors_total{class=%q,op="replay"}`, class)] = "1"
		}
	}
	got := (&gateway{Metrics: m}).scrape(t)
	wantSamples(t, got, want)
	wantSamples(t, got, map[string]string{
		`hookonce_store_seconds_count{op="replay"}`:                              "6",
		`hookonce_store_errors_total{class="bad_row",op="replay"}`:               "0",
		`hookonce_store_errors_total{class="unavailable",op="replay"}`:           "1",
		`hookonce_store_errors_total{class="unavailable",op="due_destinations"}`: "0", // an alert asks for its rate
	})
}

// Many scrapes ask the database once. While it does not answer, the last figures stand.
func TestDatabaseIsAskedRarely(t *testing.T) {
	t.Parallel()
	b := &broken{Store: rig.OpenSQLite(t)}
	g := newGateway(t, b, nil)
	g.deliver("/webhooks/gh", "1", "{}", secret)
	for range 5 {
		wantSamples(t, g.scrape(t), map[string]string{`hookonce_messages_pending{destination="app"}`: "1"})
	}
	if n := b.calls.Load(); n != 1 {
		t.Errorf("5 scrapes asked the database %d times, want once", n)
	}
	b.err = driver.ErrUnavailable
	g.Settle()  // the next scrape asks
	g.scrape(t) // and may collect the counter of errors before it does
	wantSamples(t, g.scrape(t), map[string]string{
		`hookonce_messages_pending{destination="app"}`:                  "1",
		`hookonce_store_errors_total{class="unavailable",op="backlog"}`: "1",
	})
	if n := b.calls.Load(); n != 2 {
		t.Errorf("the database was asked %d times, want twice", n)
	}
}
