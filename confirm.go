package hookonce

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/hookonce/hookonce/driver"
)

const (
	confirmTimeout  = 10 * time.Second // for one try
	confirmInterval = time.Second      // between looks for what is due again
	confirmTries    = 12               // within the hour
	firstConfirm    = 2 * time.Second
	maxConfirmPause = 20 * time.Minute
	// maxUnconfirmed bounds what is being confirmed and what waits for another try.
	maxUnconfirmed = 8
)

// confirmations are the subscriptions that a provider asked to confirm and that are not
// confirmed yet. The provider is answered before: it need not ask twice, so what fails
// is tried again, by Run. A process that ends forgets them.
type confirmations struct {
	mu      sync.Mutex
	pending int // with those under way
	waiting []confirmation
}

type confirmation struct {
	source, url string
	tries       int
	due         time.Time
}

// confirm begins to fetch a URL that the provider asked for and that was found to be
// its own.
func (in *Engine) confirm(source, url string) *answer {
	c := &in.confirmations
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending >= maxUnconfirmed {
		return unavailable("too many subscriptions are being confirmed", nil)
	}
	c.pending++
	go in.tryConfirm(context.Background(), confirmation{source: source, url: url})
	return nil
}

// confirmAgain begins to try again what is due: other maintenance does not wait for it.
func (in *Engine) confirmAgain(ctx context.Context) {
	for _, one := range in.confirmations.takeDue(time.Now()) {
		go in.tryConfirm(ctx, one)
	}
}

func (c *confirmations) takeDue(now time.Time) (due []confirmation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var waiting []confirmation
	for _, one := range c.waiting {
		if now.Before(one.due) {
			waiting = append(waiting, one)
		} else {
			due = append(due, one)
		}
	}
	c.waiting = waiting
	return due
}

func (in *Engine) tryConfirm(ctx context.Context, one confirmation) {
	ctx, cancel := context.WithTimeout(ctx, confirmTimeout)
	defer cancel()
	err := in.fetcher.Confirm(ctx, one.url)
	one.tries++
	log := in.log.With(slog.String("source", one.source), slog.Int("try", one.tries))
	c := &in.confirmations
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil:
		c.pending--
		log.Info("subscription confirmed")
	case one.tries == confirmTries:
		c.pending--
		log.Error("a subscription was not confirmed: subscribe again", slog.Any("error", err))
	default:
		one.due = time.Now().Add(driver.Backoff(firstConfirm, maxConfirmPause, one.tries))
		c.waiting = append(c.waiting, one)
		log.Warn("a subscription was not confirmed, will be tried again", slog.Any("error", err))
	}
}
