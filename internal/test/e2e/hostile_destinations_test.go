package e2e

import (
	"cmp"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/eventually"
)

// The retries of hostile destinations come almost at once.
const (
	hostileRetry = "{attempts: 1000, first: 50ms, max: 200ms}"
	longestRetry = 200 * time.Millisecond
)

// part is one destination of the cast, and its expected end.
type part struct {
	name    string
	hostile *hostile
	deaf    bool // its port refuses connections until it is healed
	slow    bool // its attempts run into their timeout
	unread  bool // it cannot read a request until it is healed

	// The audit of each attempt before it is healed.
	status int
	says   string
	// final is the state that the event reaches while the destination misbehaves, "" if none.
	final string
	floor time.Duration // the shortest time to the next attempt
}

// timeout returns the destination's timeout setting. A lease lasts 5 s longer, so an attempt whose
// lease is lost is repeated in time.
func (p *part) timeout() string {
	if p.slow {
		return "1s"
	}
	return "30s"
}

// cast returns destinations that misbehave, each in another way. Each does the work that a request
// asks for, so doing it twice would show.
func cast(trap net.Listener, trusted *certificates) []*part {
	elsewhere := "Location: http://" + trap.Addr().String() + "/elsewhere\n"
	twice := answerOf(500, "", "no") + answerOf(200, "", "stale")
	const cut = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf of"
	const quote = "Cannot POST /" + urlCredential + "; no /" + urlCredential + "?token=" + urlCredential
	slow, full := "no full answer in time", "answered "
	impostor := &hostile{}
	impostor.secure = trusted.goodAfter(impostor.isHealed)
	return []*part{
		{name: "refuses", hostile: &hostile{}, deaf: true, unread: true, says: "connection refused"},
		{name: "resets", hostile: &hostile{answer: resets}, says: "connection reset"},
		{name: "hangs", hostile: &hostile{answer: hangs("")}, slow: true, says: slow},
		{name: "hangs-in-the-body", hostile: &hostile{answer: hangs(cut)}, slow: true, status: 200, says: slow},
		{name: "drips", hostile: &hostile{answer: drips("HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n\r\n", "x")}, slow: true, status: 200, says: slow},
		{name: "slow-headers", hostile: &hostile{answer: drips("HTTP/1.1 200 OK\r\n", "X-More: y\r\n")}, slow: true, says: slow},
		{name: "huge", hostile: &hostile{answer: huge(500)}, status: 500, says: full + "500"},
		{name: "huge-but-taken", hostile: &hostile{answer: huge(200)}, final: "done"},
		{name: "gzip-bomb", hostile: &hostile{answer: bombs(500)}, status: 500, says: full + "500"},
		{name: "gzip-bomb-but-taken", hostile: &hostile{answer: bombs(200)}, final: "done"},
		{name: "moved", hostile: &hostile{answer: says(301, elsewhere, "")}, status: 301, says: full + "301"},
		{name: "moved-with-body", hostile: &hostile{answer: says(308, elsewhere, "")}, status: 308, says: full + "308"},
		{name: "fails", hostile: &hostile{answer: says(500, "", "out of order")}, status: 500, says: full + "500 Internal Server Error: out of order"},
		{name: "quotes-its-url", hostile: &hostile{answer: says(404, "", quote)}, status: 404, says: full + "404 Not Found: Cannot POST <secret>; no <secret>"},
		{name: "too-many", hostile: &hostile{answer: says(429, "", "")}, status: 429, says: full + "429"},
		{
			name: "too-many-for-now", hostile: &hostile{answer: says(429, "Retry-After: 2\n", "")},
			status: 429, says: full + "429", floor: 2 * time.Second,
		},
		{name: "gone", hostile: &hostile{answer: says(410, "", "")}, status: 410, says: full + "410", final: "dead"},
		{name: "garbage", hostile: &hostile{answer: breaksOff("\x00\xff\x1b[2J no HTTP\r\n\r\n")}, says: "malformed HTTP"},
		{name: "another-protocol", hostile: &hostile{answer: breaksOff("SSH-2.0-OpenSSH_9.9\r\n")}, says: "malformed HTTP"},
		{name: "no-tls", hostile: &hostile{secure: trusted.good, greet: plainText}, unread: true, says: "not look like a TLS handshake"},
		{name: "bad-certificate", hostile: impostor, unread: true, says: "certificate"},
		{name: "closes-early", hostile: &hostile{answer: breaksOff(cut)}, status: 200, says: "broke off"},
		{name: "closes-at-once", hostile: &hostile{answer: breaksOff("")}, says: "EOF"},
		{name: "answers-twice", hostile: &hostile{answer: func(_ *hostile, c net.Conn) bool { return write(c, twice) }}, status: 500, says: full + "500"},
	}
}

