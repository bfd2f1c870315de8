package bench

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/program"
)

const connections = 256

// receiveOnPostgres compares receivers on PostgreSQL that answer after their commit.
func receiveOnPostgres(t *testing.T, s *scale) *comparison {
	server := newServer(t)
	gateway := startGateway(t, gatewaySettings(server.DSN(), ""))
	c := &comparison{unit: "requests/s", rows: []row{
		{what: "receive on PostgreSQL, against the bare handler", subject: "hookonce", baseline: "bare handler", want: 0.6},
		{what: "receive on PostgreSQL, against the same two rows written for each request", subject: "hookonce", baseline: "per request", want: 3.5},
		{what: "receive on PostgreSQL, against FastAPI and asyncpg", subject: "hookonce", baseline: "FastAPI", want: 7},
	}}
	c.contestants = []contestant{
		{"hookonce", emptyBefore(server.DSN(), throughput(s, gateway.address, newEvents()))},
		{"bare handler", throughput(s, startRole(t, roleBare, "").address, newEvents())},
		{"per request", emptyBefore(server.DSN(), throughput(s, startRole(t, rolePerRequest, server.DSN()).address, newEvents()))},
		{"pgbench, the INSERT of the claim alone", emptyBefore(server.DSN(), pgbench(s, server.DSN()))},
		{"FastAPI", emptyBefore(server.DSN(), throughput(s, startFastAPI(t, server.DSN()), githubEvents()))},
	}
	return c
}

// receiveOnSQLite measures a gateway on SQLite, each time on a new file.
func receiveOnSQLite(t *testing.T, s *scale) *comparison {
	bare := startRole(t, roleBare, "")
	return &comparison{
		unit: "requests/s",
		contestants: []contestant{
			{"hookonce on SQLite", func(t testing.TB) float64 {
				gateway := startGateway(t, gatewaySettings("sqlite:hookonce.db", ""))
				defer gateway.Stop(t)
				return throughput(s, gateway.address, newEvents())(t)
			}},
			{"bare handler", throughput(s, bare.address, newEvents())},
		},
		rows: []row{
			{what: "receive on SQLite (synchronous=FULL), against the bare handler", subject: "hookonce on SQLite", baseline: "bare handler", want: 0.5},
		},
	}
}

// latencyAlone compares the median answer times of one connection.
func latencyAlone(t *testing.T, s *scale) *comparison {
	return againstPerRequest(t, "ms", func(address string) func(testing.TB) float64 {
		l := load{address: address, request: newEvents(), connections: 1, warm: s.warm, lasts: s.lasts}
		return func(t testing.TB) float64 { return milliseconds(l.run(t).quantile(0.5)) }
	}, row{what: "median answer time of one connection, against writing for each request", want: 1.05, atMost: true})
}

// latencyAloneOnSQLite does the same for stores in one file.
func latencyAloneOnSQLite(t *testing.T, s *scale) *comparison {
	median := func(address string) func(testing.TB) float64 {
		l := load{address: address, request: newEvents(), connections: 1, warm: s.warm, lasts: s.lasts}
		return func(t testing.TB) float64 { return milliseconds(l.run(t).quantile(0.5)) }
	}
	gateway := startGateway(t, gatewaySettings("sqlite:hookonce.db", ""))
	byHand := startRole(t, roleOnSQLite, filepath.Join(t.TempDir(), "byhand.db"))
	return &comparison{
		unit: "ms",
		contestants: []contestant{
			{"hookonce on SQLite", median(gateway.address)},
			{"per request on SQLite", median(byHand.address)},
		},
		rows: []row{{
			what:    "the same on SQLite (synchronous=FULL)",
			subject: "hookonce on SQLite", baseline: "per request on SQLite", want: 1.2, atMost: true,
		}},
	}
}

// latencyUnderLoad compares the slowest answers at a rate that both contestants reach.
func latencyUnderLoad(t *testing.T, s *scale) *comparison {
	c := againstPerRequest(t, "ms", func(address string) func(testing.TB) float64 {
		l := load{address: address, request: newEvents(), connections: connections, warm: s.warm, lasts: s.lasts, rate: 4000}
		return func(t testing.TB) float64 { return milliseconds(l.run(t).quantile(0.99)) }
	}, row{what: "p99 answer time at 4,000 requests/s offered, against writing for each request", want: 0.5, atMost: true})
	c.rounds = s.stalls
	return c
}

