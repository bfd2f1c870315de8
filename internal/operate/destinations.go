package operate

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// PauseDestination stops the sending to a destination, in every process on the database, until
// ResumeDestination; a restart does not end the pause. Sends in progress go on, and so do messages that a
// process has leased already, for two seconds at most. The others wait, and keep their attempts. It
// returns the time of the pause, which a second call does not change. The error matches
// driver.ErrNotFound if no destination has this name.
func (o *Operator) PauseDestination(ctx context.Context, name string) (time.Time, error) {
	if err := o.knowsDestination(name); err != nil {
		return time.Time{}, fmt.Errorf("hookonce: pause: %w", err)
	}
	at, err := o.store.PauseDestination(ctx, &driver.PauseParams{Destination: name})
	if err != nil {
		return time.Time{}, fmt.Errorf("hookonce: pause destination %q: %w", name, err)
	}
	o.log.Info("destination paused", slog.String("destination", name))
	return at, nil
}

// ResumeDestination ends a pause, and reports whether there was one. This process sends the due
// messages at once, others within a second. The error matches driver.ErrNotFound as that of
// PauseDestination.
func (o *Operator) ResumeDestination(ctx context.Context, name string) (bool, error) {
	if err := o.knowsDestination(name); err != nil {
		return false, fmt.Errorf("hookonce: resume: %w", err)
	}
	resumed, err := o.store.ResumeDestination(ctx, name)
	if err != nil {
		return false, fmt.Errorf("hookonce: resume destination %q: %w", name, err)
	}
	if resumed {
		o.log.Info("destination resumed", slog.String("destination", name))
	}
	o.opts.Relays.Hurry(name)
	return resumed, nil
}

// maxHurry bounds the messages that one call of RetryDestination makes due.
const maxHurry = 100 * driver.MaxHurry

// RetryDestination makes the messages of a destination that wait for another attempt due now, and
// makes an open circuit of this process probe at once. Attempts stay as they are, and a paused
// destination stays paused. It returns how many messages are due now: also those that were due already,
// and waited for the circuit, up to driver.CountLimit of them. more says that it stopped at its limit
// of 100,000, or at the end of ctx, and others wait. The error matches driver.ErrNotFound as that of
// PauseDestination.
func (o *Operator) RetryDestination(ctx context.Context, name string) (retried int, more bool, err error) {
	if err := o.knowsDestination(name); err != nil {
		return 0, false, fmt.Errorf("hookonce: retry: %w", err)
	}
	defer o.opts.Relays.Hurry(name)
	stats, err := o.store.Stats(ctx)
	if err != nil {
		return 0, false, fmt.Errorf("hookonce: retry destination %q: %w", name, err)
	}
	for more = true; more && retried < maxHurry; {
		n, err := o.store.HurryMessages(ctx, &driver.HurryParams{Destination: name, Limit: driver.MaxHurry})
		if err != nil && (retried == 0 || ctx.Err() == nil) {
			return retried, true, fmt.Errorf("hookonce: retry destination %q: %w", name, err)
		}
		if err != nil {
			break
		}
		retried, more = retried+n, n == driver.MaxHurry
	}
	for i := range stats.Destinations {
		if d := &stats.Destinations[i]; d.Destination == name && !more {
			retried = max(retried, int(d.Pending))
		}
	}
	o.log.Info("waiting messages retried", slog.String("destination", name), slog.Int("messages", retried))
	return retried, more, nil
}

// PausedDestinations returns the paused destinations by name, also those that are not configured.
func (o *Operator) PausedDestinations(ctx context.Context) ([]driver.PausedDestination, error) {
	all, err := o.store.PausedDestinations(ctx)
	if err != nil {
		return nil, fmt.Errorf("hookonce: %w", err)
	}
	return all, nil
}

// knowsDestination returns an error that matches driver.ErrNotFound if no destination has this name.
func (o *Operator) knowsDestination(name string) error {
	if !o.opts.Knows(name) {
		return fmt.Errorf("%w: there is no destination %q in the settings", driver.ErrNotFound, name)
	}
	return nil
}
