package app

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// stopLimits bound a graceful stop.
type stopLimits struct {
	// total is for everything, with the delay that the settings ask for.
	total time.Duration
	// afterDelay is what a stop may take behind the delay, however long that
	// is: an operator who asks for a long one has told the orchestrator too.
	afterDelay time.Duration
	// answer is for the deliveries that are open: their bodies may take 10 s.
	answer time.Duration
	// drain is, behind that, for the claims that are under way.
	drain time.Duration
}

// defaultStopLimits keep to the 30 s after which orchestrators commonly kill;
// what is left of them is for closing the database. Sends end within 10 s.
var defaultStopLimits = stopLimits{
	total: 27 * time.Second, afterDelay: 20 * time.Second, answer: 11 * time.Second, drain: 3 * time.Second,
}

// stop ends the gateway in the order that loses nothing: tell load balancers,
// wait for them, refuse new connections, claim and answer what is arriving,
// finish or give back what is being sent, and only then stop answering probes.
func (g *gateway) stop(stopWork context.CancelFunc, worked <-chan struct{}) error {
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
		g.admin.shutdown(ctx))
	g.admin.cut()
	err := errors.Join(failures...)
	if err == nil {
		g.log.Info("stopped")
	}
	return err
}

// answerOpen refuses new connections and answers the deliveries that are open.
// The inbox takes all of them until their time is up; only then it drains, and
// what arrives even later is answered 503 or cut off.
func (g *gateway) answerOpen(ctx context.Context) []error {
	answer, cancel := context.WithTimeout(ctx, g.limits.answer)
	defer cancel()
	open := g.public.shutdown(answer)

	drain, cancelDrain := context.WithTimeout(ctx, g.limits.drain)
	defer cancelDrain()
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		g.inbox.Drain()
	}()
	queued := await(drain, drained, "queued deliveries were not answered")
	if open != nil {
		// What has just been claimed is being answered.
		open = g.public.shutdown(drain)
	}
	g.public.cut()
	return []error{open, queued}
}

// await waits for done, and says what was left when ctx ends before.
func await(ctx context.Context, done <-chan struct{}, left string) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the stop was forced: %s", left)
	}
}
