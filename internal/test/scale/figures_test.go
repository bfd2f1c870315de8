package scale

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/report"
)

// figures are measured values by the number of gateways.
type figures struct {
	receiving map[int][]received
	idle      map[int]idle
	shares    map[int]share
	sent      []float64 // messages a second, by the index of engines
}

// received are the figures of one load on n gateways.
type received struct {
	perSecond float64
	p99       time.Duration
	// Processor time of an event.
	sender, gateways, postgres time.Duration
	// Bytes of an event.
	stored, written float64 // in tables and indexes; in the write-ahead log
}

// idle are the figures of n gateways without work.
type idle struct {
	transactions float64       // a second
	processor    time.Duration // of PostgreSQL, a second
	connections  int
}

// share tells how n gateways share a backlog.
type share struct {
	least, most float64 // sent messages of a gateway, as a part of an even share
	perSecond   float64
}

// TestFigures measures several gateways on one PostgreSQL whose files are on the disk. Its short form shows that all
// can be measured. The long form writes docs/scale.md.
func TestFigures(t *testing.T) { //nolint:paralleltest // it measures
	full := report.Scale(t)
	f := figures{receiving: make(map[int][]received), idle: make(map[int]idle), shares: make(map[int]share)}
	server := dbtest.StartServer(t, &dbtest.Options{
		OnDisk: true,
		Config: []string{"shared_buffers=1GB", "max_wal_size=8GB", "min_wal_size=1GB", "checkpoint_timeout=15min"},
	})
	most, rounds := 2, 1
	if full {
		most, rounds = 16, 3
	}
	for range rounds { // in turn, so that an hour of the machine is the same for all
		for n := 1; n <= min(most, 4); n *= 2 {
			if r := receive(t, server, n, amount(t, 2_000, 40_000)); r.perSecond > 0 {
				f.receiving[n] = append(f.receiving[n], r)
			}
		}
	}
	for n := 1; n <= most; n *= 4 {
		f.idle[n] = idling(t, server, n, time.Duration(amount(t, 1, 20))*time.Second)
	}
	for n := 2; n <= most; n *= 2 {
		f.shares[n] = sharing(t, server, n, amount(t, 500, 20_000))
	}
	for _, e := range engines {
		if perSecond := sending(t, server, e, amount(t, 200, 20_000)); perSecond > 0 {
			f.sent = append(f.sent, perSecond)
		}
	}
	t.Log(f.text())
	// With -run a part is left out, and the page keeps its figures.
	whole := len(f.receiving[1]) > 0 && f.idle[1].connections > 0 && f.shares[2].most > 0 && len(f.sent) == len(engines)
	if full && whole && !t.Failed() {
		f.write(t)
	}
}

// bare makes a cluster of n gateways on a new database of a server, without a balancer and routes.
func bare(t testing.TB, server *dbtest.Server, n int) *cluster {
	t.Helper()
	c := newCluster(t, n)
	c.database = newDatabase(t, server.DSN())
	return c
}

// stopAll ends the gateways without the delay.
func (c *cluster) stopAll(t testing.TB) {
	t.Helper()
	for _, g := range c.gateways {
		g.Kill()
	}
}

// receive measures events that are delivered to n gateways at once.
func receive(t *testing.T, server *dbtest.Server, n, events int) (r received) {
	t.Run(fmt.Sprintf("receive/%d", n), func(t *testing.T) {
		c := bare(t, server, n)
		c.configure(t, "database: ${DATABASE_URL}\nsources:\n  stripe: {provider: stripe, secrets: [\"${SECRET}\"]}\n")
		var pids []int
		for _, g := range c.gateways {
			c.start(t, g, thisBuild(t))
			pids = append(pids, g.Cmd.Process.Pid)
		}
		deliver(t, c.gateways, 1000, 64) // so that sessions and plans are there
		spent := func() (sender, gateways, postgres time.Duration) {
			return report.ProcessorTime(t, os.Getpid()), report.ProcessorTime(t, pids...), report.ProcessorTime(t, server.PIDs(t)...)
		}
		conn, err := pgx.Connect(t.Context(), c.database)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(t.Context())
		bytes := func() (stored, written float64) {
			const query = "SELECT pg_database_size(current_database()), pg_current_wal_insert_lsn() - '0/0'::pg_lsn"
			if err := conn.QueryRow(t.Context(), query).Scan(&stored, &written); err != nil {
				t.Fatal(err)
			}
			return stored, written
		}
		stored, written := bytes()
		sender, gateways, postgres := spent()
		began := time.Now()
		took := deliver(t, c.gateways, events, 256)
		r.perSecond, r.p99 = float64(events)/time.Since(began).Seconds(), took[len(took)*99/100]
		senderAfter, gatewaysAfter, postgresAfter := spent()
		storedAfter, writtenAfter := bytes()
		r.stored, r.written = (storedAfter-stored)/float64(events), (writtenAfter-written)/float64(events)
		each := time.Duration(events)
		r.sender, r.gateways, r.postgres = (senderAfter-sender)/each, (gatewaysAfter-gateways)/each, (postgresAfter-postgres)/each
		c.stopAll(t)
	})
	return r
}

