package relay_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	_ "modernc.org/sqlite"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookmigrate"
	"github.com/hookonce/hookonce/hooksql"
	"github.com/hookonce/hookonce/internal/guard"
	"github.com/hookonce/hookonce/internal/limit"
	"github.com/hookonce/hookonce/internal/relay"
	"github.com/hookonce/hookonce/internal/send"
)

// openStore opens a fresh SQLite store.
func openStore(t *testing.T) driver.Store {
	t.Helper()
	store, err := hooksql.OpenSQLite("sqlite", filepath.Join(t.TempDir(), "hookonce.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Errorf("closing the store: %v", err)
		}
	})
	if _, err := hookmigrate.Up(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	return store
}

// lines is a log.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) all() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func wantLine(t *testing.T, log *lines, want string) {
	t.Helper()
	if n := strings.Count(log.all(), want); n != 1 {
		t.Errorf("%d lines with %q, want one, in:\n%s", n, want, log.all())
	}
}

// newClaim returns a claim of the source "lab" with one message to the destination "app".
func newClaim(id, body string) driver.Claim {
	key := driver.EventKey("lab", id)
	return driver.Claim{
		Key: key, Source: "lab", EventID: id, Headers: []byte("{}"), Body: []byte(body),
		Messages: []driver.NewMessage{{ID: driver.MessageID(key, 0, "r"), Route: "r", Destination: "app"}},
	}
}

func claimAll(t *testing.T, store driver.Store, all []driver.Claim) {
	t.Helper()
	slices.SortFunc(all, func(a, b driver.Claim) int { return bytes.Compare(a.Key[:], b.Key[:]) })
	if _, err := store.Claim(t.Context(), &driver.ClaimParams{Claims: all}); err != nil {
		t.Fatal(err)
	}
}

func claim(t *testing.T, store driver.Store, id, body string) {
	t.Helper()
	claimAll(t, store, []driver.Claim{newClaim(id, body)})
}

// claimMany claims n events in one commit, of the ids "0", "1" and so on.
func claimMany(t *testing.T, store driver.Store, n int, body string) {
	t.Helper()
	var all []driver.Claim
	for i := range n {
		all = append(all, newClaim(fmt.Sprint(i), body))
	}
	claimAll(t, store, all)
}

// sender sends a message. A destination calls it instead of HTTP.
type sender func(ctx context.Context, m *driver.Message) error

// destination returns the destination "app", which has three attempts at once.
func destination(send sender, change func(*relay.Destination)) *relay.Destination {
	d := &relay.Destination{
		Name: "app", Timeout: 30 * time.Second, Concurrency: 16, Rate: limit.New(0, 0),
		Retry: driver.Retry{Attempts: 3, First: time.Millisecond, Max: time.Millisecond},
	}
	if send != nil {
		d.Sender = func(ctx context.Context, m *driver.Message, _ http.Header) error { return send(ctx, m) }
	}
	if change != nil {
		change(d)
	}
	if d.Circuit == nil {
		d.Circuit = relay.NewCircuit(d.Retry)
	}
	return d
}

// byHTTP sets where d sends to.
func byHTTP(url string) func(*relay.Destination) {
	return func(d *relay.Destination) {
		d.HTTP = send.Target{URL: url, Timeout: d.Timeout, AllowPrivate: true}
	}
}

// set replaces the destinations of g by these.
func set(g *relay.Group, all ...*relay.Destination) {
	byName := make(map[string]*relay.Destination)
	for _, d := range all {
		byName[d.Name] = d
	}
	g.Set(byName)
}

// newGroup returns a group that sends to these destinations once it runs. No message is stale.
func newGroup(store relay.Store, change func(*relay.Options), all ...*relay.Destination) *relay.Group {
	o := relay.Options{
		HTTP: send.New(nil), Log: slog.New(slog.DiscardHandler), Observe: func(*relay.Observed) {},
		ObjectOf: func(*driver.Message) (driver.ObjectVersion, bool) { return driver.ObjectVersion{}, false },
	}
	if change != nil {
		change(&o)
	}
	g := relay.NewGroup(store, o)
	set(g, all...)
	return g
}

// logTo makes a group log to l.
func logTo(l *lines) func(*relay.Options) {
	return func(o *relay.Options) { o.Log = slog.New(slog.NewTextHandler(l, nil)) }
}

