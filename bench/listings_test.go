package bench

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// listedVariable sets how many events the listings are measured with at full scale. With another
// number than the default the row has another target.
const (
	listedVariable = "HOOKONCE_BENCH_LISTED"
	listedEvents   = 1_000_000
)

// listedSources is the number of sources, and of destinations, of the stored events.
const listedSources = 10

// listings measures the admin API and the pages on many stored events: a half of them have work
// of every state, spread over 28 days.
func listings(t *testing.T, s *scale) *comparison {
	events := 4_000
	if s.full {
		events = listedEvents
		if given := os.Getenv(listedVariable); given != "" {
			var err error
			if events, err = strconv.Atoi(given); err != nil || events < 1000 {
				t.Fatalf("%s is %q: use a number of events, at least 1000", listedVariable, given)
			}
		}
	}
	limit := 100.0
	if events > 5*listedEvents {
		limit = 300
	}
	server := newServer(t)
	dsn := newDatabase(t, server, "listings")
	startGateway(t, listedSettings(dsn)).Stop(t) // it makes the tables
	began := time.Now()
	fillListed(t, dsn, events)
	t.Logf("filled %s events in %s", thousands(events), time.Since(began).Round(time.Second))
	gateway := startGateway(t, listedSettings(dsn))
	c := &comparison{unit: "ms", rounds: 1}
	for _, group := range listedGroups(t, gateway, events) {
		want := limit
		if group.want > 0 {
			want = group.want
		}
		c.contestants = append(c.contestants, contestant{group.name, func(t testing.TB) float64 { return slowestOf(t, gateway, s, group.paths) }})
		c.rows = append(c.rows, row{
			what:    fmt.Sprintf("p95 answer time of %s, with %s stored events", group.name, thousands(events)),
			subject: group.name, want: want, atMost: true,
		})
	}
	return c
}

// listedSettings are settings with the sources and the destinations of the stored events. Nothing
// works on the events, and the messages are not due yet.
func listedSettings(dsn string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "database: %q\ndedupe_window: 2400h\nretention: 2400h\nsources:\n", dsn)
	for i := range listedSources {
		fmt.Fprintf(&b, "  s%d:\n    provider: stripe\n    secrets: [%q]\n    consume: sql\n", i, secret)
	}
	b.WriteString("destinations:\n")
	for i := range listedSources {
		fmt.Fprintf(&b, "  d%d:\n    url: http://127.0.0.1:9/\n", i)
	}
	return b.String()
}

type listedGroup struct {
	name  string
	want  float64 // 0: as listings
	paths []string
}

func listedGroups(t testing.TB, gateway *process, events int) []listedGroup {
	t.Helper()
	middle := fmt.Sprint("evt_", events/2)
	const api = "/api/v1"
	cursor := nextOf(t, gateway, api+"/events?until=14d&limit=200")
	return []listedGroup{
		{"the slowest listing", 0, []string{
			api + "/events", api + "/events?cursor=" + cursor, api + "/events?source=s3", api + "/events?type=type.7", api + "/events?source=s3&type=type.7",
			api + "/events?type=rare", api + "/events?source=seldom", api + "/events?type=rare&state=dead", api + "/events?type=absent", api + "/events?source=absent",
			api + "/events?state=pending", api + "/events?state=running", api + "/events?state=done", api + "/events?state=dead", api + "/events?state=skipped",
			api + "/events?state=dead&source=s3&type=type.7", api + "/events?state=pending&source=s9", api + "/events?note=stale", api + "/events?note=no+route",
			api + "/events?note=absent", api + "/events?id=" + middle, api + "/events?id=absent", api + "/events?since=7d&until=6d&source=s1", api + "/events?limit=200",
			api + "/dead-letters", api + "/dead-letters?destination=d3", api + "/dead-letters?source=s3&type=type.7", api + "/dead-letters?id=" + middle,
			api + "/dead-letters?type=absent", api + "/messages", api + "/messages?state=pending", api + "/messages?state=pending&destination=d3",
			api + "/messages?state=sent&destination=d3", api + "/messages?state=sending", api + "/messages?state=dead&source=s3", api + "/messages?state=skipped",
			api + "/messages?note=absent", api + "/messages?id=" + middle, api + "/messages?message_id=msg_1", api + "/quarantine", api + "/refused",
			api + "/search?q=" + middle, api + "/errors", api + "/jobs", api + "/series?of=deliveries", api + "/series?of=types",
		}},
		{"an event", 0, []string{api + "/events/" + sourceOf(events/2) + "/" + middle}},
		{"the slowest page", 0, []string{
			"/", "/events", "/events?state=dead&source=s3", "/events?type=absent", "/events/" + sourceOf(events/2) + "/" + middle,
			"/dead-letters", "/dead-letters?source=s3", "/refused", "/quarantine", "/sources", "/sources/s3", "/destinations", "/destinations/d3",
			"/jobs", "/search?q=" + middle,
		}},
		{"counts", 0, []string{api + "/stats", api + "/destinations"}},
		{"/metrics", 50, []string{"/metrics"}},
		{"a search for an absent text", 3000, []string{api + "/events?q=absent+text"}},
	}
}

