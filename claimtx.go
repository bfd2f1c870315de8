package hookonce

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/claims"
	"github.com/hookonce/hookonce/internal/problem"
	"github.com/hookonce/hookonce/provider"
)

// Delivery is a delivery with a verified signature. Only Verify makes one, and only a Delivery can
// be claimed.
type Delivery struct {
	Events []*Event // one, unless the sender delivers batches

	delivery  *delivery
	claims    []driver.Claim // in the order of Events
	malformed []provider.Malformed
	began     time.Time // arrival of the request
}

// Claimed is the result of ClaimTx for one event.
type Claimed struct {
	Event    *Event
	Claimed  bool // the event is the caller's to handle: it is new, or it was dead and is reopened
	Reopened bool // it was dead

	result driver.ClaimResult
}

// refusal is the error of Verify and of ClaimTx. It holds the answer.
type refusal struct{ answer *answer }

func (r *refusal) Error() string {
	if r.answer.Err != nil {
		return fmt.Sprintf("hookonce: %s: %s", r.answer.Why, strings.TrimPrefix(r.answer.Err.Error(), "hookonce: "))
	}
	return "hookonce: " + r.answer.Why
}

func (r *refusal) Unwrap() error { return r.answer.Err }

// Verify reads a delivery for /webhooks/{source} and checks it as ServeHTTP does, up to the claim.
// Authentic requests that cannot be used as events are in the quarantine when it returns. If the
// error is not nil, answer with Refuse; a handshake of the provider is such an error too, and
// Refuse answers it as the provider wants.
func (in *Engine) Verify(w http.ResponseWriter, r *http.Request) (*Delivery, error) {
	began := time.Now()
	problem.CloseUnlessFramedOnce(w, r)
	var d *Delivery
	a := safely(func() (a *answer) {
		d, a = in.verify(w, r, began)
		return a
	})
	if a != nil {
		a.Began = began
		return nil, &refusal{a}
	}
	d.began = began
	return d, nil
}

func (in *Engine) verify(w http.ResponseWriter, r *http.Request, began time.Time) (*Delivery, *answer) {
	paceBody(w, r, began)
	name := sourceName(r)
	budget := in.bodies.Budget(name)
	defer budget.Release()
	d, a := in.read(w, r, name, in.setup.Load(), budget, true)
	if a != nil {
		return nil, a
	}
	ctx, cancel := context.WithDeadline(context.WithoutCancel(r.Context()), d.deadline)
	defer cancel()
	events, malformed, a := in.extract(ctx, d)
	if a == nil && len(events) == 0 {
		a = in.answerClaimed(ctx, d, d.unit(nil), malformed)
	}
	if a != nil {
		return nil, a.of(d)
	}
	out := &Delivery{delivery: d, claims: in.claimsFor(d, events), malformed: malformed}
	for i := range events {
		out.claims[i].Work = driver.WorkDone // by the caller
		out.Events = append(out.Events, &Event{
			Source: d.source.Name, ID: events[i].ID, Type: events[i].Type, OccurredAt: events[i].Time,
			Header: d.visible.Clone(), Body: events[i].Body, ReceivedAt: time.Now(), Attempt: 1, key: out.claims[i].Key, rules: d.source.extractor,
		})
	}
	return out, nil
}

// Refuse answers a delivery that Verify refused, or that could not be claimed or committed, as
// ServeHTTP does. Any other error than those of Verify and ClaimTx is answered 503, so that the
// sender delivers again.
func (in *Engine) Refuse(w http.ResponseWriter, r *http.Request, err error) {
	var known *refusal
	a := unavailable("the delivery was not handled", err)
	if errors.As(err, &known) {
		a = known.answer
	}
	name := sourceName(r)
	if !in.setup.Load().knows(name, time.Now()) {
		name = ""
	}
	in.answer(w, r, name, a)
}

// Accept answers a delivery whose claims are committed, as ServeHTTP does. claimed is the result of
// ClaimTx for d; anything else is answered 503. So is a commit that the database does not confirm as
// durable. Call Accept only after the commit has succeeded.
func (in *Engine) Accept(w http.ResponseWriter, r *http.Request, d *Delivery, claimed []Claimed) {
	a := safely(func() *answer { return in.acceptClaimed(r, d, claimed) })
	a.Began = d.began
	a.of(d.delivery)
	in.answer(w, r, d.delivery.source.Name, a)
}

