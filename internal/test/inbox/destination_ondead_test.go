package inbox_test

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/rig"
)

// later is a store whose clock is ahead, so that a minute is over at once. Its times are those of the
// real clock.
type later struct {
	driver.Driver[*sql.Tx]
	looked atomic.Int64 // calls of NewDead
}

func (s *later) Now(ctx context.Context) (time.Time, error) {
	now, err := s.Driver.Now(ctx)
	return now.Add(2 * time.Minute), err
}

func (s *later) NewDead(ctx context.Context, p *driver.NewDeadParams) ([]driver.NewDead, error) {
	defer s.looked.Add(1)
	return s.Driver.NewDead(ctx, p)
}

// Two gateways send one summary of a dead message. It is refused too, and nothing follows, although
// the two destinations tell each other.
func TestOnDeadTellsOnce(t *testing.T) {
	t.Parallel()
	store := &later{Driver: rig.OpenSQLite(t)}
	app, ops := newSink(t, 410), newSink(t, 410)
	change := func(c *hookonce.Config) {
		sendTo(c, app.URL, hookonce.Retry{})
		c.Destinations[0].OnDead = "ops"
		c.Destinations = append(c.Destinations, hookonce.Destination{Name: "ops", URL: ops.URL, AllowPrivate: true, OnDead: "app"})
	}
	first, second := newEngine(t, store, change), newEngine(t, store, change)
	stopFirst, stopSecond := start(t, first), start(t, second)
	deliver(first, delivery("1", `{"secret":"canary"}`))
	settled(t, store, "1", driver.StateDead)
	eventually.True(t, "ops is told", func() bool { return len(ops.got()) > 0 })
	stopFirst()
	stopSecond()
	// A third gateway looks at the same minutes again, and at that of the death of the summary.
	page, err := store.DeadLetters(t.Context(), &driver.MessageFilter{Destination: "ops"})
	if err != nil || len(page.DeadLetters) != 1 {
		t.Errorf("dead letters of ops: %+v, %v, want the summary", page, err)
	}
	before := store.looked.Load()
	stopThird := start(t, newEngine(t, store, change))
	eventually.True(t, "the third gateway has looked", func() bool { return store.looked.Load() >= before+20 })
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

// A summary goes to the destination of the source, or else to that of the settings. An event that a route
// was undecided about is told to that of the route's destination, too.
func TestOnDeadOfEvents(t *testing.T) {
	t.Parallel()
	l := onSQLite(t)
	l.db = &later{Driver: l.db}
	mux := handling(func(context.Context, *sql.Tx, *hookonce.Event) error {
		return hookonce.Permanent(errors.New("no order 17"))
	})
	hookonce.Handle(mux, "plain", "*", func(context.Context, *sql.Tx, *hookonce.Event) error {
		return hookonce.Permanent(errors.New("unknown customer 17"))
	})
	told := map[string]*sink{"ops": newSink(t), "desk": newSink(t), "all": newSink(t)}
	in := inbox(t, l, mux, func(c *hookonce.Config) {
		addSource(c, "plain", nil)
		c.Sources[0].OnDead, c.OnDead = "ops", "all"
		sendTo(c, newSink(t).URL, hookonce.Retry{})
		c.Destinations[0].OnDead = "desk"
		for name, to := range told {
			c.Destinations = append(c.Destinations, hookonce.Destination{Name: name, URL: to.URL, AllowPrivate: true})
		}
		c.Routes[0].Where = func(ev *hookonce.Event) (bool, error) {
			if ev.ID == "undecided" {
				return false, hookonce.ErrUndecided
			}
			return false, nil
		}
	})
	deliverAll(t, in, "failed", "undecided")
	deliverTo(t, in, "plain", "failed")
	run(t, in)
	const (
		byHandler = `{"destination":"","source":"gh","error_signature":"no order #","count":1}`
		byRoute   = `{"destination":"","source":"gh","error_signature":"where undecided: all","count":1}`
		byPlain   = `{"destination":"","source":"plain","error_signature":"unknown customer #","count":1}`
	)
	// One minute may end between two deaths, so there may be two summaries.
	has := func(name string, parts ...string) bool {
		var all string
		for _, r := range told[name].got() {
			all += r.Body
		}
		return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(all, part) })
	}
	eventually.True(t, "each one is told", func() bool {
		return has("ops", byHandler, byRoute) && has("desk", byRoute) && has("all", byPlain)
	})
	if has("desk", "no order") || has("all", `"source":"gh"`) || has("ops", `"source":"plain"`) {
		t.Error("a destination was told of an event of another one")
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
		`destinations.a.retry.on_dead: a destination cannot be told of its own`: {{Name: "a", Sender: sender, OnDead: "a"}, {Name: "b", Sender: sender}},
		`destinations.b.retry.on_dead: there is no destination "c"`:             {{Name: "b", Sender: sender, OnDead: "c"}},
		`hookonce: on_dead: there is no destination "b"`:                        {{Name: "a", Sender: sender}},
	} {
		if err := in.Reload(&hookonce.Config{Destinations: destinations}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
	source := &hookonce.Config{Sources: settings("").Sources, Destinations: good.Destinations}
	source.Sources[0].OnDead = "c"
	if err := in.Reload(source); err == nil || !strings.Contains(err.Error(), `sources.gh.on_dead: there is no destination "c"`) {
		t.Errorf("error %v", err)
	}
}
