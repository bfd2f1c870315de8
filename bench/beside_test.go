package bench

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce/internal/test/dbtest"
)

// passing is a gateway that receives events and forwards them at once to a sink.
type passing struct {
	*ownGateway
	to *sink
}

// newPassing starts such a gateway on a new database. It knows a destination "dead", too.
func newPassing(t testing.TB, server *dbtest.Server, database string) *passing {
	t.Helper()
	to := newSink(t, 0)
	return &passing{gatewayOn(t, server, database, to.destination("")+
		"  dead: {url: \"http://127.0.0.1:9/hooks\", secret: \"a-secret-of-the-destination\"}\n"+sinkRoute), to}
}

// perSecond returns how many events it receives and forwards in a second.
func (p *passing) perSecond(t testing.TB, s *scale) float64 {
	t.Helper()
	before, began := p.to.got.Load(), time.Now()
	l := load{address: p.address, request: newEvents(), connections: forwardConcurrency, lasts: s.lasts}
	n := int64(l.run(t).answers)
	p.Eventually(t, "all messages are sent", func() bool { return p.to.got.Load() >= before+n })
	return float64(n) / time.Since(began).Seconds()
}

// besideDeadDestination compares receiving and forwarding while many messages wait for a destination
// that cannot be reached, with receiving and forwarding alone.
func besideDeadDestination(t *testing.T, s *scale) *comparison {
	server := newServer(t)
	beside, alone := newPassing(t, server, "dead"), newPassing(t, server, "alone")
	fillMessages(t, beside.dsn, s.waiting)
	return &comparison{
		unit: "events/s",
		contestants: []contestant{
			{"beside a dead destination", func(t testing.TB) float64 { return beside.perSecond(t, s) }},
			{"alone", func(t testing.TB) float64 { return alone.perSecond(t, s) }},
		},
		rows: []row{{
			what:    fmt.Sprintf("receive and forward while %s messages wait for a dead destination, against without", thousands(s.waiting)),
			subject: "beside a dead destination", baseline: "alone", want: 0.9,
		}},
	}
}

// besideOpenTransaction does the same while a transaction stays open, so that no row that changed since
// can be removed. Both sides work until it is old; only then figures count.
func besideOpenTransaction(t *testing.T, s *scale) *comparison {
	server := newServer(t)
	beside, alone := newPassing(t, server, "open"), newPassing(t, server, "alone")
	openTransaction(t, beside.dsn)
	passes := func(p *passing) func(testing.TB) float64 {
		return func(t testing.TB) float64 { return p.perSecond(t, s) }
	}
	// The first look of a process reads all rows that cannot be removed. It comes before the clock starts.
	handles := func(p *passing) func(testing.TB) float64 {
		return func(t testing.TB) float64 { return workOffAfter(t, p.dsn, s.events/20, s.events) }
	}
	return &comparison{
		unit: "events/s", ages: s.open,
		contestants: []contestant{
			{"beside an open transaction", passes(beside)},
			{"alone", passes(alone)},
			{"handlers beside an open transaction", handles(beside)},
			{"handlers alone", handles(alone)},
		},
		rows: []row{{
			what:    fmt.Sprintf("receive and forward beside a transaction that is open for %.0f minutes, against without", s.open.Minutes()),
			subject: "beside an open transaction", baseline: "alone", want: 0.9,
		}, {
			what:    fmt.Sprintf("handlers beside a transaction that is open for %.0f minutes, after their first look, against without", s.open.Minutes()),
			subject: "handlers beside an open transaction", baseline: "handlers alone", want: 0.9,
		}},
	}
}

// openTransaction opens a transaction that sees the database as it is now, until the test ends.
func openTransaction(t testing.TB, dsn string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(ctx) }) // the server may have ended
	if _, err := conn.Exec(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1"); err != nil {
		t.Fatal(err)
	}
}

// fillMessages writes messages to the destination "dead" that are due, ten for each event.
func fillMessages(t testing.TB, dsn string, n int) {
	t.Helper()
	execute(t, dsn, fmt.Sprintf(`INSERT INTO hookonce.event (key, source, event_id, type, received_at, headers, body, body_sha256, work)
		SELECT sha256(int8send(i)), 'old', 'evt_' || i, 'invoice.paid', now(), '{}', '{}', sha256('{}'), 0 FROM generate_series(1, %d) i`, n/10),
		fmt.Sprintf(`INSERT INTO hookonce.message (id, event_key, generation, route, destination, received_at, created_at, due_at)
		SELECT 'msg_' || md5(i::text), sha256(int8send(1 + i %% %d)), 0, 'r' || i, 'dead', now(), now(), now() FROM generate_series(1, %d) i`, max(n/10, 1), n))
	settle(t, dsn)
}
