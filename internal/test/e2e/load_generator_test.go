package e2e

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hookonce/hookonce/internal/test/eventually"
)

// seedVariable names the environment variable that repeats the random choices of a run. The timing
// of processes is not repeated.
const seedVariable = "HOOKONCE_TEST_SEED"

// loadSettings have a short timeout, so that the leases of a killed gateway run out within a test:
// a lease lasts the timeout plus 5 s.
const loadSettings = `
database: ${DATABASE_URL}
sources:
  github:
    provider: github
    secrets: ["${GITHUB_WEBHOOK_SECRET}"]
destinations:
  app:
    url: ${SINK}/hooks
    secret: ${DESTINATION_SECRET}
    timeout: 1s
    concurrency: 8
    retry: {attempts: 100, first: 20ms, max: 200ms}
routes:
  - {name: all, to: app}
`

const (
	loadSenders = 12
	// loadInterval is the time between two new events of all senders together. It leaves processor
	// time for starting gateways.
	loadInterval = 4 * time.Millisecond
	// loadOpen is how many events may be on their way to the destination.
	loadOpen = 400
	// senderTimeout is how long a sender waits for an answer before it repeats the delivery. It is
	// longer than ack_timeout.
	senderTimeout = 5 * time.Second
	senderPause   = 10 * time.Millisecond
)

// load delivers events to gateways that are killed meanwhile. It is also the destination of those
// events, and keeps a record of its deliveries, their answers and the requests.
type load struct {
	t      testing.TB
	world  *world
	server *httptest.Server
	seed   uint64
	random *rand.Rand // for the test itself; each sender has its own
	places []*place

	senders sync.WaitGroup
	enough  chan struct{}
	room    chan struct{} // holds one token for each event on its way to the destination

	mu       sync.Mutex
	events   map[string]*loadEvent
	ids      []string          // of events, in the order of creation
	owners   map[string]string // webhook-id -> event id
	underWay map[*arrival]bool // requests at the destination
	plan     func(*arrival) plan
	figures  figures
	goal     int // reached is closed after this many acknowledged deliveries
	reached  chan struct{}
}

// place is where one gateway runs and, after a kill, the next one.
type place struct {
	name string
	up   atomic.Pointer[gateway] // nil while none listens
}

// loadEvent is an event with its record. The load's mutex guards all but the first line.
type loadEvent struct {
	id       string
	delivery *delivery
	sum      [sha256.Size]byte

	acked    bool
	claimed  int // answers "ok"
	keys     map[string]bool
	requests int // at the destination
	accepted int // how many of them it answered 2xx
	attempt  int // the highest Hookonce-Attempt
}

// newLoad prepares a load on gateways with these settings, one in each place.
func newLoad(t testing.TB, db *database, settings string, places ...string) *load {
	t.Helper()
	seed := rand.Uint64()
	if text := os.Getenv(seedVariable); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("%s: %v", seedVariable, err)
		}
	}
	t.Logf("%s=%d repeats the random choices of this run", seedVariable, seed)
	l := &load{
		t: t, world: newWorld(t, db, settings), seed: seed, random: rand.New(rand.NewPCG(seed, 0)),
		enough: make(chan struct{}), room: make(chan struct{}, loadOpen),
		events: make(map[string]*loadEvent), owners: make(map[string]string), underWay: make(map[*arrival]bool),
	}
	l.plan = l.roughly
	l.server = httptest.NewServer(l)
	t.Cleanup(l.server.Close)
	for _, name := range places {
		l.places = append(l.places, &place{name: name})
	}
	return l
}

// spawn starts a gateway in a place and does not wait until it listens. The place is part of the
// destination's URL, so that the destination can tell the gateways apart.
func (l *load) spawn(p *place) *gateway {
	l.t.Helper()
	w := *l.world
	w.env = append(slices.Clone(w.env), "SINK="+l.server.URL+"/"+p.name)
	g := w.spawn(l.t, "--config", "hookonce.yaml")
	g.client.Timeout = senderTimeout
	return g
}

// start starts a gateway in a place, and makes it known to the senders.
func (l *load) start(p *place) *gateway {
	l.t.Helper()
	g := l.spawn(p)
	g.public, g.admin = g.Addresses(l.t)
	p.up.Store(g)
	return g
}

// startAll starts a gateway in each place, and the load on them.
func (l *load) startAll() {
	l.t.Helper()
	for _, p := range l.places {
		l.start(p).waitReady(l.t)
	}
	tick := time.NewTicker(loadInterval)
	for n := range loadSenders {
		l.senders.Go(func() { l.send(rand.New(rand.NewPCG(l.seed, uint64(n)+1)), n, tick.C) })
	}
	l.t.Cleanup(func() {
		l.senders.Wait() // returns, because the test's context has ended
		tick.Stop()
	})
}