// run runs g until the returned function is called, at the latest until the end of the test.
func run(t *testing.T, g *relay.Group) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		g.Run(ctx)
	}()
	stop = func() { cancel(); <-ended }
	t.Cleanup(stop)
	return stop
}

// waitFor polls until state reports true.
func waitFor(t *testing.T, state func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.After(time.Minute)
	for !state() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("the state was not reached within a minute")
		}
	}
}

func eventOf(t *testing.T, store driver.Store, id string) *driver.EventDetail {
	t.Helper()
	ev, err := store.Event(t.Context(), "lab", id)
	if err != nil {
		t.Fatal(err)
	}
	return ev
}

// messageOf returns the only message of an event.
func messageOf(t *testing.T, store driver.Store, id string) driver.MessageDetail {
	t.Helper()
	return eventOf(t, store, id).Messages[0]
}

// settled waits until the message of an event is in a state, and returns the event.
func settled(t *testing.T, store driver.Store, id, state string) *driver.EventDetail {
	t.Helper()
	waitFor(t, func() bool { return messageOf(t, store, id).State == state })
	return eventOf(t, store, id)
}

// triesOf returns the recorded attempts of an event as text.
func triesOf(ev *driver.EventDetail) string {
	var all []string
	for _, try := range ev.Tries {
		text := fmt.Sprint(try.Number, " ", try.Outcome)
		if try.StatusCode != 0 {
			text += fmt.Sprint(" ", try.StatusCode)
		}
		if try.Error != "" {
			text += ": " + try.Error
		}
		all = append(all, text)
	}
	return strings.Join(all, "; ")
}

func TestOutcomes(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		send     func(attempt int) error
		state    string
		tries    string
		observed []string
	}{
		"sent": {func(int) error { return nil }, driver.StateSent, "1 sent", []string{"sent"}},
		"retried": {func(attempt int) error {
			if attempt < 3 {
				return errors.New("busy")
			}
			return nil
		}, driver.StateSent, "1 retry: busy; 2 retry: busy; 3 sent", []string{"retry", "retry", "sent"}},
		"out of attempts": {
			func(int) error { return errors.New("busy") },
			driver.StateDead, "1 retry: busy; 2 retry: busy; 3 dead: busy",
			[]string{"retry", "retry", "dead"},
		},
		"permanent": {
			func(int) error { return guard.Permanent(errors.New("no such user")) },
			driver.StateDead, "1 dead: no such user",
			[]string{"dead"},
		},
		"panic": {func(attempt int) error {
			if attempt == 1 {
				panic("boom")
			}
			return nil
		}, driver.StateSent, "1 retry: the Sender panicked: boom; 2 sent", []string{"retry", "sent"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := openStore(t)
			claim(t, store, "1", "the body")
			var observed []string
			stop := run(t, newGroup(store, func(o *relay.Options) {
				o.Observe = func(seen *relay.Observed) { observed = append(observed, seen.Outcome) }
			}, destination(func(_ context.Context, m *driver.Message) error {
				if string(m.Body) != "the body" || m.EventID != "1" || m.ID != driver.MessageID(m.Key, 0, "r") {
					t.Errorf("message %s of event %s with body %q", m.ID, m.EventID, m.Body)
				}
				return tt.send(m.Attempt)
			}, nil)))
			ev := settled(t, store, "1", tt.state)
			stop()
			if got := triesOf(ev); got != tt.tries {
				t.Errorf("attempts %q, want %q", got, tt.tries)
			}
			if diff := cmp.Diff(tt.observed, observed); diff != "" {
				t.Errorf("observed (-want +got):\n%s", diff)
			}
		})
	}
}

// answers is an HTTP destination that answers with the next of its statuses, and with 200 when they
// are used up.
type answers struct {
	url string

	mu       sync.Mutex
	statuses []int
	bodies   []string // of the requests
}

func newAnswers(t *testing.T, statuses ...int) *answers {
	a := &answers{statuses: statuses}
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	a.url = server.URL
	return a
}

func (a *answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.bodies = append(a.bodies, string(body))
	status := http.StatusOK
	if len(a.statuses) > 0 {
		status, a.statuses = a.statuses[0], a.statuses[1:]
	}
	_, _ = fmt.Sscanf(string(body), `{"refuse":%d}`, &status) // the body decides, if it says so
	if status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "3600")
	}
	w.WriteHeader(status)
	io.WriteString(w, strings.ToLower(http.StatusText(status)))
}

func (a *answers) got() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.bodies)
}

