package hookonce

import (
	"context"
	"net/http"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/claims"
	"github.com/hookonce/hookonce/internal/keyfetch"
)

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
		panic(a.Why)
	}
	events, _, _ := in.extract(r.Context(), d)
	return len(d.unit(in.claimsFor(d, events)).Claims)
}

// SecretsInForce returns the secrets of a source, in the order of their use.
func SecretsInForce(ctx context.Context, in *Engine, source string) ([]string, error) {
	return in.setup.Load().sources[source].Secrets.Secrets(ctx, nil)
}

// StepClock makes the engine see this machine's clock as one that was set forward by d since it was
// last compared with the database's.
func StepClock(in *Engine, d time.Duration) {
	r := *in.health.clock.last.Load()
	r.wall = r.wall.Add(-d)
	in.health.clock.last.Store(&r)
}

// PullBack pulls due times back, as the upkeep does once a minute.
func PullBack(ctx context.Context, in *Engine) error { return in.pullBack(ctx) }