// stuckSends is how many requests the stuck destination gets at a time; stuckEvents is how many
// events are sent to it.
const (
	stuckSends  = 4
	stuckEvents = 12
	healthy     = 100
)

func castSettings(parts []*part, stuck *hostile) string {
	var s strings.Builder
	s.WriteString("database: ${DATABASE_URL}\nsources:\n  play: {provider: none, event: {id: \"body:id\", type: \"body:type\"}}\n")
	s.WriteString("destinations:\n  healthy: {url: \"${SINK}/healthy\"}\n")
	fmt.Fprintf(&s, "  stuck: {url: %q, timeout: 1h, concurrency: %d}\n", stuck.url(), stuckSends)
	for _, p := range parts {
		fmt.Fprintf(&s, "  %s: {url: %q, secret: \"${DESTINATION_SECRET}\", timeout: %s, retry: %s}\n",
			p.name, p.hostile.url(), p.timeout(), hostileRetry)
	}
	s.WriteString("routes:\n  - {name: healthy, types: [healthy], to: healthy}\n  - {name: stuck, types: [stuck], to: stuck}\n")
	for _, p := range parts {
		fmt.Fprintf(&s, "  - {name: %s, types: [%s], to: %s}\n", p.name, p.name, p.name)
	}
	return s.String()
}

// play is an event for one destination of the cast.
func play(id, destination string) *delivery {
	return newDelivery("play", `{"id":"`+id+`","type":"`+destination+`"}`)
}

// acceptAll makes n deliveries at once, and repeats those that are answered 503, as senders do.
func (g *gateway) acceptAll(t testing.TB, n int, one func(i int) *delivery) {
	t.Helper()
	got := atOnce(n, func(i int) *answer { return g.accept(t, one(i)) })
	if got["200 ok"]+got["200 duplicate"] != n {
		t.Fatalf("answers %v, want 200 of all %d", got, n)
	}
}

// accept repeats a delivery until the answer is not 503.
func (g *gateway) accept(t testing.TB, d *delivery) *answer {
	t.Helper()
	var a *answer
	eventually.True(t, "an answer other than 503", func() bool {
		a = g.deliver(t, d)
		return a.status != http.StatusServiceUnavailable
	})
	return a
}

// settled waits until no event is running, and lists the events. It polls with a short query,
// because listing all events each time would slow the gateway down.
func (g *gateway) settled(t testing.TB) []event {
	t.Helper()
	g.Eventually(t, "no event is running", func() bool {
		var page struct{ Events []event }
		return g.api(t, "/api/v1/events?state=running&limit=1", &page) == http.StatusOK && len(page.Events) == 0
	})
	return g.waitAllDone(t, "play")
}

// played returns an event of the source play, which must exist.
func (g *gateway) played(t testing.TB, id string) *eventDetail {
	t.Helper()
	detail := g.event(t, "play", id)
	if detail == nil {
		t.Fatalf("event %s does not exist", id)
	}
	return detail
}

