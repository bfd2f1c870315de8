package hookonce

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/hookonce/hookonce/driver"
)

// maxFailedClaims is the number of claims that may fail one after the other while the engine stays
// ready.
const maxFailedClaims = 5

// claimHealth knows whether claims succeed, and whether the database has proved that it does what they rely on. A
// database may answer questions and still refuse every write, for example because its disk is full.
type claimHealth struct {
	store  driver.Store
	log    *slog.Logger
	failed *atomic.Int64 // claims, since the last success
	probe  *once
	outage *outage

	proved *atomic.Pointer[string]             // the server that proved itself; nil: it must do so again
	lack   *atomic.Pointer[driver.ServerError] // nil: none is known
}

func newClaimHealth(store driver.Store, log *slog.Logger, out *outage) claimHealth {
	return claimHealth{
		store: store, log: log, failed: new(atomic.Int64), probe: new(once), outage: out,
		proved: new(atomic.Pointer[string]), lack: new(atomic.Pointer[driver.ServerError]),
	}
}

// note records the outcome of one claim, of any number of events.
func (h *claimHealth) note(err error) {
	switch {
	case err == nil:
		h.failed.Store(0)
		h.outage.note(true)
	case !driver.FaultOfRows(err):
		h.failed.Add(1)
		h.outage.note(false)
	}
}

// forget makes the database prove itself again: it was away.
func (h *claimHealth) forget() { h.proved.Store(nil) }

// check returns an error until the server has proved itself, and after maxFailedClaims failures in a row, until a claim
// succeeds. A load balancer may send no deliveries meanwhile, so check then proves it again, at most
// once in probeInterval.
func (h *claimHealth) check(ctx context.Context) error {
	server, err := h.store.Server(ctx)
	if err != nil {
		h.forget()
		return fmt.Errorf("hookonce: the database does not answer: %w", err)
	}
	if h.trusts(server) {
		return nil
	}
	if err := h.probe.do(ctx, h.prove); err != nil {
		return fmt.Errorf("hookonce: a test of the database failed: %w", err)
	}
	if !h.trusts(server) {
		return errUnproved
	}
	return nil
}

// trusts reports whether a server has proved itself, and not failed since.
func (h *claimHealth) trusts(server string) bool {
	proved := h.proved.Load()
	return proved != nil && *proved == server && h.failed.Load() < maxFailedClaims
}

// errUnproved is the error of check if claims failed, or the server changed, just after a proof.
var errUnproved = fmt.Errorf("hookonce: %w, or was just now; it is tested again within a second", driver.ErrUnavailable)

// prove lets the server prove itself.
func (h *claimHealth) prove(ctx context.Context) error {
	server, err := h.store.Server(ctx) // before the proof, so that a change meanwhile is seen
	if err != nil {
		return err
	}
	skipped, err := h.store.Prove(ctx)
	if lack, ok := errors.AsType[*driver.ServerError](err); ok {
		if before := h.lack.Swap(lack); before == nil || *before != *lack {
			h.log.Error("deliveries are answered 503", slog.Any("error", lack))
		}
	}
	if err != nil {
		return err
	}
	if h.lack.Swap(nil) != nil {
		h.log.Info("the database has what hookonce needs again; deliveries are accepted")
	}
	for _, text := range skipped {
		h.log.Info("the test of the database left something out", slog.String("skipped", text))
	}
	h.failed.Store(0)
	h.proved.Store(&server)
	return nil
}

// watch is check for the upkeep. Its error does not tell of a lack, which is logged.
func (h *claimHealth) watch(ctx context.Context) error {
	err := h.check(ctx)
	if _, lacks := errors.AsType[*driver.ServerError](err); lacks {
		return nil
	}
	return err
}
