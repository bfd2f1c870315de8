package brokertest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/hookonce/hookonce/internal/test/eventually"
)

// EndInTime makes n attempts at once to send to a server that takes nothing. They have a second, and must end
// although a client may hold a lock while it waits for the server. An attempt that succeeds is an error.
func EndInTime(t testing.TB, n int, send func(ctx context.Context, i int) error) {
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
	eventually.Receive(t, "attempts of a second end", ended)
}
