package failover

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce/internal/test/eventually"
)

const (
	sourceSecret = "canary-source-95d1c04ab7e24c2f"
	sendersEach  = 6 // of each gateway
	// sendEvery is the time between two deliveries of a sender. It leaves processor time to the cluster.
	sendEvery = 40 * time.Millisecond
	// sendPause is how long a sender waits before it repeats a delivery that was not acknowledged.
	sendPause = 50 * time.Millisecond
)

// Sources of the gateways: the events of one go to a destination, an application takes those of the other by SQL.
const (
	toSink = "forwarded"
	toSQL  = "taken"
)

// settings of the gateways. The short timeout makes the leases of a message short, 6 s.
const settings = `
database: ${DATABASE_URL}
unverified_rate: 100000/s
sources:
  forwarded:
    provider: hmac
    secrets: ["${SOURCE_SECRET}"]
    signature: {header: X-Lab-Signature, algorithm: sha256, encoding: hex, content: "{timestamp}.{body}"}
    timestamp: {at: "header:X-Lab-Timestamp", tolerance: 5m}
    event: {id: "body:id", type: "body:type"}
  taken:
    provider: hmac
    secrets: ["${SOURCE_SECRET}"]
    signature: {header: X-Lab-Signature, algorithm: sha256, encoding: hex, content: "{timestamp}.{body}"}
    timestamp: {at: "header:X-Lab-Timestamp", tolerance: 5m}
    event: {id: "body:id", type: "body:type"}
    consume: sql
destinations:
  app:
    url: ${SINK}/hooks
    timeout: 1s
    retry: {attempts: 100, first: 20ms, max: 500ms}
routes:
  - {name: all, sources: [forwarded], to: app}
`

// load delivers events to gateways and remembers the acknowledged ones. It also receives their effects, as a
// destination and as an application that takes events by SQL.
type load struct {
	t        testing.TB
	gateways []*gateway
	server   *httptest.Server

	stop    chan struct{} // closed to end the senders
	senders sync.WaitGroup
	copies  chan struct{} // holds one token for each copy on its way

	careless atomic.Bool // an application has stayed before its commit, see takeCarelessly

	before int // events that were acknowledged in earlier trials

	mu     sync.Mutex
	events map[string]*event // by id
	ids    []string
	last   int
}

// event is a delivered event. The load's mutex guards it.
type event struct {
	id, source string
	acked      bool
	claimed    int             // answers "ok"
	keys       map[string]bool // the webhook-ids at the destination
	requests   int             // at the destination
}

func newLoad(t testing.TB) *load {
	l := &load{t: t, events: make(map[string]*event), copies: make(chan struct{}, 8)}
	l.server = httptest.NewServer(l)
	t.Cleanup(l.server.Close)
	return l
}

// start starts the senders.
func (l *load) start() {
	l.stop = make(chan struct{})
	for i, g := range l.gateways {
		for n := range sendersEach {
			l.senders.Go(func() { l.send(g, l.gateways[(i+1)%len(l.gateways)], n) })
		}
	}
}

// finish ends the senders, which repeat their deliveries until they are acknowledged.
func (l *load) finish() {
	close(l.stop)
	l.senders.Wait()
}

// send makes new events, and delivers each to a gateway until it is acknowledged. Three of ten deliveries are
// repeated, by this gateway or the other one.
func (l *load) send(g, other *gateway, n int) {
	tick := time.NewTicker(sendEvery)
	defer tick.Stop()
	for i := n; ; i++ {
		select {
		case <-l.stop:
			return
		case <-l.t.Context().Done():
			return
		case <-tick.C:
		}
		ev := l.newEvent([]string{toSink, toSQL}[i%2])
		if rand.IntN(100) < 15 { // at the same moment, as a sender with two workers does
			select {
			case l.copies <- struct{}{}:
				l.senders.Go(func() { l.deliver(ev, other); <-l.copies })
			default: // the other gateway is away
			}
		}
		l.deliver(ev, g)
		if rand.IntN(100) < 15 { // later, as a sender that lost the answer does
			l.deliver(l.earlier(), g)
		}
	}
}

func (l *load) newEvent(source string) *event {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	ev := &event{id: fmt.Sprint("e", l.last), source: source, keys: make(map[string]bool)}
	l.events[ev.id] = ev
	l.ids = append(l.ids, ev.id)
	return ev
}

// earlier returns a random event of the newest thousand.
func (l *load) earlier() *event {
	l.mu.Lock()
	defer l.mu.Unlock()
	newest := l.ids[max(0, len(l.ids)-1000):]
	return l.events[newest[rand.IntN(len(newest))]]
}

