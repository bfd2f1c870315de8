package limit

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestAddresses(t *testing.T) {
	t.Parallel()
	now := time.Now()
	tests := []struct {
		name          string
		first, second string
		shared        bool
	}{
		{"same address, other port", "192.0.2.1:1", "192.0.2.1:2", true},
		{"other address", "192.0.2.1:1", "192.0.2.2:1", false},
		{"mapped form of the same", "192.0.2.1:1", "[::ffff:192.0.2.1]:1", true},
		{"same /64", "[2001:db8::1]:1", "[2001:db8::2]:1", true},
		{"other zone", "[fe80::1%eth0]:1", "[fe80::1%eth1]:1", true},
		{"other /64", "[2001:db8::1]:1", "[2001:db8:0:1::1]:1", false},
		{"neither parses", "pipe", "@", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := NewAddresses(1, time.Hour)
			if wait := a.Take(tt.first, now); wait != 0 {
				t.Fatalf("first request: wait %s", wait)
			}
			if shared := a.Take(tt.second, now) > 0; shared != tt.shared {
				t.Errorf("second request held back: %t, want %t", shared, tt.shared)
			}
		})
	}
}

// Failed checks take tokens, right ones do not; without a token nothing is checked.
func TestTry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := NewAddresses(2, time.Minute)
		try := func(remote string, result bool) string {
			called := false
			passed, wait := a.Try(remote, func() bool { called = true; return result })
			return fmt.Sprint(called, " ", passed, " ", wait)
		}
		for i, tt := range []struct {
			remote string
			result bool
			want   string
		}{
			{"192.0.2.1:1", true, "true true 0s"},
			{"192.0.2.1:1", true, "true true 0s"},
			{"192.0.2.1:1", true, "true true 0s"},
			{"192.0.2.1:1", false, "true false 0s"},
			{"192.0.2.1:2", false, "true false 0s"},
			{"192.0.2.1:3", true, "false false 30s"},
			{"192.0.2.1:3", false, "false false 30s"},
			{"192.0.2.2:1", true, "true true 0s"},
		} {
			if got := try(tt.remote, tt.result); got != tt.want {
				t.Errorf("try %d: %s, want %s", i, got, tt.want)
			}
		}
		time.Sleep(30 * time.Second)
		if got := try("192.0.2.1:1", true); got != "true true 0s" {
			t.Errorf("after the wait: %s", got)
		}
	})
}

// Concurrent tries are checked no more often than there are tokens, and right ones never wait.
func TestTryAtOnce(t *testing.T) {
	t.Parallel()
	a := NewAddresses(10, time.Hour)
	var wrong, refused atomic.Int64
	var callers sync.WaitGroup
	for range 100 {
		callers.Go(func() {
			if passed, wait := a.Try("192.0.2.2:1", func() bool { return true }); !passed || wait > 0 {
				refused.Add(1)
			}
			a.Try("192.0.2.1:1", func() bool { wrong.Add(1); return false })
		})
	}
	callers.Wait()
	if wrong.Load() != 10 || refused.Load() != 0 {
		t.Errorf("%d wrong tries were checked, want 10; %d right ones were refused, want none", wrong.Load(), refused.Load())
	}
}

func TestAddressesForgetsWhenFull(t *testing.T) {
	t.Parallel()
	now := time.Now()
	a := NewAddresses(1, time.Hour)
	for i := range maxAddresses + 1 {
		a.Take(fmt.Sprintf("10.%d.%d.%d:1", i>>16, i>>8&255, i&255), now)
	}
	if n := len(a.buckets); n != 1 {
		t.Errorf("%d addresses are remembered, want 1: the one that did not fit", n)
	}
}
