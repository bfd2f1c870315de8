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
	confirmInterval = time.Second      // between two looks for due confirmations
	confirmTries    = 12               // within an hour
	firstConfirm    = 2 * time.Second
	maxConfirmPause = 20 * time.Minute
	// maxUnconfirmed bounds the confirmations in progress and those that wait for a retry.
	maxUnconfirmed = 8
)

// confirmations are the unconfirmed subscriptions. The provider gets its answer before the
// confirmation and does not ask twice, so Run retries failed ones. They are lost when the process
// ends.
type confirmations struct {
	log   *slog.Logger
	fetch func(ctx context.Context, url string) error

	mu      sync.Mutex
	pending int // with those in progress
	waiting []confirmation
}

type confirmation struct {
	source, url string
	tries       int
	due         time.Time
}

// confirm starts to fetch a confirmation URL that was verified as the provider's own.
func (c *confirmations) confirm(source, url string) *answer {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending >= maxUnconfirmed {
		return unavailable("too many subscriptions are being confirmed", nil)
	}
	c.pending++
	go c.try(context.Background(), confirmation{source: source, url: url})
	return nil
}

// again starts the due retries. Other maintenance does not wait for them.
func (c *confirmations) again(ctx context.Context) {
	for _, one := range c.takeDue(time.Now()) {
		go c.try(ctx, one)
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

func (c *confirmations) try(ctx context.Context, one confirmation) {
	ctx, cancel := context.WithTimeout(ctx, confirmTimeout)
	defer cancel()
	err := c.fetch(ctx, one.url)
	one.tries++
	log := c.log.With(slog.String("source", one.source), slog.Int("try", one.tries))
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil:
		c.pending--
		log.Info("subscription confirmed")
	case one.tries == confirmTries:
		c.pending--
		log.Error("confirming a subscription failed for good: subscribe again", slog.Any("error", err))
	default:
		one.due = time.Now().Add(driver.Backoff(firstConfirm, maxConfirmPause, one.tries))
		c.waiting = append(c.waiting, one)
		log.Warn("confirming a subscription failed; retrying", slog.Any("error", err))
	}
}
