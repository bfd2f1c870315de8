package hookonce

import (
	"net/netip"
	"sync"
	"time"
)

// bucket is a token bucket: Count tokens at most, refilled evenly over Per.
// The zero Rate lets everything pass.
type bucket struct {
	rate Rate

	mu     sync.Mutex
	tokens float64
	last   time.Time
}

func newBucket(r Rate) *bucket { return &bucket{rate: r, tokens: float64(r.Count)} }

// take takes one token, or returns how long it takes until there is one.
func (b *bucket) take(now time.Time) (wait time.Duration) {
	if b.rate.Count <= 0 {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refill(now)
	if b.tokens >= 1 {
		b.tokens--
		return 0
	}
	perToken := float64(b.rate.Per) / float64(b.rate.Count)
	return max(time.Duration((1-b.tokens)*perToken), 1)
}

// takeUpTo takes as many of n tokens as there are.
func (b *bucket) takeUpTo(n int, now time.Time) int {
	if b.rate.Count <= 0 {
		return n
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refill(now)
	got := min(n, int(b.tokens))
	b.tokens -= float64(got)
	return got
}

// giveBack returns tokens that were not used.
func (b *bucket) giveBack(n int) {
	if b.rate.Count <= 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tokens = min(b.tokens+float64(n), float64(b.rate.Count))
}

func (b *bucket) refill(now time.Time) {
	if !b.last.IsZero() && now.After(b.last) {
		b.tokens += float64(now.Sub(b.last)) / float64(b.rate.Per) * float64(b.rate.Count)
		b.tokens = min(b.tokens, float64(b.rate.Count))
	}
	b.last = now
}

// maxAddresses bounds the addresses that an addressLimiter remembers. When
// they are exceeded it forgets all of them: being briefly too generous to a
// forger costs nothing but work.
const maxAddresses = 16_384

// addressLimiter bounds what is done for unverified requests of one address;
// of IPv6, one /64.
type addressLimiter struct {
	rate Rate

	mu      sync.Mutex
	buckets map[netip.Addr]*bucket
}

func newAddressLimiter(r Rate) *addressLimiter {
	return &addressLimiter{rate: r, buckets: make(map[netip.Addr]*bucket)}
}

// take takes one token of remote, which is "host:port" as in http.Request.
func (l *addressLimiter) take(remote string, now time.Time) (wait time.Duration) {
	var addr netip.Addr // what does not parse shares one bucket
	if ap, err := netip.ParseAddrPort(remote); err == nil {
		addr = ap.Addr().Unmap().WithZone("")
		if addr.Is6() {
			if prefix, err := addr.Prefix(64); err == nil {
				addr = prefix.Addr()
			}
		}
	}
	l.mu.Lock()
	b := l.buckets[addr]
	if b == nil {
		if len(l.buckets) >= maxAddresses {
			clear(l.buckets)
		}
		b = newBucket(l.rate)
		l.buckets[addr] = b
	}
	l.mu.Unlock()
	return b.take(now)
}