// deliver sends new events to gateways over connections that are spread evenly, and returns the answer times, sorted.
func deliver(t testing.TB, gateways []*gateway, events, connections int) []time.Duration {
	t.Helper()
	load, next := rand32(), atomic.Int64{}
	var (
		senders sync.WaitGroup
		mu      sync.Mutex
		all     []time.Duration
	)
	for i := range connections {
		g := gateways[i%len(gateways)]
		senders.Go(func() {
			took, err := deliverOver(g, func() string {
				if n := next.Add(1); n <= int64(events) {
					return fmt.Sprintf("%s-%d", load, n)
				}
				return ""
			})
			mu.Lock()
			defer mu.Unlock()
			all = append(all, took...)
			if err != nil {
				t.Errorf("sending to %s: %v", g.name, err)
			}
		})
	}
	senders.Wait()
	slices.Sort(all)
	return all
}

var filling = strings.Repeat("x", 1000)

// deliverOver sends events to a gateway over one connection until there is no further id. It writes plain bytes,
// because a client of net/http would take as much of the processors as a gateway.
func deliverOver(g *gateway, nextID func() string) (took []time.Duration, err error) {
	conn, err := net.Dial("tcp", g.public)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	answers := bufio.NewReader(conn)
	for id := nextID(); id != ""; id = nextID() {
		body := `{"id":"` + id + `","type":"test","data":"` + filling + `"}`
		began := time.Now()
		if _, err := fmt.Fprintf(conn, "POST /webhooks/stripe HTTP/1.1\r\nHost: hooks.example.com\r\nContent-Type: application/json\r\n"+
			"Stripe-Signature: %s\r\nContent-Length: %d\r\n\r\n%s", signature(body), len(body), body); err != nil {
			return took, err
		}
		resp, err := http.ReadResponse(answers, nil)
		if err != nil {
			return took, err
		}
		_, err = io.Copy(io.Discard, resp.Body)
		if err := errors.Join(err, resp.Body.Close()); err != nil {
			return took, err
		}
		if resp.StatusCode != http.StatusOK {
			return took, fmt.Errorf("answered %s", resp.Status)
		}
		took = append(took, time.Since(began))
	}
	return took, nil
}

// idling measures n gateways that have a source and a destination, and nothing to do.
func idling(t *testing.T, server *dbtest.Server, n int, lasts time.Duration) (i idle) {
	t.Run(fmt.Sprintf("idle/%d", n), func(t *testing.T) {
		c := bare(t, server, n)
		for _, g := range c.gateways {
			c.start(t, g, thisBuild(t))
		}
		conn, err := pgx.Connect(t.Context(), c.database)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(t.Context())
		<-time.After(2 * lasts / 3) // the first seconds of a gateway have more work
		committed := func() int {
			return number(t, conn, "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()")
		}
		before, spent, began := committed(), report.ProcessorTime(t, server.PIDs(t)...), time.Now()
		<-time.After(lasts)
		took := time.Since(began).Seconds()
		i.transactions = float64(committed()-before) / took
		i.processor = time.Duration(float64(report.ProcessorTime(t, server.PIDs(t)...)-spent) / took)
		i.connections = number(t, conn, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()") - 1
		c.stopAll(t)
	})
	return i
}

// sharing lets n gateways send a backlog, each to a path of its own, and compares their parts.
func sharing(t *testing.T, server *dbtest.Server, n, events int) (s share) {
	t.Run(fmt.Sprintf("share/%d", n), func(t *testing.T) {
		c := bare(t, server, n)
		var mu sync.Mutex
		sent, all := make(map[string]int), make(chan struct{})
		left := events
		sink := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			<-time.After(20 * time.Millisecond) // as an application far away
			mu.Lock()
			defer mu.Unlock()
			sent[r.URL.Path]++
			if left--; left == 0 {
				close(all)
			}
		}))
		defer sink.Close()
		for i, g := range c.gateways {
			c.spawn(t, g, thisBuild(t), fmt.Sprintf("SINK=%s/%d", sink.URL, i))
			g.Eventually(t, "it is ready", func() bool { return g.readiness() == http.StatusOK })
		}
		c.destination(t, "pause")
		deliver(t, c.gateways[:1], events, 64)
		began := time.Now()
		c.destination(t, "resume")
		select {
		case <-all:
		case <-time.After(4 * eventually.Bound):
			t.Fatalf("%d messages are not sent", left)
		}
		s.perSecond = float64(events) / time.Since(began).Seconds()
		var parts []int
		for i := range n {
			parts = append(parts, sent[fmt.Sprintf("/%d/first", i)])
		}
		even := float64(events) / float64(n)
		s.least, s.most = float64(slices.Min(parts))/even, float64(slices.Max(parts))/even
		c.stopAll(t)
	})
	return s
}

// destination pauses or resumes the destination for all gateways.
func (c *cluster) destination(t testing.TB, action string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, "http://"+c.gateways[0].admin+"/api/v1/destinations/app/"+action, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", action, resp.Status)
	}
}
