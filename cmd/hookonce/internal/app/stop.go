package app

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// stopLimits bound the phases of a graceful stop.
type stopLimits struct {
	// total bounds the whole stop, with shutdown_delay.
	total time.Duration
	// afterDelay is the least time that remains after a long shutdown_delay. An operator who sets a
	// long delay has told the orchestrator, too.
	afterDelay time.Duration
	// answer bounds the wait for open deliveries: their bodies may take 10 s.
	answer time.Duration
	// drain bounds the wait for claims, after that.
	drain time.Duration
}

// defaultStopLimits stay below 30 s, when orchestrators usually kill; the rest is for closing the
// database. Sends end within 10 s.
var defaultStopLimits = stopLimits{
	total: 27 * time.Second, afterDelay: 20 * time.Second, answer: 11 * time.Second, drain: 3 * time.Second,
}

// stop ends the gateway in an order that loses nothing: turn readiness off, wait for load
// balancers, refuse new connections, claim and answer the open deliveries, finish or release the
// messages being sent, and only then stop answering probes.
func (g *gateway) stop(stopWork context.CancelFunc, worked, kept <-chan struct{}) error {
	delay := g.options.Settings.ShutdownDelay
	ctx, cancel := context.WithTimeout(context.Background(), max(g.limits.total, delay+g.limits.afterDelay))
	defer cancel()
	g.stopping.Store(true)
	g.log.Info("stopping", "delay", delay.String())
	<-time.After(delay)

	failures := g.answerOpen(ctx)
	stopWork()
	failures = append(failures,
		await(ctx, worked, "messages were still being sent"),
		g.admin.shutdown(ctx),
		await(ctx, kept, "the certificates were still being read or renewed"))
	g.admin.cut()
	err := errors.Join(failures...)
	if err == nil {
		g.log.Info("stopped")
	}
	return err
}

// answerOpen refuses new connections and answers the open deliveries. The engine accepts them until
// limits.answer is over, and then drains; a later request is answered 503 or cut off.
func (g *gateway) answerOpen(ctx context.Context) []error {
	answer, cancel := context.WithTimeout(ctx, g.limits.answer)
	defer cancel()
	open := g.public.shutdown(answer)

	drain, cancelDrain := context.WithTimeout(ctx, g.limits.drain)
	defer cancelDrain()
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		g.engine.Drain()
	}()
	queued := await(drain, drained, "queued deliveries were not answered")
	if open != nil {
		// Deliveries that were claimed during the drain are being answered.
		open = g.public.shutdown(drain)
	}
	g.public.cut()
	return []error{open, queued}
}

// await waits for done. If ctx ends first, it returns an error with left, the unfinished work.
func await(ctx context.Context, done <-chan struct{}, left string) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the stop was forced: %s", left)
	}
}