// sourceOf returns the source of the i-th event.
func sourceOf(i int) string { return fmt.Sprint("s", i/40%listedSources) }

// slowestOf returns the p95 of the slowest path, in milliseconds.
func slowestOf(t testing.TB, gateway *process, s *scale, paths []string) float64 {
	t.Helper()
	times := 2
	if s.full {
		times = 40
	}
	slowest := 0.0
	for _, path := range paths {
		n := times
		if strings.Contains(path, "q=absent") {
			n = min(times, 5)
		}
		var took []float64
		for range n {
			began := time.Now()
			answerOf(t, gateway, path)
			took = append(took, milliseconds(time.Since(began)))
		}
		first := took[0]
		slices.Sort(took)
		p95 := took[(n*95+99)/100-1]
		t.Logf("%8.1f ms p50 %8.1f ms p95 %8.1f ms the first  %s", took[n/2], p95, first, path)
		slowest = max(slowest, p95)
	}
	return slowest
}

func answerOf(t testing.TB, gateway *process, path string) string {
	t.Helper()
	resp, err := http.Get("http://" + gateway.admin + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v: %s", path, resp.Status, err, body)
	}
	return string(body)
}

// nextOf returns the cursor at the end of a page.
func nextOf(t testing.TB, gateway *process, path string) string {
	t.Helper()
	_, rest, _ := strings.Cut(answerOf(t, gateway, path), `"next":"`)
	next, _, _ := strings.Cut(rest, `"`)
	return next
}

// fillListed stores events as claims, consumers and attempts leave them. It removes the indexes first:
// building them at the end takes a fraction of the time.
func fillListed(t testing.TB, dsn string, n int) {
	t.Helper()
	tables := []string{"event", "event_state", "message"}
	rebuild := dropIndexes(t, dsn, tables)
	const step = 1_000_000
	for first := 1; first <= n; first += step {
		series := fmt.Sprintf("generate_series(%d::bigint, %d) i", first, min(first+step-1, n))
		execute(t, dsn, listedSQL(series, n)...)
	}
	execute(t, dsn, rebuild...)
	execute(t, dsn, figuresSQL()...)
	execute(t, dsn,
		`INSERT INTO hookonce.type_rollup SELECT source, type, date_trunc('hour', received_at, 'UTC'), count(*) FROM hookonce.event GROUP BY 1, 2, 3`,
		`INSERT INTO hookonce.quarantine SELECT sha256(int8send(i)), 's' || i % 10, sha256(int8send(i)), 0, '{}', '{}', 'no id', true, 1, now(), now() - i * interval '1 second'
			FROM generate_series(1::bigint, 2000) i`,
		`INSERT INTO hookonce.refused SELECT sha256(int8send(i)), 'error' || i, now() - i * interval '1 second', 's' || i % 10, 'signature', 401, 'POST', '192.0.2.1', 'host', '{}', '', 0
			FROM generate_series(1::bigint, 5000) i`)
	settle(t, dsn)
}

