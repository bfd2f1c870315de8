package hookonce

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Rate is a number of things in a time. The zero value means no limit, or the
// default where one is named.
type Rate struct {
	Count int
	Per   time.Duration
}

// DefaultReplayRate is the pace of replays of many. What is replayed is due at
// once, and so before what arrives later: unpaced, a large replay would hold up
// live traffic until all of it is sent.
var DefaultReplayRate = Rate{Count: 100, Per: time.Second}

// Unpaced is a rate that holds nothing up.
var Unpaced = Rate{Count: maxRate, Per: time.Second}

// maxRate bounds the number in a rate.
const maxRate = 1_000_000_000

// ParseRate reads a rate as the settings have it: 100/s, 6000/m or 1/h. The error
// says what would be right, and does not quote s.
func ParseRate(s string) (Rate, error) {
	number, unit, _ := strings.Cut(s, "/")
	per := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}[strings.TrimSpace(unit)]
	count, err := strconv.Atoi(strings.TrimSpace(number))
	switch {
	case err != nil || per == 0:
		return Rate{}, errors.New("is no rate; write it as 100/s, 6000/m or 1/h")
	case count < 1 || count > maxRate:
		return Rate{}, fmt.Errorf("must be from 1 to %d in a time; leave it out for no limit", maxRate)
	}
	return Rate{Count: count, Per: per}, nil
}

// ParsePace reads the pace of a replay of many: as ParseRate does, or "none" for
// Unpaced, or "" for the zero Rate.
func ParsePace(s string) (Rate, error) {
	switch s {
	case "":
		return Rate{}, nil
	case "none":
		return Unpaced, nil
	}
	rate, err := ParseRate(s)
	if err != nil {
		return Rate{}, errors.New("is no pace; write it as 100/s, 6000/m or 1/h, or as none")
	}
	return rate, nil
}

func (r Rate) check() error {
	if r.Count < 0 || r.Count > 0 && r.Per <= 0 {
		return errors.New("rate: the count must not be negative, and its time must be positive")
	}
	return nil
}

// bucket is a token bucket: Count tokens at most, refilled evenly over Per.
// The zero Rate lets everything pass.
type bucket struct {
	rate Rate

	mu     sync.Mutex
	tokens float64
	last   time.Time
}

// newPace returns a bucket that spaces things evenly: it never holds more than is
// due in a tenth of a second, or one.
func newPace(r Rate) *bucket {
	const slice = time.Second / 10
	if n := int(float64(r.Count) * float64(slice) / float64(r.Per)); n > 1 {
		return newBucket(Rate{Count: n, Per: slice})
	}
	return newBucket(Rate{Count: 1, Per: r.Per / time.Duration(r.Count)})
}

func newBucket(r Rate) *bucket { return &bucket{rate: r, tokens: float64(r.Count)} }

// take takes one token, or returns how long it takes until there is one.
func (b *bucket) take(now time.Time) (wait time.Duration) {
	_, wait = b.takeUpTo(1, now)
	return wait
}

// takeUpTo takes as many of n tokens as there are, or returns how long it takes
// until there is one.
func (b *bucket) takeUpTo(n int, now time.Time) (got int, wait time.Duration) {
	if b.rate.Count <= 0 {
		return n, 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refill(now)
	if b.tokens < 1 {
		perToken := float64(b.rate.Per) / float64(b.rate.Count)
		return 0, max(time.Duration((1-b.tokens)*perToken), 1)
	}
	got = min(n, int(b.tokens))
	b.tokens -= float64(got)
	return got, 0
}

// await takes up to n tokens, and waits until there is one.
func (b *bucket) await(ctx context.Context, n int) (int, error) {
	for {
		got, wait := b.takeUpTo(n, time.Now())
		if wait == 0 {
			return got, ctx.Err()
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return 0, ctx.Err()
		}
	}
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
