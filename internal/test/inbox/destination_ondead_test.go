package inbox_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookpgx"
	"github.com/hookonce/hookonce/internal/test/dbtest"
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

// A gateway tells of events that SQL consumers failed for good, and of those that a route was undecided
// about: the destination of the route's destination, and that of the source.
func TestOnDeadOfAGateway(t *testing.T) {
	t.Parallel()
	dsn, schema := dbtest.Postgres(t)
	pool, err := pgxpool.New(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	db, err := hookpgx.NewWithOptions(pool, &hookpgx.Options{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	migrate(t, db)
	app, ops, desk := newSink(t), newSink(t), newSink(t)
	in := newEngine(t, &later{Store: db}, func(c *hookonce.Config) {
		c.Sources[0].Consume, c.Sources[0].OnDead = hookonce.ConsumeSQL, "ops"
		c.Destinations = []hookonce.Destination{
			{Name: "app", URL: app.URL, AllowPrivate: true, OnDead: "desk"},
			{Name: "ops", URL: ops.URL, AllowPrivate: true},
			{Name: "desk", URL: desk.URL, AllowPrivate: true},
		}
		c.Routes = []hookonce.Route{{Name: "odd", To: "app", Where: func(ev *hookonce.Event) (bool, error) {
			if ev.ID == "undecided" {
				return false, hookonce.ErrUndecided
			}
			return false, nil
		}}}
	})
	for _, id := range []string{"failed", "undecided"} {
		if got := deliver(in, delivery(id, "{}")); got != ok {
			t.Fatalf("answer %+v", got)
		}
	}
	if _, err := pool.Exec(t.Context(), "SELECT "+pgx.Identifier{schema, "fail"}.Sanitize()+"('gh', 'failed', 'no order 17', permanent => true)"); err != nil {
		t.Fatal(err)
	}
	run(t, in)
	const (
		byConsumer = `{"destination":"","source":"gh","error_signature":"no order #","count":1}`
		byRoute    = `{"destination":"","source":"gh","error_signature":"where undecided: odd","count":1}`
	)
	// One minute may end between the two deaths, so there may be two summaries.
	told := func(s *sink) (all string) {
		for _, r := range s.got() {
			all += r.Body
		}
		return all
	}
	rig.WaitFor(t, func() bool {
		all := told(ops)
		return strings.Contains(all, byConsumer) && strings.Contains(all, byRoute) && strings.Contains(told(desk), byRoute)
	})
	if got := told(desk); strings.Contains(got, "no order") {
		t.Errorf("the destination of the messages was told of an event of the consumer: %s", got)
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
	source := &hookonce.Config{Sources: settings("").Sources, Destinations: good.Destinations}
	source.Sources[0].OnDead = "c"
	if err := in.Reload(source); err == nil || !strings.Contains(err.Error(), `source "gh": OnDead names "c", and there is no such destination`) {
		t.Errorf("error %v", err)
	}
}
