package bench

import (
	"os/exec"
	"testing"
)

// TestPerformance runs all comparisons. At full scale it also writes their rows into the pages.
func TestPerformance(t *testing.T) {
	s := scaleOf(t)
	if out, err := exec.Command("./setup").CombinedOutput(); err != nil {
		t.Fatalf("bench/setup: %v\n%s", err, out)
	}
	var results []result
	whole := true // false once -run leaves one out
	for _, c := range []struct {
		name    string
		prepare func(*testing.T, *scale) *comparison
	}{
		{"receive on PostgreSQL", receiveOnPostgres},
		{"receive on SQLite", receiveOnSQLite},
		{"latency of one connection", latencyAlone},
		{"latency of one connection on SQLite", latencyAloneOnSQLite},
		{"latency under load", latencyUnderLoad},
		{"storm of duplicates", storm},
		{"slow disk", slowDisk},
		{"handlers", handlers},
		{"take", takeFromPython},
		{"open transaction", besideOpenTransaction},
		{"forward", forward},
		{"forward over TLS", forwardOverTLS},
		{"forward live", forwardLive},
		{"dead destination", besideDeadDestination},
		{"idle gateway", idleGateway},
		{"full table", fullTable},
		{"pruning", whilePruning},
		{"memory", memory},
		{"start", startUp},
		{"listings", listings},
	} {
		before := len(results)
		t.Run(c.name, func(t *testing.T) { results = append(results, c.prepare(t, s).run(t, s)...) })
		whole = whole && len(results) > before
	}
	for i := range results {
		r := &results[i]
		t.Logf("%-90s %8.3g  %s", r.what, r.value(), r.wanted())
	}
	if s.full && len(results) > 0 && !t.Failed() {
		writePages(t, results, whole)
	}
}