func TestAnswersOverHTTP(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		statuses []int
		state    string
		tries    string
	}{
		"sent":            {nil, driver.StateSent, "1 sent 200"},
		"retried":         {[]int{500, 404}, driver.StateSent, "1 retry 500: answered 500 Internal Server Error: internal server error; 2 retry 404: answered 404 Not Found: not found; 3 sent 200"},
		"out of attempts": {[]int{302, 503, 401}, driver.StateDead, "1 retry 302: answered 302 Found: found; 2 retry 503: answered 503 Service Unavailable: service unavailable; 3 dead 401: answered 401 Unauthorized: unauthorized"},
		"gone":            {[]int{410}, driver.StateDead, "1 dead 410: answered 410 Gone: gone"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := openStore(t)
			claim(t, store, "1", "{}")
			run(t, newGroup(store, nil, destination(nil, byHTTP(newAnswers(t, tt.statuses...).url))))
			if got := triesOf(settled(t, store, "1", tt.state)); got != tt.tries {
				t.Errorf("attempts %q, want %q", got, tt.tries)
			}
		})
	}
}

// The destination's own delay: at least Retry-After over HTTP, exactly the delay of a Sender.
func TestDelayOfTheDestination(t *testing.T) {
	t.Parallel()
	later := func(context.Context, *driver.Message) error { return guard.RetryAfter(time.Hour, errors.New("busy")) }
	for name, tt := range map[string]struct {
		send     sender
		schedule time.Duration
		least    time.Duration
	}{
		"HTTP":                       {nil, time.Millisecond, time.Hour - 10*time.Minute},
		"Sender, later than planned": {later, time.Millisecond, time.Hour - 10*time.Minute},
		"Sender, earlier":            {later, 1000 * time.Hour, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := openStore(t)
			claim(t, store, "1", "{}")
			url := newAnswers(t, 429).url
			run(t, newGroup(store, nil, destination(tt.send, func(d *relay.Destination) {
				byHTTP(url)(d)
				d.Retry.First, d.Retry.Max = tt.schedule, tt.schedule
			})))
			waitFor(t, func() bool { return len(eventOf(t, store, "1").Tries) == 1 })
			now, err := store.Now(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if due := messageOf(t, store, "1").DueAt.Sub(now); due < tt.least || due > time.Hour {
				t.Errorf("due in %s, want %s to 1h", due, tt.least)
			}
		})
	}
}

// A store that cannot lease delays messages, and loses none.
func TestLeasingAfterAnOutage(t *testing.T) {
	t.Parallel()
	store, log := &leaseStore{Store: openStore(t)}, &lines{}
	store.fails.Store(2)
	claim(t, store, "1", "{}")
	g := newGroup(store, logTo(log), destination(func(context.Context, *driver.Message) error { return nil }, func(d *relay.Destination) {
		d.Rate = limit.New(1, time.Hour) // a failed lease keeps no token
	}))
	run(t, g)
	waitFor(t, func() bool { g.Wake("app"); return store.fails.Load() <= 0 })
	if ev := settled(t, store, "1", driver.StateSent); ev.Attempts != 1 {
		t.Errorf("%d attempts, want 1", ev.Attempts)
	}
	wantLine(t, log, "leasing messages failed; retrying every second") // once for both failures
}

// leaseStore is a real store whose leases can fail or be observed.
type leaseStore struct {
	driver.Store
	fails  atomic.Int64
	change func(*driver.LeaseParams) // nil changes nothing
	leased func()                    // after each lease of messages; nil does nothing
	calls  atomic.Int64
}

func (s *leaseStore) Lease(ctx context.Context, p *driver.LeaseParams) (*driver.Leased, error) {
	s.calls.Add(1)
	if s.fails.Add(-1) >= 0 {
		return nil, driver.ErrUnavailable
	}
	if s.change != nil {
		s.change(p)
	}
	leased, err := s.Store.Lease(ctx, p)
	if err == nil && len(leased.Messages) > 0 && s.leased != nil {
		s.leased()
	}
	return leased, err
}

func TestLeaseOutlivesItsSend(t *testing.T) {
	t.Parallel()
	var leasedFor atomic.Int64
	store := &leaseStore{Store: openStore(t), change: func(p *driver.LeaseParams) { leasedFor.Store(int64(p.For)) }}
	run(t, newGroup(store, nil, destination(nil, func(d *relay.Destination) { d.Timeout = 40 * time.Second })))
	waitFor(t, func() bool { return leasedFor.Load() != 0 })
	if got := time.Duration(leasedFor.Load()); got != 45*time.Second {
		t.Errorf("messages are leased for %s, want the timeout and 5 s", got)
	}
}

