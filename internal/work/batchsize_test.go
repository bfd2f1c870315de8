package work

import (
	"testing"
	"time"
)

func TestBatchSizesFollowTheHandlers(t *testing.T) {
	t.Parallel()
	var p batchSizes
	if got := p.limit("a", 200); got != 50 {
		t.Errorf("an unknown source: %d events are taken, want 50", got)
	}
	for range 20 {
		p.note("quick", 100, 10*time.Millisecond, 0)
		p.note("slow", 4, 200*time.Millisecond, 0)
		p.note("slowest", 1, 10*time.Second, 0)
		p.note("instant", 1000, 0, 0)
	}
	for source, want := range map[string]int{"quick": 200, "slow": 2, "slowest": 1, "instant": 200, "b": 50} {
		if got := p.limit(source, 200); got != want {
			t.Errorf("%s: %d events are taken, want %d", source, got, want)
		}
	}
	if got := p.limit("quick", 1); got != 1 {
		t.Errorf("with Batch 1: %d events are taken, want 1", got)
	}
	p.note("quick", 1, time.Second, 0) // and it becomes slow
	if got := p.limit("quick", 200); got != 1 {
		t.Errorf("after a slow event: %d events are taken, want 1", got)
	}
	for range 40 {
		p.note("quick", 1, 100*time.Microsecond, 0)
	}
	if got := p.limit("quick", 200); got != 200 {
		t.Errorf("once they are quick again: %d events are taken, want 200", got)
	}
	p.note("large", 2, 0, 50<<20)
	if got := p.limit("large", 200); got != 1 {
		t.Errorf("of events of 25 MiB: %d are taken, want 1", got)
	}
}
