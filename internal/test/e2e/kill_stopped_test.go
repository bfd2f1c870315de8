package e2e

import (
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/internal/test/eventually"
)

// lostLease occurs in the log line about an outcome that came too late.
const lostLease = "the lease was lost"

// stopSettings leave time to stop a gateway before its requests time out, and allow too few
// requests at a time to open the circuit.
var stopSettings = strings.NewReplacer("timeout: 1s", "timeout: 5s", "concurrency: 8", "concurrency: 4").Replace(loadSettings)

// Messages to these destinations soon use up their attempts.
const giveUpSettings = `
database: ${DATABASE_URL}
sources:
  github:
    provider: github
    secrets: ["${GITHUB_WEBHOOK_SECRET}"]
destinations:
  once: {url: "${SINK}/once", timeout: 5s, concurrency: 4, retry: {attempts: 1}}
  often: {url: "${SINK}/often", timeout: 5s, concurrency: 4, retry: {attempts: 5, first: 20ms, max: 50ms}}
  proof: {url: "${SINK}/proof"}
routes:
  - {name: once, types: [once], to: once}
  - {name: often, types: [often], to: often}
  - {name: proof, types: [push], to: proof}
`

// A gateway is stopped in the middle of sending, under load, and continues when the other one has
// finished all work.
func TestStoppedGatewayChangesNothingDone(t *testing.T) {
	t.Parallel()
	l := newLoad(t, newDatabase(t, "postgres"), stopSettings, "a", "b")
	l.startAll()
	stopped := l.places[0]
	l.waitRandomMoment(200)
	release := l.holdRequestsOf(stopped)
	g, held := l.stopSending(stopped, 4)
	close(release)
	l.waitAcks(100) // the other one keeps working
	l.finish()
	l.answerWith(l.roughly)

	l.check()
	l.continueAndCompare(stopped, g, held)
	l.check()
}

// The stopped gateway continues after its messages have become dead: either the other gateway got a
// final answer, or the last attempt's lease ran out.
func TestStoppedGatewayChangesNothingDead(t *testing.T) {
	t.Parallel()
	l := newLoad(t, newDatabase(t, "postgres"), giveUpSettings, "a", "b")
	stopped, other := l.places[0], l.places[1]
	l.start(stopped)
	release := l.holdRequestsOf(stopped)
	ids := append(l.deliverSome(stopped, "once", 4), l.deliverSome(stopped, "often", 4)...)
	g, held := l.stopSending(stopped, len(ids))
	close(release)

	alive := l.start(other)
	l.answerWith(func(*arrival) plan { return plan{status: http.StatusGone} })
	for _, id := range ids {
		alive.waitState(t, "github", id, "dead")
	}
	l.answerWith(l.roughly)
	l.continueAndCompare(stopped, g, held)
}

// A stopped gateway continues while the other one is sending the same messages. Its late outcomes
// do not end the other one's leases.
func TestStoppedGatewayEndsNoOtherLease(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, "postgres")
	l := newLoad(t, db, giveUpSettings, "a", "b")
	stopped, other := l.places[0], l.places[1]
	l.start(stopped)
	releaseFirst := l.holdRequestsOf(stopped)
	ids := l.deliverSome(stopped, "often", 4)
	g, held := l.stopSending(stopped, len(ids))
	close(releaseFirst)

	release := make(chan struct{})
	l.answerWith(func(*arrival) plan { return plan{status: http.StatusOK, until: release} })
	alive := l.start(other)
	alive.Eventually(t, "the other gateway sends", func() bool { return len(l.sending(other)) == len(ids) })
	l.continueLate(g, held)
	close(release)
	for _, id := range ids {
		alive.waitState(t, "github", id, "done")
	}
	// The audit may record that an attempt's lease ran out, but no answer to that attempt.
	n := number(t, db.open(t), `SELECT (SELECT count(*) FROM hookonce.attempt WHERE number = 1 AND status_code IS NOT NULL)
		+ (SELECT count(*) FROM hookonce.message WHERE attempts = 1 AND sent_at IS NOT NULL)`)
	if n != 0 {
		t.Errorf("%d answers after the end of their lease are recorded, want none", n)
	}
}

// deliverSome delivers new events of a type to the gateway in a place.
func (l *load) deliverSome(p *place, kind string, n int) (ids []string) {
	l.t.Helper()
	for i := range n {
		ev := l.newEvent(l.random, fmt.Sprintf("%s-%d", kind, i))
		ev.delivery = githubDelivery(ev.id, kind, ev.delivery.body)
		p.up.Load().expect(l.t, ev.delivery, "200 ok")
		ids = append(ids, ev.id)
	}
	return ids
}

// holdRequestsOf makes the destination hold the requests of the gateway in a place until the
// returned channel is closed. It then answers them in turn: taken, failed, refused for good.
func (l *load) holdRequestsOf(p *place) chan struct{} {
	release := make(chan struct{})
	turn := 0
	l.answerWith(func(a *arrival) plan {
		if a.place != p.name {
			return l.roughly(a)
		}
		turn++
		answers := []int{http.StatusOK, http.StatusInternalServerError, http.StatusGone}
		return plan{status: answers[turn%len(answers)], until: release}
	})
	return release
}

