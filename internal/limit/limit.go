// Package limit holds token buckets, alone and by address, and reads the addresses of clients.
package limit

import (
	"time"

	"golang.org/x/time/rate"
)

// Bucket is a token bucket. The zero value has no limit. It is safe for concurrent
// use.
type Bucket struct {
	limiter *rate.Limiter // nil: no limit
}

// New returns a full bucket that holds count tokens at most and is refilled evenly
// with count tokens over per, which must be positive. With a count of 0 the bucket
// has no limit.
func New(count int, per time.Duration) *Bucket {
	if count <= 0 {
		return &Bucket{}
	}
	return &Bucket{rate.NewLimiter(rate.Limit(float64(count)/per.Seconds()), count)}
}

// NewPace returns a bucket for count tokens over per that spaces them evenly: it holds
// the tokens of a tenth of a second at most, or one where that is less than two.
func NewPace(count int, per time.Duration) *Bucket {
	const slice = time.Second / 10
	if count <= 0 {
		return &Bucket{}
	}
	if n := int(float64(count) * float64(slice) / float64(per)); n > 1 {
		return New(n, slice)
	}
	return New(1, per/time.Duration(count))
}

// Take takes one token and returns 0, or returns the time until the bucket holds one.
func (b *Bucket) Take(now time.Time) (wait time.Duration) {
	_, wait = b.TakeUpTo(1, now)
	return wait
}

// TakeUpTo takes n tokens, or all if the bucket holds fewer. From an empty bucket it
// takes none, and returns the time until the bucket holds one; that time is positive.
func (b *Bucket) TakeUpTo(n int, now time.Time) (got int, wait time.Duration) {
	if b.limiter == nil {
		return n, 0
	}
	for {
		held := b.limiter.TokensAt(now)
		// AllowN decides about the last token. It ignores a lack that is refilled within
		// a nanosecond, so rounding does not make a caller wait twice.
		got = min(n, max(int(held), 1))
		switch {
		case b.limiter.AllowN(now, got):
			return got, 0
		case got <= 1:
			missing := (1 - held) / float64(b.limiter.Limit())
			return 0, max(time.Duration(missing*float64(time.Second)), 1)
		}
		// A concurrent caller took some of them.
	}
}

// GiveBack returns n unused tokens. Tokens that do not fit into the bucket are lost. It reads
// time.Now, so tokens to be given back must be taken at times from time.Now.
func (b *Bucket) GiveBack(n int) {
	if b.limiter != nil {
		// rate.Limiter has no method for this. Its documentation does not mention a
		// negative number of tokens; TestGiveBack holds it to what we need.
		b.limiter.AllowN(time.Now(), -n)
	}
}
