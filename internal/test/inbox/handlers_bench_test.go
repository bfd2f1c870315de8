package inbox_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
)

// BenchmarkHandlers handles claimed events with one INSERT each. An operation is one event.
func BenchmarkHandlers(b *testing.B) {
	for _, batch := range []int{1, 50, 200} {
		b.Run(fmt.Sprint("batch=", batch), func(b *testing.B) {
			l := onPGX(b)
			claimQueued(b, l.db, b.N)
			handled := make(chan struct{}, b.N)
			mux := &hookonce.Mux[pgx.Tx]{}
			hookonce.Handle(mux, "gh", "push", func(ctx context.Context, tx pgx.Tx, ev *hookonce.Event) error {
				handled <- struct{}{}
				return l.insert(ctx, tx, ev.ID)
			})
			in := inbox(b, l, mux, func(c *hookonce.Config) { c.Batch = batch })
			b.ResetTimer()
			run(b, in)
			for range b.N {
				<-handled
			}
		})
	}
}

// claimQueued claims n events of gh, to be handled later.
func claimQueued(b *testing.B, db driver.Store, n int) {
	body := bytes.Repeat([]byte("0123456789ab"), 100)
	for first := 0; first < n; first += 500 {
		var p driver.ClaimParams
		for i := first; i < min(first+500, n); i++ {
			id := fmt.Sprint("evt_", i)
			p.Claims = append(p.Claims, driver.Claim{
				Key: driver.EventKey("gh", id), Source: "gh", EventID: id, Type: "push",
				Headers: []byte(`{"Content-Type":["application/json"]}`), Body: body, BodyHash: sha256.Sum256(body), Work: driver.WorkQueued,
			})
		}
		slices.SortFunc(p.Claims, func(x, y driver.Claim) int { return bytes.Compare(x.Key[:], y.Key[:]) })
		if _, err := db.Claim(b.Context(), &p); err != nil {
			b.Fatal(err)
		}
	}
}
