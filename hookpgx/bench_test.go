package hookpgx_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// BenchmarkClaim claims batches of 128 events, with and without one message each, in four
// goroutines, into tables that grow. An operation is one event.
func BenchmarkClaim(b *testing.B) {
	for _, routes := range [][]string{nil, {"billing"}} {
		b.Run(fmt.Sprint("messages=", len(routes)), func(b *testing.B) {
			w := open(b, nil)
			claimMany(b, w, routes)
		})
	}
}

func claimMany(b *testing.B, w *world, routes []string) {
	const size = 128
	body := bytes.Repeat([]byte("0123456789ab"), 100)
	hash := sha256.Sum256(body)
	var next atomic.Int64
	done := make(chan error)
	b.ResetTimer()
	for range 4 {
		go func() {
			for {
				last := int(next.Add(size))
				if last-size >= b.N {
					done <- nil
					return
				}
				var batch []driver.Claim
				for i := last - size; i < min(last, b.N); i++ {
					c := newClaim(fmt.Sprint("evt_", i), routes...)
					c.Body, c.BodyHash = body, hash
					batch = append(batch, c)
				}
				if _, err := w.Claim(b.Context(), claimOf(sortedClaims(batch...)...)); err != nil {
					done <- err
					return
				}
			}
		}()
	}
	for range 4 {
		if err := <-done; err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSend leases messages and records that they were sent, in batches of 100 in four
// goroutines. An operation is one message.
func BenchmarkSend(b *testing.B) {
	w := open(b, nil)
	claimMany(b, w, []string{"billing"})
	done := make(chan error)
	b.ResetTimer()
	for range 4 {
		go func() { done <- sendAll(b, w) }()
	}
	for range 4 {
		if err := <-done; err != nil {
			b.Fatal(err)
		}
	}
}

func sendAll(b *testing.B, w *world) error {
	for {
		leased, err := w.Lease(b.Context(), &driver.LeaseParams{Destination: "to-billing", Limit: 100, For: time.Hour, MaxAttempts: 3})
		if err != nil || len(leased.Messages) == 0 {
			return err
		}
		if _, err := w.Complete(b.Context(), allSent(leased)); err != nil {
			return err
		}
	}
}