// acceptClaimed counts and wakes as the queue does for its claims, and returns the answer.
func (in *Engine) acceptClaimed(r *http.Request, d *Delivery, claimed []Claimed) *answer {
	if !d.claimedBy(claimed) {
		return unavailable("Accept was called with other claims than those of ClaimTx for this delivery", nil)
	}
	unit := d.delivery.unit(d.claims)
	for i := range claimed {
		unit.Results[i] = claims.Result{ClaimResult: claimed[i].result}
		unit.Results[i].Reopened = claimed[i].Reopened
		in.claims.Count(&d.claims[i], &unit.Results[i])
		if claimed[i].result.Claimed {
			in.tell.Claimed(&d.claims[i])
		}
	}
	in.wakeClaimed(claimsMade(d, claimed))
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), acceptTimeout)
	defer cancel()
	for i := range claimed {
		// An event that had only routes is not the caller's to handle; its messages are reopened.
		if c := &unit.Results[i]; c.Dead && !c.Reopened && d.delivery.source.Redelivery == redeliveryReopen {
			c.Reopened, c.Err = in.reopenRouted(ctx, d.claims[i].Key)
		}
	}
	if err := in.store.Confirm(ctx); err != nil {
		return unavailable("the commit was not confirmed", err)
	}
	return in.answerClaimed(ctx, d.delivery, unit, d.malformed)
}

// claimedBy reports whether claimed is the result of ClaimTx for d.
func (d *Delivery) claimedBy(claimed []Claimed) bool {
	return slices.EqualFunc(d.Events, claimed, func(ev *Event, c Claimed) bool { return ev == c.Event && c.result.Settled() })
}

// reopenRouted reopens a dead event that had no handler when it was claimed: only its messages are
// open again.
func (in *Engine) reopenRouted(ctx context.Context, key driver.Key) (bool, error) {
	reopened, err := driver.ReopenOne(ctx, in.store, key)
	if reopened {
		in.wakeAll()
	}
	return reopened, err
}

// claimsMade returns the claims of the events that were claimed.
func claimsMade(d *Delivery, claimed []Claimed) []*driver.Claim {
	var made []*driver.Claim
	for i := range claimed {
		if claimed[i].Claimed {
			made = append(made, &d.claims[i])
		}
	}
	return made
}

// ClaimTx claims the events of a verified delivery in the caller's transaction. It returns one
// result per event, in the order of d.Events. The caller handles each event that is Claimed, in the
// same transaction, before the commit. Only then answer 2xx; see Accept. ClaimTx runs no handlers
// and applies no stale rules.
//
// If another transaction is about to claim the same event, ClaimTx waits for it, as long as ctx
// allows, and a second at most; then the error matches driver.ErrLockTimeout. After an error, roll
// back and answer with Refuse. If the outcome of the commit is unknown, answer with Refuse too: the
// sender's retry settles it.
func (in *Inbox[T]) ClaimTx(ctx context.Context, tx T, d *Delivery) ([]Claimed, error) {
	return in.claimTx(ctx, d, func(ctx context.Context, p *driver.ClaimParams) ([]driver.ClaimResult, error) {
		return in.db.ClaimTx(ctx, tx, p)
	})
}

// claimTx claims the events of d with the given claim of a driver.
func (in *Engine) claimTx(ctx context.Context, d *Delivery, claim func(context.Context, *driver.ClaimParams) ([]driver.ClaimResult, error)) ([]Claimed, error) {
	order := make([]int, len(d.claims))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return slices.Compare(d.claims[a].Key[:], d.claims[b].Key[:])
	})
	p := &driver.ClaimParams{
		LockTimeout: claims.MaxLockWait, Reopen: d.delivery.source.Redelivery == redeliveryReopen, AllowUnsafe: in.cfg.AllowUnsafe,
	}
	place := make(map[driver.Key]int) // index into p.Claims
	for _, i := range order {
		c := d.claims[i]
		if _, ok := place[c.Key]; ok {
			continue // two items of a batch have the same event id
		}
		c.Work = driver.WorkDone
		place[c.Key] = len(p.Claims)
		p.Claims = append(p.Claims, c)
	}
	results, err := claim(ctx, p)
	if err != nil {
		a := unavailable("the claim was not made", err).of(d.delivery)
		a.Began = d.began
		return nil, &refusal{a}
	}
	out := make([]Claimed, len(d.claims))
	told := make(map[driver.Key]bool)
	for i := range d.claims {
		key := d.claims[i].Key
		result := results[place[key]]
		out[i] = Claimed{Event: d.Events[i], Claimed: result.Claimed || result.Reopened, Reopened: result.Reopened, result: result}
		if told[key] {
			out[i].Claimed, out[i].Reopened = false, false
			out[i].result.Claimed, out[i].result.Duplicate = false, true
		}
		told[key] = true
		d.Events[i].Generation, d.Events[i].keyGeneration = result.Generation, result.KeyGeneration
	}
	return out, nil
}
