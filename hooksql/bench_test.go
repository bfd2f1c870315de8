package hooksql_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/hookonce/hookonce/driver"
)

// batchOf returns n claims, sorted by key.
func batchOf(one func(n int) driver.Claim, n int) []driver.Claim {
	batch := make([]driver.Claim, n)
	for i := range batch {
		batch[i] = one(i)
	}
	slices.SortFunc(batch, func(a, b driver.Claim) int { return bytes.Compare(a.Key[:], b.Key[:]) })
	return batch
}

// BenchmarkClaim claims new events with bodies of 1.2 kB in batches, with and without a message
// each. A file grows with its events, so compare runs with the same -benchtime=Nx.
func BenchmarkClaim(b *testing.B) {
	for _, messages := range []int{0, 1} {
		for _, size := range []int{1, 16, 128} {
			b.Run(fmt.Sprintf("messages=%d/batch=%d", messages, size), func(b *testing.B) {
				store := openMigrated(b, filepath.Join(b.TempDir(), "hookonce.db"))
				events := 0
				for b.Loop() {
					b.StopTimer()
					batch := batchOf(func(int) driver.Claim { events++; return benchClaim(events, messages) }, size)
					b.StartTimer()
					if _, err := store.Claim(b.Context(), &driver.ClaimParams{Claims: batch}); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
			})
		}
	}
}

func benchClaim(n, messages int) driver.Claim {
	c := newClaim(fmt.Sprintf("evt_%012d", n))
	c.Body = bytes.Repeat([]byte("x"), 1200)
	copy(c.Body, c.EventID)
	c.BodyHash = sha256.Sum256(c.Body)
	c.Headers = bytes.Repeat([]byte("h"), 200)
	c.Messages = c.Messages[:messages]
	return c
}