// TestHostileDestinations lets every kind of misbehaving destination misbehave at once, checks that
// a healthy destination beside them gets all of its messages, and heals them.
func TestHostileDestinations(t *testing.T) {
	anyStore(t, func(t *testing.T, db *database) {
		trap, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = trap.Close() })
		trusted := newCertificates(t)
		parts := cast(trap, trusted)
		stuck := &hostile{answer: holds}
		stuck.start(t, false)
		for _, p := range parts {
			p.hostile.start(t, p.deaf)
		}
		w := newWorld(t, db, castSettings(parts, stuck))
		w.env = append(w.env, "SSL_CERT_FILE="+trusted.file, "SSL_CERT_DIR="+t.TempDir())
		g := w.start(t)

		for i := range stuckEvents {
			g.accept(t, play(fmt.Sprintf("stuck-%d", i), "stuck"))
		}
		for _, p := range parts {
			g.accept(t, play(p.name, p.name))
		}
		for _, p := range parts {
			p.misbehaved(t, g)
		}
		g.Eventually(t, "the stuck destination holds as many requests as it may get at a time", func() bool {
			return len(stuck.seen("")) == stuckSends
		})
		undisturbed(t, w, g)
		for _, p := range parts {
			if state := g.played(t, p.name).State; state != cmp.Or(p.final, "running") {
				t.Errorf("%s: the event is %s while the destination misbehaves", p.name, state)
			}
		}
		if n := len(stuck.seen("")); n != stuckSends {
			t.Errorf("the stuck destination got %d requests, want the %d that it still holds", n, stuckSends)
		}

		stuck.heal()
		for _, p := range parts {
			p.hostile.heal()
		}
		for _, p := range parts {
			t.Run(p.name, func(t *testing.T) { p.check(t, g) })
		}
		t.Run("stuck", func(t *testing.T) {
			for i := range stuckEvents {
				id := fmt.Sprintf("stuck-%d", i)
				if detail := g.waitState(t, "play", id, "done"); len(detail.Attempts) != 1 {
					t.Errorf("%s: %d attempts, want 1", id, len(detail.Attempts))
				}
			}
			if n := len(stuck.did()); n != stuckEvents {
				t.Errorf("%d effects of %d events", n, stuckEvents)
			}
		})
		t.Run("redirects", func(t *testing.T) { neverReached(t, trap) })
		t.Run("dead letters", func(t *testing.T) {
			if dead := g.events(t, "state=dead"); len(dead) != 1 || dead[0].EventID != "gone" {
				t.Errorf("listed as dead: %+v, want only gone", dead)
			}
			if n := number(t, db.open(t), `SELECT count(*) FROM `+db.table("dead_letters")+` WHERE event_id = 'gone'`); n != 1 {
				t.Errorf("the view of dead letters has %d rows of gone, want 1", n)
			}
		})
	})
}

// misbehaved waits until the audit shows two failed attempts, or the final state, and checks the
// time until the next attempt.
func (p *part) misbehaved(t *testing.T, g *gateway) {
	t.Helper()
	if p.final != "" {
		g.waitState(t, "play", p.name, p.final)
		return
	}
	seen := false
	g.Eventually(t, p.name+": two attempts failed, and the next one is due", func() bool {
		detail := g.played(t, p.name)
		m, tries := detail.Messages[0], detail.Attempts
		if len(tries) > 0 && m.State == "pending" && m.Attempts == tries[len(tries)-1].Number {
			seen = true
			wait := m.DueAt.Sub(tries[len(tries)-1].At)
			if wait < p.floor || wait > p.floor+longestRetry {
				t.Errorf("%s: the next attempt is due %s after attempt %d, want %s to %s", p.name, wait, m.Attempts, p.floor, p.floor+longestRetry)
			}
		}
		return seen && len(tries) >= 2
	})
}

// undisturbed sends events to the healthy destination and waits until all are done.
func undisturbed(t *testing.T, w *world, g *gateway) {
	t.Helper()
	g.acceptAll(t, healthy, func(i int) *delivery { return play(fmt.Sprintf("healthy-%d", i), "healthy") })
	for i := range healthy {
		detail := g.waitState(t, "play", fmt.Sprintf("healthy-%d", i), "done")
		if len(detail.Attempts) != 1 {
			t.Errorf("healthy-%d: %d attempts, want 1", i, len(detail.Attempts))
		}
	}
	if n := len(w.sink.requests("")); n != healthy {
		t.Errorf("the healthy destination got %d requests, want %d", n, healthy)
	}
}

