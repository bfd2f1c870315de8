package brokertest_test

import (
	"context"
	"testing"

	"github.com/hookonce/hookonce/internal/test/brokertest"
	"github.com/hookonce/hookonce/internal/test/rig"
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
	rig.WaitFor(t, func() bool { return !left() })
}
