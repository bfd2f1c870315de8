package hooktest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce/driver"
)

const (
	settledEvery   = 10 * time.Millisecond
	settledTimeout = 30 * time.Second // used if ctx has no deadline
	settledShown   = 5                // maximum number of open items in a failure
)

// Settled waits until a source, or every source for "", has no open work: every event is done, dead
// or skipped, and every message of these events, including enqueued ones, is sent, dead or skipped.
// It does no work itself: an Inbox on the same database must run, in this process or another. When
// ctx ends, or after 30 s if ctx has no deadline, it ends the test and lists open work.
//
// Call it after all deliveries have been answered: it cannot see requests that are still on their
// way.
func Settled(ctx context.Context, t testing.TB, store driver.Store, source string) {
	t.Helper()
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, settledTimeout)
		defer cancel()
	}
	tick := time.NewTicker(settledEvery)
	defer tick.Stop()
	last := []string{"(the store did not answer)"}
	for {
		open, err := openWork(ctx, store, source)
		switch {
		case err == nil && len(open) == 0:
			return
		case err == nil:
			last = open
		case ctx.Err() == nil:
			t.Fatalf("hooktest: waiting until source %q is settled: %v", source, err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("hooktest: source %q is not settled (%v); open work includes:\n\t%s",
				source, context.Cause(ctx), strings.Join(last, "\n\t"))
		}
	}
}

// openWork describes some of the open work of a source; none means that all is settled.
//
// Work may change its state between two queries by state. So if these find nothing, openWork goes
// through all events and messages.
func openWork(ctx context.Context, store driver.Store, source string) ([]string, error) {
	var open []string
	for _, state := range []string{driver.StatePending, driver.StateRunning} {
		page, err := store.Events(ctx, &driver.EventFilter{Source: source, State: state, Limit: settledShown})
		if err != nil {
			return nil, err
		}
		open = append(open, openEvents(page)...)
	}
	for _, state := range []string{driver.StatePending, driver.StateSending} {
		page, err := store.Messages(ctx, &driver.MessageFilter{Source: source, State: state, Limit: settledShown})
		if err != nil {
			return nil, err
		}
		open = append(open, openMessages(page)...)
	}
	if len(open) > 0 {
		return open, nil
	}
	return openInFull(ctx, store, source)
}

// openInFull looks at each event and message once. It looks at the events first, because the
// messages of a done event are already written.
func openInFull(ctx context.Context, store driver.Store, source string) ([]string, error) {
	events := driver.EventFilter{Source: source, Limit: driver.MaxLimit}
	for more := true; more; more = !events.After.IsZero() {
		page, err := store.Events(ctx, &events)
		if err != nil {
			return nil, err
		}
		if open := openEvents(page); len(open) > 0 {
			return open, nil
		}
		events.After = page.Next
	}
	messages := driver.MessageFilter{Source: source, Limit: driver.MaxLimit}
	for more := true; more; more = !messages.After.IsZero() {
		page, err := store.Messages(ctx, &messages)
		if err != nil {
			return nil, err
		}
		if open := openMessages(page); len(open) > 0 {
			return open, nil
		}
		messages.After = page.Next
	}
	return nil, nil
}

func openEvents(page *driver.EventPage) (open []string) {
	for _, e := range page.Events {
		if e.State == driver.StatePending || e.State == driver.StateRunning {
			open = append(open, describe("event", e.EventID, e.State, e.Attempts, e.LastError))
		}
	}
	return open
}

func openMessages(page *driver.MessagePage) (open []string) {
	for _, m := range page.Messages {
		if m.State == driver.StatePending || m.State == driver.StateSending {
			open = append(open, describe("message to "+m.Destination, m.ID, m.State, m.Attempts, m.LastError))
		}
	}
	return open
}

func describe(what, id, state string, attempts int, lastError string) string {
	text := fmt.Sprintf("%s %s: %s, attempts: %d", what, id, state, attempts)
	if lastError != "" {
		text += ", " + lastError
	}
	return text
}
