package limit

import (
	"net/netip"
	"sync"
	"time"
)

// maxAddresses bounds the addresses that Addresses remembers. Beyond it, Addresses
// forgets all of them: to be too generous for a moment costs only work.
const maxAddresses = 16_384

// Addresses holds one bucket for each remote address; for IPv6, one for each /64, which
// is what one sender has. It is safe for concurrent use.
type Addresses struct {
	count int
	per   time.Duration

	mu      sync.Mutex
	buckets map[netip.Addr]*Bucket
}

// NewAddresses returns Addresses whose buckets are those of New.
func NewAddresses(count int, per time.Duration) *Addresses {
	return &Addresses{count: count, per: per, buckets: make(map[netip.Addr]*Bucket)}
}

// Take takes one token of remote and returns 0, or returns the time until there is one.
// remote is an address with or without a port, as http.Request.RemoteAddr and
// Proxies.Client have it; all remotes that do not parse share one bucket.
func (a *Addresses) Take(remote string, now time.Time) (wait time.Duration) {
	return a.bucket(remote).Take(now)
}

func (a *Addresses) bucket(remote string) *Bucket {
	addr := address(remote)
	a.mu.Lock()
	defer a.mu.Unlock()
	b := a.buckets[addr]
	if b == nil {
		if len(a.buckets) >= maxAddresses {
			clear(a.buckets)
		}
		b = New(a.count, a.per)
		a.buckets[addr] = b
	}
	return b
}

// address returns the address that a bucket stands for, or the zero address if remote
// does not parse.
func address(remote string) netip.Addr {
	addr, ok := parseAddress(remote)
	if ok && addr.Is6() {
		prefix, _ := addr.Prefix(64) // fails only for lengths over 128
		return prefix.Addr()
	}
	return addr
}
