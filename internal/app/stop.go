package app

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// stopLimit bounds a graceful stop, with the delay that the settings ask
	// for. Orchestrators commonly kill after 30 s; what is left of them is for
	// closing the database.
	stopLimit = 27 * time.Second
	// minStop is what a stop may take behind the delay, however long that is:
	// an operator who asks for a long one has told the orchestrator too.
	minStop = 20 * time.Second
	// answerLimit bounds the time for answering the deliveries that are open:
	// more than a slow body may take.
	answerLimit = 11 * time.Second
)

// stop ends the gateway in the order that loses nothing: tell load balancers,
// wait for them, refuse new deliveries, answer the open ones, finish or give
// back what is being sent, and only then stop answering probes.
func (g *gateway) stop(stopWork context.CancelFunc, worked <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(context.Background(), max(stopLimit, g.shutdownDelay+minStop))
	defer cancel()
	g.stopping.Store(true)
	g.log.Info("stopping", "delay", g.shutdownDelay.String())
	<-time.After(g.shutdownDelay)

	drained := make(chan struct{})
	go func() {
		defer close(drained)
		g.inbox.Drain()
	}()
	answer, cancelAnswer := context.WithTimeout(ctx, answerLimit)
	defer cancelAnswer()
	failures := []error{g.public.shutdown(answer), await(answer, drained, "queued deliveries were not answered")}
	stopWork()
	failures = append(failures,
		await(ctx, worked, "messages were still being sent"),
		g.admin.shutdown(ctx))
	err := errors.Join(failures...)
	if err == nil {
		g.log.Info("stopped")
	}
	return err
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
