package brokertest

import (
	"context"
	"sync"
	"testing"
	"time"
)

// EndInTime makes n attempts at once to send to a server that takes nothing. They have a second, and must end while
// patience lasts: a client may hold a lock while it waits for the server. An attempt that succeeds is an error.
func EndInTime(t testing.TB, n int, patience time.Duration, send func(ctx context.Context, i int) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	var attempts sync.WaitGroup
	for i := range n {
		attempts.Go(func() {
			if send(ctx, i) == nil {
				t.Error("sent to a server that takes nothing")
			}
		})
	}
	ended := make(chan struct{})
	go func() { attempts.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(patience):
		t.Fatalf("attempts of a second did not end within %s", patience)
	}
}