// lose leases up to n messages, as another process does that ends at once: the leases have expired.
func lose(t *testing.T, store driver.Store, n int) []driver.Message {
	t.Helper()
	leased, err := store.Lease(t.Context(), &driver.LeaseParams{Destination: "app", Limit: n, For: -time.Second, MaxAttempts: 9})
	if err != nil || len(leased.Messages) != n {
		t.Fatalf("leased %+v, error %v, want %d messages", leased, err, n)
	}
	return leased.Messages
}

// Another relay sends messages whose leases expired, and reports messages without further attempts.
func TestExpiredLeases(t *testing.T) {
	t.Parallel()
	store, log := openStore(t), &lines{}
	claim(t, store, "a", "{}")
	claim(t, store, "b", "{}")
	lost := lose(t, store, 2)
	twice := lose(t, store, 1)[0] // its second lease, and its last
	stop := run(t, newGroup(store, logTo(log), destination(func(context.Context, *driver.Message) error { return nil },
		func(d *relay.Destination) { d.Retry.Attempts = 2 })))
	once := "a"
	if twice.EventID == once {
		once = "b"
	}
	ev := settled(t, store, once, driver.StateSent)
	settled(t, store, twice.EventID, driver.StateDead)
	stop()
	if got, want := triesOf(ev), "1 retry: "+driver.ErrorLeaseRanOut+"; 2 sent"; got != want {
		t.Errorf("attempts %q, want %q", got, want)
	}
	wantLine(t, log, `"leases expired; sending their messages again" destination=app messages=1`)
	wantLine(t, log, `"dead: its attempts are used up" destination=app source=lab event_id=`+twice.EventID)

	// The outcomes of the lost leases are fenced: they change nothing.
	p := &driver.CompleteParams{}
	for _, m := range lost {
		p.Completions = append(p.Completions, driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageRetry, Error: "too late"})
	}
	held, err := store.Complete(t.Context(), p)
	if err != nil || slices.Contains(held, true) {
		t.Errorf("leases held %v, error %v; want none", held, err)
	}
	if a, b := messageOf(t, store, once).State, messageOf(t, store, twice.EventID).State; a != driver.StateSent || b != driver.StateDead {
		t.Errorf("the messages are %s and %s, want them sent and dead", a, b)
	}
}

// A relay whose lease was taken over drops its outcome.
func TestFencedOutcome(t *testing.T) {
	t.Parallel()
	inner, log := openStore(t), &lines{}
	store := &leaseStore{Store: inner, change: func(p *driver.LeaseParams) { p.For = -time.Second }}
	claim(t, store, "1", "{}")
	began, release := make(chan struct{}), make(chan struct{})
	stop := run(t, newGroup(store, logTo(log), destination(func(context.Context, *driver.Message) error {
		close(began)
		<-release
		return guard.Permanent(errors.New("refused"))
	}, func(d *relay.Destination) { d.Concurrency = 1 }))) // so that it does not lease the message again
	<-began
	leased, err := inner.Lease(t.Context(), &driver.LeaseParams{Destination: "app", Limit: 1, For: time.Minute, MaxAttempts: 9})
	if err != nil || len(leased.Messages) != 1 || !leased.Messages[0].Expired {
		t.Fatalf("leased %+v, error %v, want the expired message", leased, err)
	}
	close(release)
	stop()
	wantLine(t, log, "outcome dropped: the lease was lost before")
	if m := messageOf(t, store, "1"); m.State != driver.StateSending || m.Attempts != 2 {
		t.Errorf("the message is %s after %d attempts, want it sending under the second lease", m.State, m.Attempts)
	}
	done := driver.Completion{ID: leased.Messages[0].ID, Token: leased.Messages[0].Token, Outcome: driver.MessageSent}
	if held, err := inner.Complete(t.Context(), &driver.CompleteParams{Completions: []driver.Completion{done}}); err != nil || !held[0] {
		t.Errorf("the second lease is held: %v, error %v", held, err)
	}
	if got := messageOf(t, store, "1").State; got != driver.StateSent {
		t.Errorf("the message is %s, want sent", got)
	}
}