// finish ends the load: the senders deliver their current events until those are acknowledged.
func (l *load) finish() {
	close(l.enough)
	l.senders.Wait()
}

// send is one sender: it makes events until the load ends.
func (l *load) send(r *rand.Rand, sender int, tick <-chan time.Time) {
	for n := 0; ; n++ {
		select {
		case <-l.enough:
			return
		case <-l.t.Context().Done():
			return
		case l.room <- struct{}{}:
		}
		select {
		case <-l.enough: // the load has ended, so the token is not returned
			return
		case <-l.t.Context().Done():
			return
		case <-tick:
		}
		ev := l.newEvent(r, fmt.Sprintf("s%d-%d", sender, n))
		var copies sync.WaitGroup
		for i := range copiesOf(r) {
			copies.Go(func() { l.deliver(ev, n+i) })
		}
		copies.Wait()
		if r.IntN(16) == 0 {
			l.deliver(l.earlier(r), n) // like a sender that lost the answer
		}
	}
}

// copiesOf returns how many copies of an event are delivered at once.
func copiesOf(r *rand.Rand) int {
	if r.IntN(8) == 0 {
		return 2 + r.IntN(3)
	}
	return 1
}

// newEvent makes an event with a binary body, seldom a large one.
func (l *load) newEvent(r *rand.Rand, id string) *loadEvent {
	size := r.IntN(1500)
	if r.IntN(64) == 0 {
		size = 100_000
	}
	body := []byte(id)
	for range size / 8 {
		body = binary.LittleEndian.AppendUint64(body, r.Uint64())
	}
	ev := &loadEvent{
		id: id, delivery: githubDelivery(id, "push", string(body)), sum: sha256.Sum256(body),
		keys: make(map[string]bool),
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events[id] = ev
	l.ids = append(l.ids, id)
	return ev
}

// earlier returns a random event among those made so far.
func (l *load) earlier(r *rand.Rand) *loadEvent {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.events[l.ids[r.IntN(len(l.ids))]]
}

// deliver repeats a delivery until it is acknowledged, each time to the gateway in the next place.
func (l *load) deliver(ev *loadEvent, at int) {
	for began := time.Now(); time.Since(began) < eventually.Bound; at++ {
		if g := l.places[at%len(l.places)].up.Load(); g != nil && l.answered(ev, g) {
			return
		}
		select {
		case <-l.t.Context().Done():
			return // the test has failed elsewhere
		case <-time.After(senderPause):
		}
	}
	l.t.Errorf("%s was not acknowledged within %s", ev.id, eventually.Bound)
}

// answered makes a delivery once and reports whether it is acknowledged.
func (l *load) answered(ev *loadEvent, g *gateway) bool {
	a, err := g.tryDeliver(ev.delivery)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil && cutOff(err):
		l.figures.cutDeliveries++
		return false
	case err != nil:
		l.t.Errorf("%s: %v", ev.id, err)
		return false
	case a.status == http.StatusServiceUnavailable:
		l.figures.unavailable++
		return false
	case a.short() == "200 ok":
		if ev.claimed++; ev.claimed > 1 {
			l.t.Errorf("%s was answered ok twice, so it was claimed twice", ev.id)
		}
	case a.short() == "200 duplicate":
		l.figures.duplicates++
	default:
		l.t.Errorf("%s: answered %s: %s", ev.id, a.short(), a.text)
		return false
	}
	ev.acked = true
	l.figures.acked++
	if l.figures.acked == l.goal {
		close(l.reached)
	}
	return true
}

// cutOff reports whether err is a connection error, not a bad answer.
func cutOff(err error) bool {
	var inClient *url.Error
	var inNetwork net.Error
	return errors.As(err, &inClient) || errors.As(err, &inNetwork) || errors.Is(err, io.ErrUnexpectedEOF)
}

// waitAcks waits until n more deliveries are acknowledged.
func (l *load) waitAcks(n int) {
	l.t.Helper()
	reached := make(chan struct{})
	l.mu.Lock()
	l.goal, l.reached = l.figures.acked+n, reached
	l.mu.Unlock()
	eventually.Receive(l.t, fmt.Sprintf("%d deliveries are acknowledged", n), reached)
}

// waitRandomMoment waits for a random number of acknowledged deliveries, at most acks, and then for
// a few milliseconds, so that the next step meets every phase of the work and not only the one
// after an answer.
func (l *load) waitRandomMoment(acks int) {
	l.t.Helper()
	l.waitAcks(1 + l.random.IntN(acks))
	<-time.After(time.Duration(l.random.IntN(20_000)) * time.Microsecond)
}
