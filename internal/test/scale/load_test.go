package scale

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hookonce/hookonce/internal/test/eventually"
)

const (
	senders = 12
	// interval is the time between two deliveries of all senders together. It leaves processor time to restart
	// gateways.
	interval = 8 * time.Millisecond
	// retryAfter is the pause before the only retry of a sender. A real one waits longer.
	retryAfter = time.Second
	// answerWithin is how long a sender waits for an answer.
	answerWithin = 20 * time.Second
	largeBody    = 100_000 // bytes: HAProxy cannot give such a delivery to another gateway once it has sent it
)

// load is a sender that retries each failed delivery once, with a record of its deliveries.
type load struct {
	address, source string
	name            string // of this load, in the ids of its events
	client          *http.Client
	began           time.Time

	stop    chan struct{}
	running sync.WaitGroup

	mu       sync.Mutex
	events   map[string]*sent
	ids      []string // of events, in the order of creation
	paths    []string // of the sink, where events that are made now must arrive
	counts   counts
	faults   []string
	answered chan struct{} // closed and replaced when a delivery ends
}

// sent is an event of a load.
type sent struct {
	id, body string
	paths    []string // of the sink, where it must arrive
	acked    bool
	ok       int // answers "ok": claims
}

// counts tell what happened to a load.
type counts struct {
	events, deliveries, copies int
	duplicates                 int // answers "duplicate"
	retried                    int // deliveries whose first attempt failed
	failed                     int // deliveries whose second attempt failed, too
	again                      int // requests at the sink that were not the first of their webhook-id
}

// load starts delivering to a source through the balancer. Events must arrive at paths of the sink.
func (c *cluster) load(t testing.TB, source string, paths ...string) *load {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: senders}
	l := &load{
		address: c.address, source: source, name: source + "-" + rand32(), client: &http.Client{Transport: transport, Timeout: answerWithin}, began: time.Now(),
		stop: make(chan struct{}), events: make(map[string]*sent), paths: paths, answered: make(chan struct{}),
	}
	tick := time.NewTicker(interval)
	for n := range senders {
		l.running.Go(func() { l.send(n, tick.C) })
	}
	t.Cleanup(func() {
		l.finish()
		tick.Stop()
		transport.CloseIdleConnections()
	})
	return l
}

// finish ends the load: deliveries that have begun are repeated as usual.
func (l *load) finish() {
	l.mu.Lock()
	select {
	case <-l.stop:
	default:
		close(l.stop)
	}
	l.mu.Unlock()
	l.running.Wait()
}

// expect makes paths those where events must arrive that are made from now on.
func (l *load) expect(paths ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.paths = paths
}

// send is one sender. Nearly a third of its deliveries are copies: half of them at the moment of the first
// delivery, half later.
func (l *load) send(sender int, tick <-chan time.Time) {
	for n := 0; ; n++ {
		select {
		case <-l.stop:
			return
		case <-tick:
		}
		ev := l.newEvent(fmt.Sprintf("%s-%d-%d", l.name, sender, n))
		var copies sync.WaitGroup
		if mathrand.IntN(14) < 3 {
			copies.Go(func() { l.deliver(ev, true) })
		}
		l.deliver(ev, false)
		copies.Wait()
		if mathrand.IntN(14) < 3 {
			l.deliver(l.earlier(), true)
		}
	}
}

func (l *load) newEvent(id string) *sent {
	size := 1000
	if mathrand.IntN(16) == 0 {
		size = largeBody
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	ev := &sent{id: id, body: `{"id":"` + id + `","type":"test","data":"` + strings.Repeat("x", size) + `"}`, paths: l.paths}
	l.events[id] = ev
	l.ids = append(l.ids, id)
	return ev
}

// earlier returns a random event among those made so far.
func (l *load) earlier() *sent {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.events[l.ids[mathrand.IntN(len(l.ids))]]
}

// deliver makes a delivery, and repeats it once if it fails.
func (l *load) deliver(ev *sent, isCopy bool) {
	status, err := l.attempt(ev)
	first := err
	if err != nil {
		<-time.After(retryAfter)
		status, err = l.attempt(ev)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts.deliveries++
	if isCopy {
		l.counts.copies++
	}
	if first != nil {
		l.counts.retried++
	}
	switch {
	case err != nil:
		l.counts.failed++
		l.fault("%s failed twice: %v; %v", ev.id, first, err)
	case status == "ok":
		if ev.ok++; ev.ok > 1 {
			l.fault("%s was answered ok twice, so it was claimed twice", ev.id)
		}
		ev.acked = true
	case status == "duplicate":
		ev.acked = true
		l.counts.duplicates++
	default:
		l.fault("%s was answered 200 with the status %q", ev.id, status)
	}
	close(l.answered)
	l.answered = make(chan struct{})
}

// fault records a fault. The caller holds the mutex.
func (l *load) fault(format string, args ...any) {
	l.faults = append(l.faults, fmt.Sprintf("after %s: ", time.Since(l.began).Round(time.Millisecond))+fmt.Sprintf(format, args...))
}

// attempt sends an event once, signed as Stripe does, and returns the status of a 2xx.
func (l *load) attempt(ev *sent) (status string, err error) {
	req, err := http.NewRequest(http.MethodPost, "http://"+l.address+"/webhooks/"+l.source, strings.NewReader(ev.body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Stripe-Signature", signature(ev.body))
	req.Header.Set("Content-Type", "application/json")
	resp, err := l.client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", err
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%d: %.200s", resp.StatusCode, body)
	}
	var answer struct{ Status string }
	if err := json.Unmarshal(body, &answer); err != nil {
		return "", err
	}
	return answer.Status, nil
}

// signature signs a body as Stripe does.
func signature(body string) string {
	stamp := strconv.FormatInt(time.Now().Unix(), 10)
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = io.WriteString(mac, stamp+"."+body) // never fails
	return "t=" + stamp + ",v1=" + hex.EncodeToString(mac.Sum(nil))
}

// wait waits until a condition of the counts holds.
func (l *load) wait(t testing.TB, what string, ok func(counts) bool) {
	t.Helper()
	deadline := time.After(eventually.Bound)
	for {
		l.mu.Lock()
		reached, next := ok(l.counts), l.answered
		l.mu.Unlock()
		if reached {
			return
		}
		select {
		case <-next:
		case <-deadline:
			t.Fatalf("not within %s: %s", eventually.Bound, what)
		}
	}
}

// waitMore waits until n more deliveries have ended.
func (l *load) waitMore(t testing.TB, n int) {
	t.Helper()
	l.mu.Lock()
	goal := l.counts.deliveries + n
	l.mu.Unlock()
	l.wait(t, fmt.Sprintf("%d more deliveries end", n), func(c counts) bool { return c.deliveries >= goal })
}

func rand32() string { return rand.Text()[:16] }