// With a cooldown of a minute, no message follows the failures that open the circuit, so the number
// of attempts stays.
func TestOpenCircuitSpendsNoAttempts(t *testing.T) {
	t.Parallel()
	const events = 15
	store := openStore(t)
	claimMany(t, store, events, "{}")
	var calls atomic.Int64
	d := destination(func(context.Context, *driver.Message) error {
		calls.Add(1)
		return errors.New("down")
	}, func(d *relay.Destination) {
		d.Concurrency, d.Retry = 1, driver.Retry{Attempts: 2, First: time.Minute, Max: time.Minute}
	})
	stop := run(t, newGroup(store, nil, d))
	waitFor(t, func() bool { return d.Circuit.Status().Open })
	stop()
	if got := d.Circuit.Status().Failures; got != 10 || calls.Load() != 10 {
		t.Errorf("%d failures in a row, %d calls; want 10 of both", got, calls.Load())
	}
	spent := 0
	for i := range events {
		m := messageOf(t, store, fmt.Sprint(i))
		spent += m.Attempts
		if m.State != driver.StatePending {
			t.Errorf("message %d is %s, want pending", i, m.State)
		}
	}
	if spent != 10 {
		t.Errorf("%d attempts were spent, want 10", spent)
	}
}

func TestCircuitClosesWhenTheDestinationIsBack(t *testing.T) {
	t.Parallel()
	const events, failures = 15, 13
	store, log := openStore(t), &lines{}
	claimMany(t, store, events, "{}")
	var calls atomic.Int64
	d := destination(func(context.Context, *driver.Message) error {
		if calls.Add(1) <= failures {
			return errors.New("down")
		}
		return nil
	}, func(d *relay.Destination) {
		d.Concurrency, d.Retry = 1, driver.Retry{Attempts: 5, First: 5 * time.Millisecond, Max: 5 * time.Millisecond}
	})
	run(t, newGroup(store, logTo(log), d))
	for i := range events {
		settled(t, store, fmt.Sprint(i), driver.StateSent)
	}
	if n := calls.Load(); n != events+failures {
		t.Errorf("%d calls, want %d", n, events+failures)
	}
	if got := d.Circuit.Status(); got != (relay.CircuitStatus{}) {
		t.Errorf("circuit %+v, want it closed", got)
	}
	wantLine(t, log, "circuit opened")
	wantLine(t, log, "circuit closed")
}

// Bad messages do not delay good ones for long: refused messages leave the circuit closed, and an
// open circuit lets untried messages through.
func TestBadMessagesDelayNoOthers(t *testing.T) {
	t.Parallel()
	const bad = 30
	for status, most := range map[int]int{
		400: bad + 1, // each once, in their order
		500: 12,      // those that open the circuit, and two probes
	} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			store, app := openStore(t), newAnswers(t)
			claimMany(t, store, bad, fmt.Sprintf(`{"refuse":%d}`, status))
			claim(t, store, "good", "{}")
			d := destination(nil, func(d *relay.Destination) {
				d.Concurrency, d.Retry = 1, driver.Retry{Attempts: 20, First: 20 * time.Millisecond, Max: time.Hour}
				byHTTP(app.url)(d)
			})
			run(t, newGroup(store, nil, d))
			settled(t, store, "good", driver.StateSent)
			place := slices.Index(app.got(), "{}") + 1
			if status == 500 && place > most {
				t.Errorf("the good message was number %d, want it among the first %d", place, most)
			}
			if status == 400 && d.Circuit.Status().Open {
				t.Error("refused messages opened the circuit")
			}
		})
	}
}

// A rate that is used up holds messages back, and costs them no attempt.
func TestUsedUpRate(t *testing.T) {
	t.Parallel()
	store := openStore(t)
	claimMany(t, store, 5, "{}")
	var calls atomic.Int64
	g := newGroup(store, nil, destination(func(context.Context, *driver.Message) error {
		calls.Add(1)
		return nil
	}, func(d *relay.Destination) { d.Rate = limit.New(2, time.Hour) }))
	stop := run(t, g)
	waitFor(t, func() bool { g.WakeAll(); return calls.Load() == 2 })
	stop()
	states := make(map[string]int)
	for i := range 5 {
		m := messageOf(t, store, fmt.Sprint(i))
		states[fmt.Sprintf("%s after %d", m.State, m.Attempts)]++
	}
	if diff := cmp.Diff(map[string]int{"sent after 1": 2, "pending after 0": 3}, states); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}
