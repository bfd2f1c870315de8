package hookonce_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
)

func TestReloadMovesADestination(t *testing.T) {
	t.Parallel()
	store := openStore(t)
	first, second := newSink(t), newSink(t)
	in := forwarding(t, store, first.URL, hookonce.Retry{})
	deliver(in, delivery("1", "{}"))
	waitFor(t, func() bool { return len(first.got()) == 1 })
	reload(t, in, settings(second.URL))
	deliver(in, delivery("2", "{}"))
	waitFor(t, func() bool { return len(second.got()) == 1 })
	if n := len(first.got()); n != 1 {
		t.Errorf("the old address got %d requests, want 1", n)
	}
}

func TestRemovedDestinationHoldsItsMessages(t *testing.T) {
	t.Parallel()
	store := openStore(t)
	s := newSink(t)
	in := newEngine(t, store, func(c *hookonce.Config) { *c = *settings(s.URL) })
	deliver(in, delivery("1", "{}")) // before Run
	reload(t, in, settings(""))
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- in.Run(ctx) }()
	deliver(in, delivery("2", "{}"))
	if got := eventState(t, store, "2").Note; got != driver.NoteNoRoute {
		t.Errorf("an event after the route was removed has the note %q, want %q", got, driver.NoteNoRoute)
	}
	if got := eventState(t, store, "1").State; got != driver.StateRunning {
		t.Errorf("the event of the removed destination is %s, want running", got)
	}
	reload(t, in, settings(s.URL))
	waitFor(t, func() bool { return eventState(t, store, "1").State == driver.StateDone })
	cancel()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

func TestReloadOfSources(t *testing.T) {
	t.Parallel()
	in := newEngine(t, openStore(t), nil)
	other := settings("")
	other.Sources[0].Name = "other"
	reload(t, in, other)
	if got := deliver(in, delivery("1", "{}")); got.Code != 404 {
		t.Errorf("a delivery to a removed source: %+v, want 404", got)
	}
	reload(t, in, settings(""))
	if got := deliver(in, delivery("1", "{}")); got != ok {
		t.Errorf("a delivery after the source is back: %+v, want ok", got)
	}
}

func TestReloadOfWrongSettingsKeepsTheOldOnes(t *testing.T) {
	t.Parallel()
	in := newEngine(t, openStore(t), nil)
	wrong := settings("")
	wrong.Sources[0].Secrets = hookonce.StaticSecrets("")
	if err := in.Reload(wrong); err == nil {
		t.Error("Reload of wrong settings returned no error")
	}
	if diff := cmp.Diff(ok, deliver(in, delivery("1", "{}"))); diff != "" {
		t.Errorf("a delivery under the old settings (-want +got):\n%s", diff)
	}
}

func TestReloadWhileReceiving(t *testing.T) {
	t.Parallel()
	store := openStore(t)
	sinks := []*sink{newSink(t), newSink(t)}
	in := forwarding(t, store, sinks[0].URL, hookonce.Retry{})
	const senders, each = 4, 25
	var wg sync.WaitGroup
	for s := range senders {
		wg.Go(func() {
			for i := range each {
				if got := deliver(in, delivery(fmt.Sprint(s, "-", i), "{}")); got != ok {
					t.Errorf("delivery: %+v, want ok", got)
				}
			}
		})
	}
	wg.Go(func() {
		for i := range 40 {
			if err := in.Reload(settings(sinks[i%2].URL)); err != nil {
				t.Error(err)
			}
		}
	})
	wg.Wait()
	// Each message is sent once, by either relay.
	waitFor(t, func() bool { return len(sinks[0].got())+len(sinks[1].got()) == senders*each })
	ids := make(map[string]bool)
	for _, r := range append(sinks[0].got(), sinks[1].got()...) {
		ids[r.ID] = true
	}
	if len(ids) != senders*each {
		t.Errorf("%d message ids in %d requests, want as many ids", len(ids), senders*each)
	}
}

// A reload keeps the circuit of a destination, unless it changes the URL.
func TestReloadKeepsTheCircuit(t *testing.T) {
	t.Parallel()
	gone := newSink(t)
	gone.Close()
	cfg := settings(gone.URL)
	cfg.Logger = slog.New(slog.DiscardHandler)
	in := newEngine(t, openStore(t), func(c *hookonce.Config) { *c = *cfg })
	for i := range 20 {
		deliver(in, delivery(fmt.Sprint(i), "{}"))
	}
	run(t, in)
	open := func() bool { return in.Destinations()[0].Circuit.Open }
	waitFor(t, open)
	reload(t, in, cfg)
	if !open() {
		t.Error("a reload of the same settings closed the circuit")
	}
	cfg.Destinations[0].Concurrency = 2
	reload(t, in, cfg)
	if !open() {
		t.Error("a reload with another concurrency closed the circuit")
	}
	cfg.Destinations[0].URL = newSink(t).URL
	reload(t, in, cfg)
	if open() {
		t.Error("a new URL has the open circuit of the old one")
	}
}
