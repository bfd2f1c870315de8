package work

import (
	"context"
	"testing"
)

func TestBudget(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ workers, most, want int }{{4, 0, 9}, {4, 2, 2}, {1, 14, 3}} {
		if got := cap(newBudget(tt.workers, tt.most)); got != tt.want {
			t.Errorf("%d workers, at most %d transactions: %d at a time, want %d", tt.workers, tt.most, got, tt.want)
		}
	}
	b := newBudget(4, 2)
	ended, end := context.WithCancel(t.Context())
	if !b.acquire(t.Context()) {
		t.Fatal("there is no room in an empty budget")
	}
	all := make(chan bool)
	go func() { all <- b.acquireAll(t.Context()) }()
	select {
	case <-all:
		t.Fatal("all of the budget was acquired beside another transaction")
	default:
	}
	b.release(1)
	if !<-all {
		t.Fatal("all of the budget could not be acquired")
	}
	end()
	if b.acquire(ended) || b.acquireAll(ended) {
		t.Error("a used-up budget had room")
	}
	b.release(cap(b))
	if len(b) != 0 {
		t.Errorf("%d transactions are left", len(b))
	}
}
