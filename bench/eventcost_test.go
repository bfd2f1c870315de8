package bench

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookmigrate"
	"github.com/hookonce/hookonce/hookpgx"
	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/report"
)

// TestEventCost writes what one event costs PostgreSQL into docs/architecture.md: rows, index entries and bytes of the log, as
// pg_waldump counts them. They hardly depend on the machine, so the test may run beside others.
func TestEventCost(t *testing.T) {
	const events, batch = 2000, 100
	server := dbtest.StartServer(t, &dbtest.Options{Config: []string{"autovacuum=off", "checkpoint_timeout=1h", "max_wal_size=4GB", "wal_log_hints=off"}})
	pool, err := pgxpool.New(t.Context(), server.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	store := hookpgx.New(pool)
	defer store.Close()
	if _, err := hookmigrate.Up(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	w := &costs{T: t, pool: pool, store: store, batch: batch}
	var table strings.Builder
	table.WriteString("| step | rows written | rows changed | rows removed | index entries | bytes of the log |\n|---|---|---|---|---|---|\n")
	for _, step := range []struct {
		name string
		do   func(claims []driver.Claim)
	}{
		{"claim, for a handler", w.claim(driver.WorkQueued, 0, false)},
		{"take and mark done, with the record of the run", w.run},
		{"remove it after its window", w.prune},
		{"claim, for one destination", w.claim(driver.WorkNone, 0, true)},
		{"lease its message", w.lease},
		{"record that it was sent", w.complete},
		{"remove it after its window", w.prune},
		{"claim, with the message leased in the same statement", w.claim(driver.WorkNone, time.Minute, true)},
		{"record that it was sent", w.complete},
		{"claim a copy of it", w.copies},
	} {
		if strings.HasPrefix(step.name, "claim, ") {
			w.round++
		}
		from := w.position()
		for i := 0; i < events; i += batch {
			step.do(w.claims(i, batch))
		}
		cost := w.wal(server, from)
		if rows := cost.inserted + cost.updated; (rows < events/10) != (step.name == "claim a copy of it" || strings.HasPrefix(step.name, "remove")) {
			t.Errorf("%s: %.0f rows were written or changed", step.name, rows)
		}
		fmt.Fprintf(&table, "| %s | %s |\n", step.name, cost.each(events))
	}
	t.Log("\n" + table.String())
	if scaleOf(t).full {
		report.Write(t, filepath.Join(report.Docs(1), "architecture.md"), "cost of an event", "bench", table.String())
	}
}

// costs makes events of 1.2 kB take their steps, a batch at a time.
type costs struct {
	*testing.T
	pool   *pgxpool.Pool
	store  *hookpgx.Store
	batch  int
	round  int // of new events
	leased []driver.MessageLease
}

func (w *costs) check(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// claims returns new claims for the events of a batch, sorted.
func (w *costs) claims(first, n int) []driver.Claim {
	body := []byte(`{"filler":"` + strings.Repeat("x", 1180) + `"}`)
	all := make([]driver.Claim, n)
	for i := range all {
		id := fmt.Sprintf("evt_%d_%024d", w.round, first+i)
		key := driver.EventKey("stripe", id)
		all[i] = driver.Claim{
			Key: key, Source: "stripe", EventID: id, Type: "invoice.paid", Headers: []byte(`{"Content-Type":["application/json"]}`),
			Body: body, BodyHash: sha256.Sum256(body),
		}
	}
	slices.SortFunc(all, func(a, b driver.Claim) int { return bytes.Compare(a.Key[:], b.Key[:]) })
	return all
}

func (w *costs) claim(work driver.Work, lease time.Duration, routed bool) func([]driver.Claim) {
	return func(claims []driver.Claim) {
		for i := range claims {
			c := &claims[i]
			c.Work = work
			if routed {
				c.Messages = []driver.NewMessage{{ID: driver.MessageID(c.Key, 0, "billing"), Route: "billing", Destination: "billing", LeaseFor: lease}}
			}
		}
		results, err := w.store.Claim(w.Context(), &driver.ClaimParams{Claims: claims})
		w.check(err)
		for i := range results {
			w.leased = append(w.leased, results[i].Leases...)
		}
	}
}

func (w *costs) copies(claims []driver.Claim) {
	_, err := w.store.Claim(w.Context(), &driver.ClaimParams{Claims: claims, MostlyKnown: true})
	w.check(err)
}

func (w *costs) run([]driver.Claim) {
	run, err := w.store.Take(w.Context(), &driver.TakeParams{
		Source: "stripe", Types: []string{"*"}, Limit: w.batch, HandlerTimeout: time.Minute, Retry: driver.Retry{Attempts: 3, First: time.Second, Max: time.Second},
	})
	w.check(err)
	p := &driver.FinishParams{}
	for _, e := range run.Events() {
		p.Results = append(p.Results, driver.WorkResult{Key: e.Key, Outcome: driver.WorkSucceeded})
	}
	w.check(run.Finish(w.Context(), p))
}

func (w *costs) lease([]driver.Claim) {
	leased, err := w.store.Lease(w.Context(), &driver.LeaseParams{Destination: "billing", Limit: w.batch, For: time.Minute, MaxAttempts: 20})
	w.check(err)
	for _, m := range leased.Messages {
		w.leased = append(w.leased, driver.MessageLease{ID: m.ID, Token: m.Token})
	}
}

func (w *costs) complete([]driver.Claim) {
	n := min(w.batch, len(w.leased))
	p := &driver.CompleteParams{}
	for _, l := range w.leased[:n] {
		p.Completions = append(p.Completions, driver.Completion{ID: l.ID, Token: l.Token, Outcome: driver.MessageSent, StatusCode: 200, Took: time.Millisecond})
	}
	w.leased = w.leased[n:]
	_, err := w.store.Complete(w.Context(), p)
	w.check(err)
}

// prune removes all events at its first call.
func (w *costs) prune([]driver.Claim) {
	day := 24 * time.Hour
	_, err := w.store.Prune(w.Context(), &driver.PruneParams{DedupeWindow: day, Retention: day, Now: time.Now().Add(3 * day)})
	w.check(err)
}

// position returns the end of the log.
func (w *costs) position() (lsn string) {
	w.check(w.pool.QueryRow(w.Context(), "SELECT pg_current_wal_insert_lsn()::text").Scan(&lsn))
	return lsn
}

// walCounts are the records of a part of the log.
type walCounts struct{ inserted, updated, deleted, indexed, bytes float64 }

// each returns the columns of the table, for one of n events.
func (c walCounts) each(n float64) string {
	return fmt.Sprintf("%.1f | %.1f | %.1f | %.1f | %.0f", c.inserted/n, c.updated/n, c.deleted/n, c.indexed/n, c.bytes/n)
}

// walRecord is a line of pg_waldump: how many records of a kind a transaction has written, and their bytes.
var walRecord = regexp.MustCompile(`rmgr: (\S+)\s+len \(rec/tot\):\s+\d+/\s*(\d+),.*?desc: (\S+)(?:.*?(?:nrels|ntuples): (\d+))?`)

// wal counts the records of the log from a position on.
func (w *costs) wal(server *dbtest.Server, from string) (c walCounts) {
	var folder string
	ctx := context.WithoutCancel(w.Context())
	conn, err := pgx.Connect(ctx, server.DSN())
	w.check(err)
	defer conn.Close(ctx)
	// The end of the log must be on the disk for pg_waldump.
	w.check(conn.QueryRow(ctx, "SELECT current_setting('data_directory') FROM pg_logical_emit_message(true, 'cost', '')").Scan(&folder))
	to := w.position()
	out, err := exec.CommandContext(ctx, filepath.Join(dbtest.Programs(w), "pg_waldump"), "-p", filepath.Join(folder, "pg_wal"), "-s", from, "-e", to).Output()
	if len(out) == 0 {
		w.Fatalf("pg_waldump: %v", err)
	}
	for _, m := range walRecord.FindAllStringSubmatch(string(out), -1) {
		size, _ := strconv.ParseFloat(m[2], 64)
		rows := 1.0
		if m[4] != "" {
			rows, _ = strconv.ParseFloat(m[4], 64)
		}
		c.bytes += size
		switch m[1] + "/" + strings.TrimSuffix(m[3], "+INIT") {
		case "Heap/INSERT":
			c.inserted++
		case "Heap2/MULTI_INSERT":
			c.inserted += rows
		case "Heap/UPDATE", "Heap/HOT_UPDATE":
			c.updated++
		case "Heap/DELETE":
			c.deleted++
		case "Btree/INSERT_LEAF":
			c.indexed++
		case "Btree/SPLIT_L", "Btree/SPLIT_R":
			c.indexed++
		}
	}
	return c
}