// listedSQL returns the statements that store a series of events. One event in 100,001 has a rare type,
// and one a rare source. Of 40 events, one is pending and one
// has a pending message; as many are dead, and have a dead message; one has a stale message, ten have
// sent ones, and six are done. The others had no route. Pending work is not due yet.
func listedSQL(series string, n int) []string {
	const source = `CASE WHEN i % 100001 = 1 THEN 'seldom' ELSE 's' || i / 40 % 10 END`
	const kind = `CASE WHEN i % 100001 = 0 THEN 'rare' ELSE 'type.' || i / 7 % 20 END`
	receivedAt := fmt.Sprintf(`now() - interval '28 days' * (1 - i::float8 / %d)`, n)
	return []string{
		`INSERT INTO hookonce.event (key, source, event_id, type, received_at, headers, body, body_sha256, work)
			SELECT hookonce.hash_strings(ARRAY['event', ` + source + `, 'evt_' || i]), ` + source + `, 'evt_' || i, ` + kind + `, ` + receivedAt + `,
				'{"Content-Type":["application/json"]}', convert_to(rpad('{"id":"evt_' || i || '","text":"', 198, 'x') || '"}', 'UTF8'), sha256(int8send(i)),
				CASE WHEN i % 40 IN (0, 2) OR i % 40 BETWEEN 15 AND 20 THEN 1 ELSE 0 END
			FROM ` + series,
		`INSERT INTO hookonce.event_state (key, source, type, state, attempts, received_at, due_at, processed_at, failed_at, last_error, signature)
			SELECT hookonce.hash_strings(ARRAY['event', ` + source + `, 'evt_' || i]), ` + source + `, ` + kind + `, CASE i % 40 WHEN 0 THEN 0 WHEN 2 THEN 3 ELSE 2 END,
				CASE i % 40 WHEN 0 THEN 0 ELSE 1 END, ` + receivedAt + `, ` + receivedAt + `, CASE WHEN i % 40 > 2 THEN now() END, CASE i % 40 WHEN 2 THEN now() END,
				CASE i % 40 WHEN 2 THEN 'no such order' END, CASE i % 40 WHEN 2 THEN 'no such order' END
			FROM ` + series + ` WHERE i % 40 IN (0, 2) OR i % 40 BETWEEN 15 AND 20`,
		`INSERT INTO hookonce.message (id, event_key, generation, route, destination, state, attempts, received_at, created_at, due_at, sent_at, failed_at, status_code, note, last_error)
			SELECT 'msg_' || i, hookonce.hash_strings(ARRAY['event', ` + source + `, 'evt_' || i]), 0, 'r', 'd' || i / 40 % 10,
				CASE i % 40 WHEN 1 THEN 0 WHEN 3 THEN 3 WHEN 4 THEN 4 ELSE 2 END, 1, ` + receivedAt + `, ` + receivedAt + `, now() + interval '2 days',
				CASE WHEN i % 40 > 4 THEN now() END, CASE i % 40 WHEN 3 THEN now() END, CASE i % 40 WHEN 3 THEN 500 ELSE 200 END,
				CASE i % 40 WHEN 4 THEN 'stale' ELSE '' END, CASE i % 40 WHEN 3 THEN 'the destination answered 500' END
			FROM ` + series + ` WHERE i % 40 IN (1, 3, 4) OR i % 40 BETWEEN 5 AND 14`,
	}
}

// figuresSQL returns the statements that store figures as gateways do: of each source and each destination
// one row a minute for 48 hours, one an hour for 90 days and one a day for two years, by outcome.
func figuresSQL() []string {
	var statements []string
	for _, span := range []struct {
		resolution int
		unit       string
		n          int
	}{{0, "minute", 48 * 60}, {1, "hour", 90 * 24}, {2, "day", 730}} {
		statements = append(statements, fmt.Sprintf(`INSERT INTO hookonce.rollup
			SELECT f.kind, %d, date_trunc('%s', now() - i * interval '1 %s', 'UTC'), f.prefix || k, f.label, 60, 10, 20, 20, 5, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
			FROM generate_series(0::bigint, %d) i, generate_series(0, %d) k,
				(VALUES (0, 's', 'ok'), (0, 's', 'duplicate'), (0, 's', 'refused'), (1, 's', 'signature'), (2, 'd', 'sent'), (2, 'd', 'failed'), (3, 's', ''), (4, 'd', 'messages'), (4, 'd', 'messages_age')) f(kind, prefix, label)`,
			span.resolution, span.unit, span.unit, span.n-1, listedSources-1))
	}
	return statements
}

// dropIndexes drops all indexes of tables, and returns the statements that make them again.
func dropIndexes(t testing.TB, dsn string, tables []string) (rebuild []string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	rows, err := conn.Query(t.Context(), `SELECT i.tablename, i.indexname, i.indexdef, EXISTS (
			SELECT FROM pg_constraint c WHERE c.conname = i.indexname AND c.connamespace = 'hookonce'::regnamespace)
		FROM pg_indexes i WHERE i.schemaname = 'hookonce' AND i.tablename = ANY ($1)`, tables)
	if err != nil {
		t.Fatal(err)
	}
	var drop []string
	var table, index, definition string
	var isPrimary bool
	_, err = pgx.ForEachRow(rows, []any{&table, &index, &definition, &isPrimary}, func() error {
		rebuild = append(rebuild, definition)
		if isPrimary {
			drop = append(drop, "ALTER TABLE hookonce."+table+" DROP CONSTRAINT "+index)
			rebuild = append(rebuild, "ALTER TABLE hookonce."+table+" ADD CONSTRAINT "+index+" PRIMARY KEY USING INDEX "+index)
		} else {
			drop = append(drop, "DROP INDEX hookonce."+index)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	execute(t, dsn, drop...)
	return append([]string{"SET maintenance_work_mem = '256MB'"}, rebuild...)
}