// slowDisk compares both where every fdatasync takes 2 ms longer.
func slowDisk(t *testing.T, s *scale) *comparison {
	return againstPerRequest(t, "requests/s", func(address string) func(testing.TB) float64 {
		return throughput(s, address, newEvents())
	}, row{what: "receive with fsync slowed by 2 ms, against writing for each request", want: 3}, "LD_PRELOAD="+buildSlowDisk(t))
}

// againstPerRequest compares a gateway with a receiver that writes its rows for each request.
func againstPerRequest(t *testing.T, unit string, measure func(address string) func(testing.TB) float64, r row, env ...string) *comparison {
	server := newServer(t, env...)
	gateway := startGateway(t, gatewaySettings(server.DSN(), ""))
	byHand := startRole(t, rolePerRequest, server.DSN())
	r.subject, r.baseline = "hookonce", "per request"
	return &comparison{
		unit: unit,
		contestants: []contestant{
			{r.subject, emptyBefore(server.DSN(), measure(gateway.address))},
			{r.baseline, emptyBefore(server.DSN(), measure(byHand.address))},
		},
		rows: []row{r},
	}
}

// storm measures a gateway that gets the same events over and over.
func storm(t *testing.T, s *scale) *comparison {
	server := newServer(t)
	gateway := startGateway(t, gatewaySettings(server.DSN(), ""))
	const events = 10_000
	return &comparison{
		unit: "requests/s",
		contestants: []contestant{
			{"hookonce", throughput(s, gateway.address, knownEvents(events))},
			{"bare handler", throughput(s, startRole(t, roleBare, "").address, knownEvents(events))},
		},
		rows: []row{
			{what: "a storm of duplicates of known events, against the bare handler", subject: "hookonce", baseline: "bare handler", want: 0.65},
		},
	}
}

func throughput(s *scale, address string, request func([]byte, int64) []byte) func(testing.TB) float64 {
	l := load{address: address, request: request, connections: connections, warm: s.warm, lasts: s.lasts}
	return func(t testing.TB) float64 { return l.run(t).perSecond() }
}

func emptyBefore(dsn string, measure func(testing.TB) float64) func(testing.TB) float64 {
	return func(t testing.TB) float64 {
		execute(t, dsn, emptyTables, "CHECKPOINT")
		return measure(t)
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// startFastAPI starts the usual receiver of tutorials and returns its address.
func startFastAPI(t testing.TB, dsn string) string {
	t.Helper()
	address := dbtest.FreeAddress(t)
	cmd := exec.Command("/usr/bin/python3", "receiver.py", dsn, address)
	cmd.Dir = "fastapi"
	cmd.Env = append(os.Environ(), "WEBHOOK_SECRET="+secret)
	p := program.Start(t, cmd)
	t.Cleanup(func() { // its workers end with it, but not when it is killed
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-p.Exited
	})
	p.Eventually(t, "both processes of the receiver are up", func() bool {
		resp, err := http.Get("http://" + address + "/ready")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	return address
}

// buildSlowDisk builds a library that makes fdatasync slower and returns its path.
func buildSlowDisk(t testing.TB) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "hookonce-bench-") //nolint:usetesting // t.TempDir is in a folder that the server's user may not enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	if err := os.Chmod(folder, 0o755); err != nil { // the server runs as another user
		t.Fatal(err)
	}
	library := filepath.Join(folder, "slowdisk.so")
	if out, err := exec.Command("gcc", "-shared", "-fPIC", "-O2", "-o", library, filepath.Join("slowdisk", "slowdisk.c")).CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", library, err, out)
	}
	return library
}

// pgbench measures the INSERT of a claim's row with the database's own tool. This is the upper
// limit of one statement for each event.
func pgbench(s *scale, dsn string) func(testing.TB) float64 {
	return func(t testing.TB) float64 {
		return runPgbench(t, s, dsn, fmt.Sprintf(`INSERT INTO hookonce.event (key, source, event_id, type, headers, body, body_sha256, work)
			SELECT sha256(r.id::text::bytea), '%s', 'evt_' || r.id, 'invoice.paid', '{}', convert_to(repeat('0123456789ab', 100), 'UTF8'), sha256('x'), 1
			FROM (SELECT gen_random_uuid() AS id) r ON CONFLICT DO NOTHING;`, sourceName))
	}
}
