package bench

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/program"
)

// fullTable compares receiving into a table of many claimed ids with receiving into an empty one. The server
// makes its checkpoints when it wants to: soon after one, each page that a claim changes goes to the log as a
// whole, and into a large table nearly every claim changes pages of its own.
func fullTable(t *testing.T, s *scale) *comparison {
	server := newServer(t)
	full, empty := gatewayOn(t, server, "full_table", ""), gatewayOn(t, server, "empty_table", "")
	fillTable(t, full.dsn, s.knownIDs, "1 hour")
	return &comparison{
		unit: "requests/s", ages: s.fills,
		contestants: []contestant{
			// The table is not emptied between rounds: each round adds little to it.
			{"with many claimed ids", throughput(s, full.address, newEvents())},
			{"into an empty table", func(t testing.TB) float64 {
				execute(t, empty.dsn, emptyTables)
				return throughput(s, empty.address, newEvents())(t)
			}},
		},
		rows: []row{{
			what:    fmt.Sprintf("receive with %s claimed ids in the table, against an empty one", thousands(s.knownIDs)),
			subject: "with many claimed ids", baseline: "into an empty table", want: 0.9,
		}},
	}
}

// whilePruning compares the slowest answers of a gateway whose old events are being pruned with
// those of a gateway that has nothing to prune, and counts the events that go.
func whilePruning(t *testing.T, s *scale) *comparison {
	const rate = 4000
	server := newServer(t)
	// The gateway keeps its old events. The prune command, which can be stopped, removes them.
	idle, pruning := gatewayOn(t, server, "idle", ""), gatewayOn(t, server, "pruning", "dedupe_window: 2400h\nretention: 2400h\n")
	upkeep := writeSettings(t, gatewaySettings(pruning.dsn, ""))
	slowest := func(address string) float64 {
		l := load{address: address, request: newEvents(), connections: connections, warm: s.warm, lasts: s.lasts, rate: rate}
		return milliseconds(l.run(t).quantile(0.99))
	}
	left := func(t testing.TB) int {
		return count(t, pruning.dsn, "SELECT count(*) FROM hookonce.event WHERE received_at < now() - interval '50 days'")
	}
	var removed float64 // a second, in the last round
	return &comparison{
		unit: "ms", rounds: s.stalls,
		contestants: []contestant{
			{"while pruning", func(t testing.TB) float64 {
				if count(t, pruning.dsn, "SELECT count(*) FROM (SELECT FROM hookonce.event WHERE source = 'old' LIMIT 1) e") == 0 {
					fillTable(t, pruning.dsn, s.oldEvents, "60 days")
				}
				// The prune command follows the windows of all processes, also the long ones of the gateway.
				// The command of the round before was killed, and its turn would last for a minute.
				execute(t, pruning.dsn, "DELETE FROM hookonce.source_window", "DELETE FROM hookonce.prune_turn")
				cmd := pruneCommand(t, upkeep)
				before, began := left(t), time.Now()
				p := program.Start(t, cmd)
				defer p.Kill() // the next round continues
				figure := slowest(pruning.address)
				took, after := time.Since(began), left(t)
				removed = float64(before-after) / took.Seconds()
				if s.full && removed == 0 {
					t.Fatalf("the figure is void: nothing was pruned: %s", p.Log())
				}
				if s.full && after == 0 {
					t.Fatal("the figure is void: everything was pruned before the load ended")
				}
				return figure
			}},
			{"events pruned in a second", func(testing.TB) float64 { return removed }},
			{"without", func(testing.TB) float64 { return slowest(idle.address) }},
		},
		rows: []row{{
			what:    fmt.Sprintf("p99 answer time at %s requests/s while %s old events are pruned, against without", thousands(rate), thousands(s.oldEvents)),
			subject: "while pruning", baseline: "without", want: 1.5, atMost: true,
		}, {
			what:    fmt.Sprintf("old events, each with its state row, pruned a second while receiving %s requests/s", thousands(rate)),
			subject: "events pruned in a second", want: 8000, unit: "events/s",
		}},
	}
}

// ownGateway is a gateway with a database of its own.
type ownGateway struct {
	*process
	dsn string
}

// gatewayOn starts a gateway on a new database, with more settings.
func gatewayOn(t testing.TB, server *dbtest.Server, database, more string) *ownGateway {
	t.Helper()
	dsn := newDatabase(t, server, database)
	return &ownGateway{startGateway(t, gatewaySettings(dsn, more)), dsn}
}

func pruneCommand(t testing.TB, folder string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(program.Plain(t, "./cmd/hookonce"), "prune")
	cmd.Dir = folder
	return cmd
}