// stopSending stops the gateway in a place once it has n requests under way. It returns the gateway
// and the webhook-ids of those requests. Senders skip the place from then on.
func (l *load) stopSending(p *place, n int) (g *gateway, held []string) {
	t := l.t
	t.Helper()
	g = p.up.Load()
	g.Eventually(t, fmt.Sprintf("%d requests are under way", n), func() bool { return len(l.sending(p)) >= n })
	g.Signal(t, syscall.SIGSTOP)
	t.Cleanup(func() { g.Signal(t, syscall.SIGCONT) }) // a stopped process ignores SIGTERM
	waitStopped(t, g)
	p.up.Store(nil)
	if held = l.sending(p); len(held) == 0 {
		t.Fatal("the run is void: the gateway was stopped with no request under way")
	}
	return g, held
}

// waitStopped waits until all threads of a gateway have stopped: they may run for a moment after
// the signal.
func waitStopped(t testing.TB, g *gateway) {
	t.Helper()
	for {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(g.Cmd.Process.Pid, &status, syscall.WUNTRACED, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil || !status.Stopped():
			t.Fatalf("the gateway has not stopped: status %v, error %v", status, err)
		default:
			return
		}
	}
}

// continueLate lets a stopped gateway continue, and waits until it has tried to record the outcomes
// of its requests.
func (l *load) continueLate(g *gateway, held []string) {
	l.t.Helper()
	g.Signal(l.t, syscall.SIGCONT)
	g.Eventually(l.t, "all outcomes came too late", func() bool {
		lines := strings.Split(g.Log(), "\n")
		for _, key := range held {
			if !slices.ContainsFunc(lines, func(line string) bool {
				return strings.Contains(line, lostLease) && strings.Contains(line, key)
			}) {
				return false
			}
		}
		return true
	})
}

// continueAndCompare lets a stopped gateway continue, waits until it has worked again, and checks
// that the earlier rows are unchanged.
func (l *load) continueAndCompare(p *place, g *gateway, held []string) {
	t := l.t
	t.Helper()
	session := l.world.db.open(t)
	before := snapshot(t, session)
	l.continueLate(g, held)
	p.up.Store(g)
	l.prove(p)

	after := snapshot(t, session)
	maps.DeleteFunc(after, func(row, _ string) bool { return before[row] == "" && strings.Contains(row, "proof-") })
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("the continued gateway changed finished rows (-before +after):\n%s", diff)
	}
	t.Logf("%d requests were under way when the gateway was stopped, %d rows are unchanged", len(held), len(before))
}

// prove delivers new events to the gateway in a place until that gateway has sent one.
func (l *load) prove(p *place) {
	l.t.Helper()
	var mine []string
	l.answerWith(func(a *arrival) plan {
		if a.place == p.name && strings.HasPrefix(a.id, "proof-") {
			mine = append(mine, a.id)
		}
		return plan{status: http.StatusOK}
	})
	g := p.up.Load()
	n := 0
	eventually.True(l.t, "the gateway sends", func() bool {
		n++
		ev := l.newEvent(l.random, fmt.Sprintf("proof-%d", n))
		l.deliver(ev, slices.Index(l.places, p))
		g.waitState(l.t, "github", ev.id, "done")
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(mine) > 0
	})
}

// snapshot returns all rows about events, by table.
func snapshot(t testing.TB, session *sql.DB) map[string]string {
	t.Helper()
	rows, err := session.Query(`
		SELECT 'event ' || e.event_id, e::text FROM hookonce.event e
		UNION ALL
		SELECT 'state of ' || e.event_id, s::text FROM hookonce.event_state s JOIN hookonce.event e USING (key)
		UNION ALL
		SELECT concat_ws(' ', 'message', m.id, 'of', e.event_id), m::text
		FROM hookonce.message m JOIN hookonce.event e ON e.key = m.event_key
		UNION ALL
		SELECT concat_ws(' ', 'attempt', a.generation, a.number, m.id, 'of', e.event_id), a::text
		FROM hookonce.attempt a JOIN hookonce.message m ON m.id = a.message_id JOIN hookonce.event e ON e.key = m.event_key
		UNION ALL
		SELECT concat_ws(' ', 'history', h.id, 'of', e.event_id), h::text
		FROM hookonce.history h JOIN hookonce.event e ON e.key = h.event_key
		UNION ALL
		SELECT 'shown ' || event_id, concat_ws(' ', state, note, attempts, generation, processed_at, failed_at, last_error)
		FROM hookonce.events`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	all := make(map[string]string)
	for rows.Next() {
		var row, text string
		if err := rows.Scan(&row, &text); err != nil {
			t.Fatal(err)
		}
		all[row] = text
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}