// deliver repeats a delivery until it is acknowledged.
func (l *load) deliver(ev *event, g *gateway) {
	for began := time.Now(); ; {
		if g.deliver(l, ev) {
			return
		}
		if time.Since(began) > eventually.Bound {
			l.t.Errorf("%s was not acknowledged by %s within %s", ev.id, g.name, eventually.Bound)
			return
		}
		select {
		case <-l.t.Context().Done():
			return
		case <-time.After(sendPause):
		}
	}
}

// deliver makes one delivery and reports whether it was acknowledged.
func (g *gateway) deliver(l *load, ev *event) bool {
	body := fmt.Sprintf(`{"id":%q,"type":"lab","text":%q}`, ev.id, strings.Repeat("x", 300))
	at := strconv.FormatInt(time.Now().Unix(), 10)
	mac := hmac.New(sha256.New, []byte(sourceSecret))
	mac.Write([]byte(at + "." + body))
	req, err := http.NewRequest(http.MethodPost, "http://"+g.public+"/webhooks/"+ev.source, strings.NewReader(body))
	if err != nil {
		l.t.Error(err)
		return false
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Lab-Timestamp", at)
	req.Header.Set("X-Lab-Signature", hex.EncodeToString(mac.Sum(nil)))
	resp, err := g.client.Do(req)
	if err != nil {
		g.count(func() { g.cut++ })
		return false
	}
	text, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	now := time.Now()
	switch {
	case err != nil:
		g.count(func() { g.cut++ })
		return false
	case resp.StatusCode == http.StatusServiceUnavailable:
		g.count(func() { g.unavailable++ })
		return false
	case resp.StatusCode != http.StatusOK:
		l.t.Errorf("%s answered %s with %d: %s", g.name, ev.id, resp.StatusCode, text)
		return false
	}
	g.count(func() { g.answered = append(g.answered, now) })
	l.mu.Lock()
	defer l.mu.Unlock()
	ev.acked = true
	if strings.Contains(string(text), `"status":"ok"`) {
		ev.claimed++
	}
	return true
}

// ServeHTTP is the destination. It takes every message.
func (l *load) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	id := r.Header.Get("Hookonce-Event-Id")
	l.mu.Lock()
	defer l.mu.Unlock()
	ev := l.events[id]
	if ev == nil {
		l.t.Errorf("the destination got %q, which nobody delivered", id)
		return
	}
	ev.keys[r.Header.Get("Webhook-Id")] = true
	ev.requests++
}

const createEffects = `CREATE TABLE IF NOT EXISTS public.effect (event_id text NOT NULL)` // no constraint that could help

// consume takes events by SQL, and writes an effect of each in the same transaction, until the context ends. It
// connects again after every error. It goes through HAProxy, as the docs say: a session on an old primary would wait.
func (l *load) consume(ctx context.Context, address string, careless bool) {
	take := takeOnce
	if careless {
		take = l.takeCarelessly
	}
	for ctx.Err() == nil {
		conn, err := connectWithin(ctx, 3*time.Second, address)
		for err == nil {
			err = take(ctx, conn)
		}
		if conn != nil {
			closing, cancel := context.WithTimeout(context.Background(), time.Second)
			_ = conn.Close(closing)
			cancel()
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func connectWithin(ctx context.Context, within time.Duration, address string) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return pgx.Connect(ctx, address)
}

// takeOnce takes some events and commits their effects. The context bounds the commit: without it a commit that waits for
// a standby would wait for ever.
func takeOnce(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	tag, err := tx.Exec(ctx, "INSERT INTO public.effect SELECT event_id FROM hookonce.take($1, 50)", toSQL)
	if err == nil {
		err = tx.Commit(ctx)
	}
	if err == nil && tag.RowsAffected() == 0 {
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
	return err
}

// takeCarelessly takes some events, commits their effects by themselves, and stays before its own commit until the
// server is gone.
func (l *load) takeCarelessly(ctx context.Context, conn *pgx.Conn) error {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	rows, err := tx.Query(ctx, "SELECT event_id FROM hookonce.take($1, 50)", toSQL)
	if err != nil {
		return err
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(ids) == 0 {
		return errors.Join(err, tx.Rollback(ctx))
	}
	own, err := pgx.ConnectConfig(ctx, conn.Config())
	if err != nil {
		return err
	}
	defer func() { _ = own.Close(context.WithoutCancel(ctx)) }()
	if _, err := own.Exec(ctx, "INSERT INTO public.effect SELECT unnest($1::text[])", ids); err != nil {
		return err
	}
	if l.careless.CompareAndSwap(false, true) {
		for err == nil {
			_, err = tx.Exec(ctx, "SELECT pg_sleep(0.05)")
		}
		return err
	}
	return tx.Commit(ctx)
}
