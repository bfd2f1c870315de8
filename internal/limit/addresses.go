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
	buckets map[netip.Addr]*addressBucket
}

type addressBucket struct {
	*Bucket
	trying sync.Mutex // held by Try
}

// NewAddresses returns Addresses whose buckets are those of New.
func NewAddresses(count int, per time.Duration) *Addresses {
	return &Addresses{count: count, per: per, buckets: make(map[netip.Addr]*addressBucket)}
}

// Take takes one token of remote and returns 0, or returns the time until there is one.
// remote is an address with or without a port, as http.Request.RemoteAddr and
// Proxies.Client have it; all remotes that do not parse share one bucket.
func (a *Addresses) Take(remote string, now time.Time) (wait time.Duration) {
	return a.bucket(remote).Take(now)
}

// Try calls check and returns its result. A false one takes a token of remote; while there is none,
// Try does not call check, and returns the time until there is one. The checks of one address run
// one after the other, so that concurrent tries get no more than the tokens. check must be fast.
func (a *Addresses) Try(remote string, check func() bool) (passed bool, wait time.Duration) {
	b := a.bucket(remote)
	b.trying.Lock()
	defer b.trying.Unlock()
	if wait := b.Take(time.Now()); wait > 0 {
		return false, wait
	}
	if passed = check(); passed {
		b.GiveBack(1)
	}
	return passed, 0
}

func (a *Addresses) bucket(remote string) *addressBucket {
	addr := address(remote)
	a.mu.Lock()
	defer a.mu.Unlock()
	b := a.buckets[addr]
	if b == nil {
		if len(a.buckets) >= maxAddresses {
			clear(a.buckets)
		}
		b = &addressBucket{Bucket: New(a.count, a.per)}
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
