package e2e

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/group"
)

const reconcileSettings = `
database: ${DATABASE_URL}
dedupe_window: 10d
sources:
  stripe:
    provider: stripe
    secrets: ["${STRIPE_WEBHOOK_SECRET}"]
    reconcile: {key: "${API_KEY}", url: "${API}", every: 1m, delay: 1ms}
destinations:
  app: {url: "${SINK}/app", retry: {first: 100ms, max: 1s, attempts: 1000}}
routes: [{name: all, to: app}]
`

// providerList is the list of events of a provider, newest first in pages of 100. Now and then it answers as an API does that
// is overloaded, restarts, or limits the rate.
type providerList struct {
	mu      sync.Mutex
	events  []json.RawMessage // oldest first
	created []int64
	place   map[string]int
	read    atomic.Int64 // requests
	fails   int64        // of so many requests three fail
}

func (l *providerList) add(id string) json.RawMessage {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now().Unix()
	body := json.RawMessage(fmt.Sprintf(`{"id":%q,"object":"event","type":"invoice.paid","created":%d}`, id, now))
	l.place[id] = len(l.events)
	l.events, l.created = append(l.events, body), append(l.created, now)
	return body
}

func (l *providerList) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	nth := l.read.Add(1) % l.fails
	switch {
	case r.Header.Get("Authorization") != "Bearer "+apiKey:
		w.WriteHeader(http.StatusUnauthorized)
		return
	case nth == 3:
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
		return
	case nth == 5:
		w.WriteHeader(http.StatusBadGateway)
		return
	case nth == 7: // the connection is cut
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write([]byte(`{"data": [`))
		return
	}
	since, _ := strconv.ParseInt(r.URL.Query().Get("created[gte]"), 10, 64)
	next := len(l.events)
	if after := r.URL.Query().Get("starting_after"); after != "" {
		next = l.place[after]
	}
	page := []json.RawMessage{}
	for next > 0 && len(page) < 100 && l.created[next-1] >= since {
		next--
		page = append(page, l.events[next])
		if len(page) == 50 {
			page = append(page, l.events[next]) // the same id twice
		}
	}
	more := next > 0 && l.created[next-1] >= since
	_ = json.NewEncoder(w).Encode(map[string]any{"object": "list", "data": page, "has_more": more})
}

// eventsVariable sets the number of events of TestReconcileKilled.
const eventsVariable = "HOOKONCE_RECONCILE_EVENTS"

func reconciledEvents(t *testing.T) int {
	text := os.Getenv(eventsVariable)
	if text == "" {
		return group.Rounds(300, 100_000)
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 10 {
		t.Fatalf("%s=%s is no number from 10 on", eventsVariable, text)
	}
	return n
}

// Events come by webhook and are listed at once; a tenth never comes by webhook. Gateways are killed all the time, commands
// reconcile beside them, and the API fails now and then. Each event takes effect once.
func TestReconcileKilled(t *testing.T) {
	eachStore(t, func(t *testing.T, db *database) {
		n := reconciledEvents(t)
		kills := min(12, max(3, n/300))
		list := &providerList{place: map[string]int{}, fails: int64(min(101, 11+n/100))}
		api := httptest.NewServer(list)
		t.Cleanup(api.Close)
		w := newWorld(t, db, reconcileSettings)
		w.env = append(w.env, "API="+api.URL, "API_KEY="+apiKey)
		go func() {
			for range w.sink.arrived { // no one waits for single requests
			}
		}()
		places := make([]atomic.Pointer[gateway], map[string]int{"sqlite": 1, "postgres": 2}[db.store])
		for i := range places {
			places[i].Store(w.start(t))
		}
		session := db.open(t)
		eventually.True(t, "the first look has ended", func() bool {
			return number(t, session, "SELECT count(*) FROM "+db.table("reconcile")+" WHERE ended_at IS NOT NULL") == 1
		})

		var sent atomic.Int64
		var senders sync.WaitGroup
		work := make(chan int)
		for range 8 {
			senders.Go(func() {
				for i := range work {
					id := fmt.Sprintf("evt_%06d", i)
					body := list.add(id)
					for accepted := i%10 == 0; !accepted; { // a tenth is withheld
						g := places[rand.IntN(len(places))].Load()
						a, err := g.tryDeliver(stripeDelivery(time.Now(), string(body)))
						accepted = err == nil && a.status/100 == 2
					}
					sent.Add(1)
				}
			})
		}
		go func() {
			defer close(work)
			for i := range n {
				work <- i
			}
		}()
		look := func() { // as if a minute had passed
			mustExec(t, session, "UPDATE "+db.table("reconcile")+" SET next_at = began_at")
		}
		for kill := range kills {
			for before := sent.Load(); before < int64(n*kill/(kills+1)); before = sent.Load() {
				eventually.True(t, "events are sent", func() bool { return sent.Load() > before })
			}
			look()
			if kill%5 == 0 {
				w.run(t, "reconcile", "stripe", "--since", "1h", "--yes", "--config", "hookonce.yaml") // the API may refuse it
			}
			<-time.After(time.Duration(rand.IntN(300)) * time.Millisecond)
			p := &places[rand.IntN(len(places))]
			p.Load().kill()
			mustExec(t, session, "UPDATE "+db.table("reconcile")+" SET leased_until = began_at") // as if the lease had run out
			p.Store(w.start(t))
		}
		senders.Wait()
		stored := func() bool { return number(t, session, "SELECT count(*) FROM "+db.table("event")) == n }
		for !stored() {
			look()
			before := list.read.Load()
			eventually.True(t, "the list is read further", func() bool { return list.read.Load() > before })
		}
		open := func() int {
			return number(t, session, "SELECT count(*) FROM "+db.table("message")+" WHERE sent_at IS NULL")
		}
		for left := open(); left > 0; left = open() {
			eventually.True(t, "messages are sent", func() bool { return open() < left })
		}
		checkReconciled(t, w, session, n)
	})
}

// checkReconciled counts the effects at the destination: each event under one id.
func checkReconciled(t *testing.T, w *world, session *sql.DB, n int) {
	t.Helper()
	effects := map[string][]string{} // by event
	requests := w.sink.requests("")
	for _, r := range requests {
		if ids := effects[r.eventID()]; !slices.Contains(ids, r.id()) {
			effects[r.eventID()] = append(ids, r.id())
		}
	}
	missing, doubled := 0, 0
	for i := range n {
		switch len(effects[fmt.Sprintf("evt_%06d", i)]) {
		case 0:
			missing++
		case 1:
		default:
			doubled++
		}
	}
	if missing > 0 || doubled > 0 || len(effects) != n {
		t.Errorf("of %d events %d are missing and %d doubled; there are %d in all", n, missing, doubled, len(effects))
	}
	claimed := number(t, session, "SELECT count(*) FROM "+w.db.table("event")+" WHERE remote = 'reconcile'")
	stored := number(t, session, "SELECT count(*) FROM "+w.db.table("event"))
	withheld := (n + 9) / 10
	if claimed < withheld || stored != n {
		t.Errorf("%d events are stored, %d came by reconcile; want %d, and the withheld %d or more", stored, claimed, n, withheld)
	}
	t.Logf("%s: %d events, %d withheld; stored %d, by reconcile %d; at the destination %d events in %d requests: missing %d, doubled %d",
		w.db.store, n, withheld, stored, claimed, len(effects), len(requests), missing, doubled)
}
