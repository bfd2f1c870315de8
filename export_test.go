package hookonce

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/claims"
	"github.com/hookonce/hookonce/internal/keyfetch"
	"github.com/hookonce/hookonce/verify"
)

// Waiting returns the number of deliveries in the queue of claims.
func Waiting(in *Engine) int { return in.claims.Waiting() }

// SetFetcher replaces the fetcher of keys and confirmations. Call it before the engine is used.
func SetFetcher(in *Engine, f *keyfetch.Fetcher) { in.fetcher = f }

// AnswerTo returns the body of the answer to one event.
func AnswerTo(id string, duplicate, reopened bool) []byte {
	result := &claims.Result{ClaimResult: driver.ClaimResult{Claimed: !duplicate, Duplicate: duplicate}}
	result.Reopened = reopened
	return answerEvent(&driver.Claim{EventID: id}, result).body
}

// ReceiveUpToClaim does for a delivery what ServeHTTP does before the claim, and returns the number of
// its claims.
func ReceiveUpToClaim(in *Engine, w http.ResponseWriter, r *http.Request) int {
	name := sourceName(r)
	budget := in.bodies.Budget(name)
	defer budget.Release()
	d, a := in.read(w, r, name, in.setup.Load(), budget, false)
	if a != nil {
		panic(a.why)
	}
	events, _, _ := in.extract(r.Context(), d)
	return len(d.unit(in.claimsFor(d, events)).Claims)
}

// Confirm confirms a subscription as a handshake does. It reports whether the engine accepted it.
func Confirm(in *Engine, source, url string) bool { return in.confirm(source, url) == nil }

// RefreshLearned reads the learned secrets, as the upkeep does once a second.
func RefreshLearned(ctx context.Context, in *Engine) error { return in.learned.refresh(ctx) }

// SecretsInForce returns the secrets of a source, in the order of their use.
func SecretsInForce(ctx context.Context, in *Engine, source string) ([]string, error) {
	return in.setup.Load().sources[source].Secrets.Secrets(ctx, nil)
}

// SetVerifier replaces the verifier of a source. Call it before the engine is used.
func SetVerifier(in *Engine, source string, v *verify.Verifier) {
	in.setup.Load().sources[source].verifier = v
}

// StepClock makes the engine see this machine's clock as one that was set forward by d since it was
// last compared with the database's.
func StepClock(in *Engine, d time.Duration) {
	r := *in.clock.last.Load()
	r.wall = r.wall.Add(-d)
	in.clock.last.Store(&r)
}

// PullBack pulls due times back, as the upkeep does once a minute.
func PullBack(ctx context.Context, in *Engine) error { return in.pullBack(ctx) }

// ClaimWith claims the events of d as ClaimTx does, with the given claim of a store.
func ClaimWith(
	ctx context.Context, in *Engine, d *Delivery, claim func(context.Context, *driver.ClaimParams) ([]driver.ClaimResult, error),
) ([]Claimed, error) {
	return in.claimTx(ctx, d, claim)
}

// WatchDurability is the look at the durability settings that Run makes every 30 s.
func WatchDurability(ctx context.Context, in *Engine) error { return in.watchDurability(ctx) }

// WriteFigures writes the figures and the refused requests, as the upkeep does.
func WriteFigures(ctx context.Context, in *Engine) error {
	return errors.Join(in.figures.Write(ctx), in.refused.Write(ctx))
}

// FeedWatched reports whether in knows that somebody looks at the live feed.
func FeedWatched(in *Engine) bool { return in.feed.Watched() }
