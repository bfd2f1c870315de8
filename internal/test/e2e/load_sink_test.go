package e2e

import (
	"context"
	"crypto/sha256"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// arrival is a request that the destination of a load got.
type arrival struct {
	place   string // of the gateway that sends
	id      string // of the event
	key     string // the webhook-id
	attempt int
}

// plan is how the destination handles a request.
type plan struct {
	status int             // 0 cuts the connection after taking the event
	wait   time.Duration   // before the answer
	until  <-chan struct{} // if not nil, waits for it too before the answer
}

// passed waits as planned and reports whether the client still waits for the answer.
func (p *plan) passed(ctx context.Context) bool {
	if p.until != nil {
		select {
		case <-p.until:
		case <-ctx.Done():
			return false
		}
	}
	select {
	case <-time.After(p.wait):
		return true
	case <-ctx.Done():
		return false
	}
}

// answerWith makes the destination handle requests as f says from now on. Calls of f do not
// overlap.
func (l *load) answerWith(f func(*arrival) plan) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.plan = f
}

// roughly is slow at times, fails at times, and takes everything in the end. It repeats its choice
// for the same event and attempt, and never fails often enough in a row to open the circuit.
func (l *load) roughly(a *arrival) plan {
	h := fnv.New64a()
	_, _ = io.WriteString(h, a.id) // never fails
	r := rand.New(rand.NewPCG(l.seed^h.Sum64(), uint64(a.attempt)))
	p := plan{status: http.StatusOK}
	switch n := r.IntN(100); {
	case a.attempt > 3 || n < 65:
	case n < 80:
		p.status = http.StatusInternalServerError
	case n < 82:
		p.status = 0
	case n < 83:
		p.wait = 1500 * time.Millisecond // longer than the timeout of a send
	default:
		p.wait = time.Duration(r.IntN(100)) * time.Millisecond
	}
	return p
}

func (l *load) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		l.cutSend()
		return
	}
	a, p, err := l.arrive(r, body)
	if err != nil {
		l.t.Errorf("the destination got a wrong request: %v", err)
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	defer l.left(a)
	if !p.passed(r.Context()) {
		l.cutSend()
		return
	}
	if p.status == 0 || p.status == http.StatusOK {
		l.accept(a)
	}
	if p.status == 0 {
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(p.status)
}

// arrive records a request, and returns an error if the request is wrong.
func (l *load) arrive(r *http.Request, body []byte) (*arrival, plan, error) {
	place, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	a := &arrival{place: place, id: r.Header.Get("Hookonce-Event-Id"), key: r.Header.Get("Webhook-Id")}
	var err error
	if a.attempt, err = strconv.Atoi(r.Header.Get("Hookonce-Attempt")); err != nil {
		return nil, plan{}, fmt.Errorf("hookonce-attempt of %q: %w", a.id, err)
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	ev := l.events[a.id]
	switch {
	case ev == nil:
		return nil, plan{}, fmt.Errorf("event %q was never delivered to a gateway", a.id)
	case sha256.Sum256(body) != ev.sum:
		return nil, plan{}, fmt.Errorf("event %q has another body", a.id)
	case a.key == "" || a.key != r.Header.Get("Idempotency-Key"):
		return nil, plan{}, fmt.Errorf("event %q: webhook-id %q, Idempotency-Key %q", a.id, a.key, r.Header.Get("Idempotency-Key"))
	case l.owners[a.key] != "" && l.owners[a.key] != a.id:
		return nil, plan{}, fmt.Errorf("webhook-id %q belongs to %q and to %q", a.key, l.owners[a.key], a.id)
	}
	l.owners[a.key] = a.id
	ev.keys[a.key] = true
	ev.requests++
	ev.attempt = max(ev.attempt, a.attempt)
	l.underWay[a] = true
	return a, l.plan(a), nil
}

// accept records that the destination has taken the event.
func (l *load) accept(a *arrival) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ev := l.events[a.id]
	if ev.accepted++; ev.accepted > 1 {
		return
	}
	select {
	case <-l.room:
	default: // the test itself made the event and took no token
	}
}

// cutSend counts a request that ended before its answer.
func (l *load) cutSend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.figures.cutSends++
}

func (l *load) left(a *arrival) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.underWay, a)
}

// sending returns the webhook-ids of the requests of a place that the
// destination has not answered.
func (l *load) sending(p *place) (keys []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for a := range l.underWay {
		if a.place == p.name {
			keys = append(keys, a.key)
		}
	}
	return keys
}
