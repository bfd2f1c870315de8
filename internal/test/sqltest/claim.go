package sqltest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"slices"

	"github.com/hookonce/hookonce/driver"
)

// newClaim returns a claim of an event that waits for a consumer.
func newClaim(source, id, body string) driver.Claim {
	return driver.Claim{
		Key: driver.EventKey(source, id), Source: source, EventID: id, Type: "order.paid",
		Headers: []byte(`{"Content-Type":["application/json"]}`), Body: []byte(body), BodyHash: sha256.Sum256([]byte(body)),
		Work: driver.WorkQueued,
	}
}

// claim claims new events.
func claim(ctx context.Context, store driver.Store, claims ...driver.Claim) error {
	slices.SortFunc(claims, func(a, b driver.Claim) int { return bytes.Compare(a.Key[:], b.Key[:]) })
	results, err := store.Claim(ctx, &driver.ClaimParams{Claims: claims})
	if err != nil {
		return err
	}
	for i, r := range results {
		if !r.Claimed {
			return errors.New(claims[i].EventID + " is a duplicate")
		}
	}
	return nil
}