// check checks the one event of a destination that is healed.
func (p *part) check(t *testing.T, g *gateway) {
	detail := g.waitState(t, "play", p.name, cmp.Or(p.final, "done"))
	p.checkAudit(t, detail)
	requests := p.hostile.seen(p.name)
	for _, r := range requests {
		checkSigned(t, r, destinationKey)
	}
	oneKey(t, p.name, requests)
	p.checkNumbers(t, detail, requests)
	if p.unread && len(requests) != 1 {
		t.Errorf("%d requests arrived, but only the last attempt could arrive", len(requests))
	}
	if did := p.hostile.did(); !slices.Equal(did, []string{p.name}) {
		t.Errorf("effects %q, want one effect of the event", did)
	}
}

// checkNumbers checks that each attempt made one request, with its number in Hookonce-Attempt. Only
// two kinds of attempts may have no request: those to a destination that cannot read one, and those
// whose audit says that their time or their lease ran out, which happens on a busy machine.
func (p *part) checkNumbers(t *testing.T, detail *eventDetail, requests []*received) {
	t.Helper()
	arrived := make(map[int]bool)
	last := 0
	for _, r := range requests {
		n, err := strconv.Atoi(r.header.Get("Hookonce-Attempt"))
		if err != nil || n <= last || n > len(detail.Attempts) {
			t.Errorf("Hookonce-Attempt %q came after %d, and there are %d attempts",
				r.header.Get("Hookonce-Attempt"), last, len(detail.Attempts))
		}
		arrived[n], last = true, n
	}
	for i := range detail.Attempts {
		a := &detail.Attempts[i]
		if !arrived[a.Number] && !p.outOfTime(a) && (!p.unread || i == len(detail.Attempts)-1) {
			t.Errorf("attempt %d made no request, but it is recorded as %s %d %q", a.Number, a.Outcome, a.status(), a.Error)
		}
	}
}

// outOfTime reports whether the machine was too slow for an attempt: its time ran out before the
// answer began, or its lease ran out.
func (p *part) outOfTime(a *attempt) bool {
	return p.slow && a.status() == 0 && strings.Contains(a.Error, p.says) ||
		a.Error == driver.ErrorLeaseRanOut || a.Error == driver.ErrorLastLeaseRanOut
}

// checkAudit checks the attempts as the API shows them.
func (p *part) checkAudit(t *testing.T, detail *eventDetail) {
	t.Helper()
	last, named := len(detail.Attempts)-1, false
	if p.final != "" && last != 0 {
		t.Errorf("%d attempts, want 1", last+1)
	}
	for i := range detail.Attempts {
		a := &detail.Attempts[i]
		if a.Number != i+1 || a.Generation != 0 {
			t.Errorf("attempt %d of generation 0 is shown as %d of %d", i+1, a.Number, a.Generation)
		}
		if i == last && detail.State == "done" {
			if a.Outcome != "sent" || a.status() != http.StatusOK || a.Error != "" {
				t.Errorf("the last attempt: %s %d %q, want it sent", a.Outcome, a.status(), a.Error)
			}
			continue
		}
		outcome := "retry"
		if detail.State == "dead" {
			outcome = "dead"
		}
		named = named || a.status() == p.status
		if p.outOfTime(a) {
			continue
		}
		if a.Outcome != outcome || a.status() != p.status || !strings.Contains(a.Error, p.says) || len(a.Error) > 8<<10 {
			t.Errorf("attempt %d: %s %d %.200q, want %s %d and %q", a.Number, a.Outcome, a.status(), a.Error, outcome, p.status, p.says)
		}
	}
	if detail.State != "done" && !strings.Contains(detail.LastError, p.says) {
		t.Errorf("last_error %q does not contain %q", detail.LastError, p.says)
	}
	if p.final != "done" && !named {
		t.Errorf("no attempt has the status %d", p.status)
	}
}

// neverReached checks that no connection to l was made.
func neverReached(t *testing.T, l net.Listener) {
	if err := l.(*net.TCPListener).SetDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if conn, err := l.Accept(); err == nil {
		_ = conn.Close()
		t.Error("a redirect was followed: a connection was made")
	}
}
