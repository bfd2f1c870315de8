package hookonce_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookpgx"
	"github.com/hookonce/hookonce/internal/test/rig"
)

// later is a store whose clock is ahead, so that a minute is over at once. Its times are those of the
// real clock.
type later struct {
	driver.Store
	looked atomic.Int64 // calls of NewDead
}

func (s *later) Now(ctx context.Context) (time.Time, error) {
	now, err := s.Store.Now(ctx)
	return now.Add(2 * time.Minute), err
}

func (s *later) NewDead(ctx context.Context, p *driver.NewDeadParams) ([]driver.NewDead, error) {
	defer s.looked.Add(1)
	return s.Store.NewDead(ctx, p)
}

// Two gateways send one summary of a dead message. It is refused too, and nothing follows, although
// the two destinations tell each other.
func TestOnDeadTellsOnce(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) { t.Parallel(); onDeadTellsOnce(t, &later{Store: onSQLite(t).db}) })
	t.Run("postgres", func(t *testing.T) { t.Parallel(); onDeadTellsOnce(t, &later{Store: onPGX(t).db}) })
}

func onDeadTellsOnce(t *testing.T, store *later) {
	app, ops := newSink(t, 410), newSink(t, 410)
	change := func(c *hookonce.Config) {
		c.Destinations = []hookonce.Destination{
			{Name: "app", URL: app.URL, AllowPrivate: true, OnDead: "ops"}, {Name: "ops", URL: ops.URL, AllowPrivate: true, OnDead: "app"},
		}
		c.Routes = []hookonce.Route{{Name: "all", To: "app"}}
	}
	first, second := newEngine(t, store, change), newEngine(t, store, change)
	stopFirst, stopSecond := start(t, first), start(t, second)
	deliver(first, delivery("1", `{"secret":"canary"}`))
	settled(t, store, "1", driver.StateDead)
	rig.WaitFor(t, func() bool { return len(ops.got()) > 0 })
	stopFirst()
	stopSecond()
	// A third gateway looks at the same minutes again, and at that of the death of the summary.
	page, err := store.DeadLetters(t.Context(), &driver.MessageFilter{Destination: "ops"})
	if err != nil || len(page.DeadLetters) != 1 {
		t.Errorf("dead letters of ops: %+v, %v, want the summary", page, err)
	}
	before := store.looked.Load()
	stopThird := start(t, newEngine(t, store, change))
	rig.WaitFor(t, func() bool { return store.looked.Load() >= before+20 })
	stopThird()
	got := ops.got()
	if len(got) != 1 || !strings.HasPrefix(got[0].ID, driver.SummaryPrefix) || !strings.Contains(got[0].Body, `"event_id":"1"`) ||
		strings.Contains(got[0].Body, "canary") {
		t.Errorf("told %+v, want one summary of event 1", got)
	}
	if n := len(app.got()); n != 1 {
		t.Errorf("app got %d messages, want its event and no summary", n)
	}
}

// laterPGX is later for handlers.
type laterPGX struct{ *hookpgx.Store }

func (s laterPGX) Now(ctx context.Context) (time.Time, error) {
	return (&later{Store: s.Store}).Now(ctx)
}

func TestOnDeadOfHandlers(t *testing.T) {
	t.Parallel()
	store, ok := onPGX(t).db.(*hookpgx.Store)
	if !ok {
		t.Fatal("the library on pgx has another store")
	}
	mux := &hookpgx.Mux{}
	hookonce.Handle(mux, "gh", "*", func(context.Context, pgx.Tx, *hookonce.Event) error {
		return hookonce.Permanent(errors.New("unknown customer 17"))
	})
	ops := newSink(t)
	cfg := settings("")
	cfg.Destinations = []hookonce.Destination{{Name: "ops", URL: ops.URL, AllowPrivate: true}}
	cfg.OnDead = "ops"
	in, err := hookonce.New(laterPGX{store}, mux, cfg)
	if err != nil {
		t.Fatal(err)
	}
	run(t, in)
	deliver(in, delivery("1", "{}"))
	rig.WaitFor(t, func() bool { return len(ops.got()) > 0 })
	if got := ops.got()[0].Body; !strings.Contains(got, `{"destination":"","source":"gh","error_signature":"unknown customer #","count":1}`) {
		t.Errorf("told %s", got)
	}
}

func TestOnDeadIsChecked(t *testing.T) {
	t.Parallel()
	sender := hookonce.SenderFunc(func(context.Context, *hookonce.Outgoing) error { return nil })
	good := &hookonce.Config{Destinations: []hookonce.Destination{{Name: "a", Sender: sender, OnDead: "b"}, {Name: "b", Sender: sender, OnDead: "a"}}, OnDead: "b"}
	in, err := hookonce.NewEngine(rig.OpenSQLite(t), good)
	if err != nil {
		t.Fatal(err)
	}
	for want, destinations := range map[string][]hookonce.Destination{
		`destination "a": OnDead names the destination itself`:                {{Name: "a", Sender: sender, OnDead: "a"}, {Name: "b", Sender: sender}},
		`destination "b": OnDead names "c", and there is no such destination`: {{Name: "b", Sender: sender, OnDead: "c"}},
		`Config.OnDead names "b", and there is no such destination`:           {{Name: "a", Sender: sender}},
	} {
		if err := in.Reload(&hookonce.Config{Destinations: destinations}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
}
