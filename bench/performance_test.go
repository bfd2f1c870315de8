package bench

import "testing"

// TestPerformance runs all comparisons. At full scale it also writes their rows into the page.
func TestPerformance(t *testing.T) {
	s := scaleOf(t)
	var results []result
	whole := true // false once -run leaves one out
	for _, c := range []struct {
		name string
		// baselines means that the row needs programs that not every machine has.
		baselines bool
		prepare   func(*testing.T, *scale) *comparison
	}{
		{"receive on PostgreSQL", false, receiveOnPostgres},
		{"receive on SQLite", false, receiveOnSQLite},
		{"latency of one connection", false, latencyAlone},
		{"latency of one connection on SQLite", false, latencyAloneOnSQLite},
		{"latency under load", false, latencyUnderLoad},
		{"storm of duplicates", false, storm},
		{"slow disk", true, slowDisk},
		{"handlers", false, handlers},
		{"take", true, takeFromPython},
		{"open transaction", false, besideOpenTransaction},
		{"forward", false, forward},
		{"forward over TLS", false, forwardOverTLS},
		{"forward live", false, forwardLive},
		{"dead destination", false, besideDeadDestination},
		{"idle gateway", false, idleGateway},
		{"full table", false, fullTable},
		{"pruning", false, whilePruning},
		{"memory", false, memory},
		{"start", false, startUp},
		{"listings", false, listings},
	} {
		if c.baselines && !s.everything {
			t.Logf("left out: %s (%s=%s measures it)", c.name, scaleVariable, scaleBrief)
			continue
		}
		before := len(results)
		t.Run(c.name, func(t *testing.T) { results = append(results, c.prepare(t, s).run(t, s)...) })
		whole = whole && len(results) > before
	}
	for i := range results {
		r := &results[i]
		t.Logf("%-90s %8.3g  %s", r.what, r.value(), r.wanted())
	}
	if s.full && len(results) > 0 && !t.Failed() {
		writePage(t, results, whole)
	}
}
