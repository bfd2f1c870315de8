package app

import (
	"path/filepath"
	"testing"
)

// Checking the lock does not prevent a gateway from starting.
func TestAGatewayStartsWhileTheLockIsChecked(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	looking, stop := make(chan struct{}), make(chan struct{})
	defer close(stop)
	go func() {
		for first := true; ; {
			select {
			case <-stop:
				return
			default:
			}
			if _, _, err := whoServes(path); err != nil {
				t.Error(err)
			}
			if first {
				first = false
				close(looking)
			}
		}
	}()
	<-looking
	for range 100 {
		lock, err := lockInstance(path)
		if err != nil {
			t.Fatal(err)
		}
		if who, serves, err := whoServes(path); err != nil || !serves || who == "" {
			t.Fatalf("the holder is %q, %t, %v", who, serves, err)
		}
		if err := lock.release(); err != nil {
			t.Fatal(err)
		}
	}
}