// fillTable writes finished events as claims and consumers leave them, with keys in no order.
func fillTable(t testing.TB, dsn string, n int, ago string) {
	t.Helper()
	const step = 1_000_000
	for first := 1; first <= n; first += step {
		execute(t, dsn, fmt.Sprintf(`INSERT INTO hookonce.event (key, source, event_id, type, received_at, headers, body, body_sha256, work)
			SELECT sha256(int8send(i)), 'old', 'evt_' || i, 'invoice.paid', now() - '%[3]s'::interval + i * interval '1 microsecond', '{}', '{}', sha256('{}'), 1
			FROM generate_series(%[1]d::bigint, %[2]d) i`, first, min(first+step-1, n), ago),
			fmt.Sprintf(`INSERT INTO hookonce.event_state (key, source, type, state, attempts, due_at, processed_at)
			SELECT sha256(int8send(i)), 'old', 'invoice.paid', 2, 1, now() - '%[3]s'::interval, now() - '%[3]s'::interval
			FROM generate_series(%[1]d::bigint, %[2]d) i`, first, min(first+step-1, n), ago))
	}
	settle(t, dsn)
}

// memory measures the peak memory of a gateway with many requests in flight. All of them send all
// bytes except the last; then all send the last byte at once.
func memory(t *testing.T, s *scale) *comparison {
	return &comparison{
		unit: "MB",
		contestants: []contestant{{"hookonce", func(t testing.TB) float64 {
			server := newServer(t)
			gateway := startGateway(t, gatewaySettings(server.DSN(), ""))
			holdInFlight(t, gateway.address, s.inFlight)
			peak := gateway.peakMemory(t)
			gateway.Stop(t)
			return float64(peak) / 1e6
		}}},
		rows: []row{{
			what:    fmt.Sprintf("memory of the gateway at %s requests in flight", thousands(s.inFlight)),
			subject: "hookonce", want: 120, atMost: true,
		}},
	}
}

// holdInFlight keeps n requests open at the same time, then completes them.
func holdInFlight(t testing.TB, address string, n int) {
	t.Helper()
	request := newEvents()
	first := firstOf(t)
	conns := make([]net.Conn, n)
	last := make([]byte, n)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var failed error
	each := func(what func(i int) error) {
		for i := range n {
			wg.Go(func() {
				if err := what(i); err != nil {
					mu.Lock()
					failed = err
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if failed != nil {
			t.Fatal(failed)
		}
	}
	each(func(i int) (err error) {
		if conns[i], err = net.Dial("tcp", address); err != nil {
			return err
		}
		whole := request(nil, first+int64(i))
		last[i] = whole[len(whole)-1]
		_, err = conns[i].Write(whole[:len(whole)-1])
		return err
	})
	each(func(i int) error {
		defer conns[i].Close()
		if _, err := conns[i].Write(last[i : i+1]); err != nil {
			return err
		}
		status, err := readAnswer(bufio.NewReaderSize(conns[i], 512))
		if err == nil && status != 200 && status != 503 { // this many at once may exceed the queue
			err = fmt.Errorf("answered %d", status)
		}
		return err
	})
}

// startUp measures the time from the start of a gateway on an existing database until it is ready.
func startUp(t *testing.T, s *scale) *comparison {
	again := func(database string) func(testing.TB) float64 {
		g := startGateway(t, gatewaySettings(database, ""))
		l := load{address: g.address, request: newEvents(), connections: 16, lasts: s.lasts}
		l.run(t)
		g.Stop(t)
		return func(t testing.TB) float64 {
			began := time.Now()
			p := startGatewayIn(t, g.Cmd.Dir)
			took := time.Since(began)
			p.Stop(t)
			return milliseconds(took)
		}
	}
	return &comparison{
		unit: "ms",
		contestants: []contestant{
			{"SQLite", again("sqlite:hookonce.db")},
			{"PostgreSQL", again(newServer(t).DSN())},
		},
		rows: []row{
			{what: "start of serve on an existing SQLite file until /readyz", subject: "SQLite", want: 150, atMost: true},
			{what: "start of serve on PostgreSQL until /readyz", subject: "PostgreSQL", want: 300, atMost: true},
		},
	}
}

// runPgbench runs a script and returns its transactions per second.
func runPgbench(t testing.TB, s *scale, dsn, script string) float64 {
	t.Helper()
	file := filepath.Join(t.TempDir(), "script.sql")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	seconds := max(1, int(s.lasts/time.Second))
	out := runToEnd(t, exec.Command("pgbench", "-n", "-f", file, "-c", "32", "-j", "2", "-M", "prepared", "-T", strconv.Itoa(seconds), dsn))
	m := regexp.MustCompile(`tps = ([0-9.]+)`).FindSubmatch(out)
	if m == nil {
		t.Fatalf("pgbench printed %s", out)
	}
	tps, err := strconv.ParseFloat(string(m[1]), 64)
	if err != nil {
		t.Fatal(err)
	}
	return tps
}

// thousands formats a number with commas between thousands.
func thousands(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
