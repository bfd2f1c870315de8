package brokertest_test

import (
	"context"
	"testing"

	"github.com/hookonce/hookonce/internal/test/brokertest"
	"github.com/hookonce/hookonce/internal/test/eventually"
)

// TestRunMarked starts a goroutine that starts another one, which stays for a while.
func TestRunMarked(t *testing.T) {
	t.Parallel()
	end, started := make(chan struct{}), make(chan struct{})
	left := brokertest.RunMarked(t, func(context.Context) {
		go func() {
			go func() { <-end }()
			close(started)
		}()
		<-started
	})
	if !left() {
		t.Error("a goroutine is left, and not seen")
	}
	close(end)
	eventually.True(t, "nothing of the client is left", func() bool { return !left() })
}
