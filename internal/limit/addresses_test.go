package limit

import (
	"fmt"
	"testing"
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
