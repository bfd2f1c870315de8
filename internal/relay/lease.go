package relay

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/hookonce/hookonce/driver"
)

const storeTimeout = 10 * time.Second // for one statement

// leaseWithinRate leases up to want messages, as far as the rate allows, and returns the delay
// before the next lease.
func (r *relay) leaseWithinRate(ctx context.Context, want int, untried bool) ([]driver.Message, time.Duration, error) {
	allowed, wait := r.dest.Rate.TakeUpTo(want, time.Now())
	if allowed == 0 {
		return nil, soonest(wait), nil // the rate is used up
	}
	leased, err := r.lease(ctx, allowed, untried)
	if err != nil {
		r.dest.Rate.GiveBack(allowed)
		return nil, 0, err
	}
	r.dest.Rate.GiveBack(allowed - len(leased.Messages))
	r.tellLeased(leased)
	r.settle(ctx, leased.Buried)
	r.stepOver(leased.Refused)
	next := idle
	if len(leased.Messages) == allowed || len(leased.Buried) > 0 || leased.More {
		next = 0 // there may be more
	}
	return leased.Messages, next, nil
}

var errUsedUp = errors.New("its attempts are used up")

func (r *relay) tellLeased(leased *driver.Leased) {
	for i := range leased.Buried {
		r.logOf(&leased.Buried[i]).Error("dead: its attempts are used up")
		r.o.Observe(&Observed{Message: &leased.Buried[i], Outcome: dead, Err: errUsedUp})
	}
	expired := 0
	for i := range leased.Messages {
		if leased.Messages[i].Expired {
			expired++
		}
	}
	if expired > 0 {
		r.log.Warn("leases expired; sending their messages again", slog.Int("messages", expired))
	}
}

// lease does not end with ctx: if a committed lease stayed unknown here, its message would lose an
// attempt and wait until the lease expires.
func (r *relay) lease(ctx context.Context, n int, untried bool) (*driver.Leased, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	return r.store.Lease(ctx, &driver.LeaseParams{
		Destination: r.dest.Name,
		Limit:       n,
		For:         r.dest.Timeout + driver.LeaseMargin,
		MaxAttempts: r.dest.Retry.Attempts,
		Untried:     untried,
		Skip:        r.refusals.Resting(time.Now()),
	})
}

// giveBack releases leases that are not used. If single rows are at fault, it tries halves; a lease that stays expires by
// itself.
func (r *relay) giveBack(ctx context.Context, messages []driver.Message) error {
	if len(messages) == 0 {
		return nil
	}
	leases := make([]driver.MessageLease, len(messages))
	for i := range messages {
		leases[i] = driver.MessageLease{ID: messages[i].ID, Token: messages[i].Token}
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	err := r.store.Release(limited, &driver.ReleaseParams{Leases: leases})
	if half := len(messages) / 2; half > 0 && driver.FaultOfRows(err) {
		return errors.Join(r.giveBack(ctx, messages[:half]), r.giveBack(ctx, messages[half:]))
	}
	return err
}

// takeBack releases the lease of one message. Its attempt is not counted.
func (r *relay) takeBack(ctx context.Context, m *driver.Message) {
	if err := r.giveBack(ctx, []driver.Message{*m}); err != nil {
		r.logOf(m).Warn("releasing a lease failed; it expires by itself", slog.Any("error", err))
	}
}

// passOver is unsent for a message that may not be sent now. If it was the probe of the circuit, another one may be.
func (r *relay) passOver(s *sending) {
	r.unsent(s.probed)
	if s.probed {
		r.wake()
	}
}

// unsent returns the rate token and the circuit probe of an unsent message.
func (r *relay) unsent(probed bool) {
	r.dest.Rate.GiveBack(1)
	if probed {
		r.dest.Circuit.dismiss()
	}
}
