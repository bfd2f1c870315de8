package inbox_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/rig"
)

func TestReloadMovesADestination(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	first, second := newSink(t), newSink(t)
	in := forwarding(t, store, first.URL, hookonce.Retry{})
	deliver(in, delivery("1", "{}"))
	rig.WaitFor(t, func() bool { return len(first.got()) == 1 })
	reload(t, in, settings(second.URL))
	deliver(in, delivery("2", "{}"))
	rig.WaitFor(t, func() bool { return len(second.got()) == 1 })
	if n := len(first.got()); n != 1 {
		t.Errorf("the old address got %d requests, want 1", n)
	}
}

func TestRemovedDestinationHoldsItsMessages(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
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
	rig.WaitFor(t, func() bool { return eventState(t, store, "1").State == driver.StateDone })
	cancel()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

func TestReloadOfSources(t *testing.T) {
	t.Parallel()
	in := newEngine(t, rig.OpenSQLite(t), nil)
	other := settings("")
	other.Sources[0].Name = "other"
	reload(t, in, other)
	if got := deliver(in, delivery("1", "{}")); got.Code != 503 {
		t.Errorf("a delivery to a removed source: %+v, want 503", got)
	}
	reload(t, in, settings(""))
	if got := deliver(in, delivery("1", "{}")); got != ok {
		t.Errorf("a delivery after the source is back: %+v, want ok", got)
	}
}

// A reload that takes a source away by mistake must not make its sender give up: deliveries are
// answered 503 for ten minutes, over further reloads too, and only then 404.
func TestVanishedSourceIsUnavailableForTenMinutes(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	synctest.Test(t, func(t *testing.T) {
		log := new(rig.Log)
		in := newEngine(t, store, func(c *hookonce.Config) { c.Logger = log.Logger() })
		other := settings("")
		other.Sources[0].Name = "other"
		answer := func() *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			in.ServeHTTP(w, delivery("1", "{}"))
			_, err := in.Verify(httptest.NewRecorder(), delivery("1", "{}"))
			own := httptest.NewRecorder()
			in.Refuse(own, delivery("1", "{}"), err)
			if own.Code != w.Code {
				t.Errorf("an own router answers %d, ServeHTTP %d", own.Code, w.Code)
			}
			return w
		}
		reload(t, in, other)
		if text := strings.Join(log.Lines(), ""); !strings.Contains(text, "sources vanished by the reload") || !strings.Contains(text, "[gh]") {
			t.Errorf("the log does not name the source that vanished:\n%s", text)
		}
		if w := answer(); w.Code != 503 || w.Header().Get("Retry-After") == "" {
			t.Errorf("right after the reload: %d, Retry-After %q; want 503", w.Code, w.Header().Get("Retry-After"))
		}
		time.Sleep(10*time.Minute - time.Second)
		reload(t, in, other) // does not prolong the time
		if w := answer(); w.Code != 503 {
			t.Errorf("ten minutes less a second after the reload: %d, want 503", w.Code)
		}
		time.Sleep(time.Second)
		if w := answer(); w.Code != 404 {
			t.Errorf("ten minutes after the reload: %d, want 404", w.Code)
		}
		unknown := httptest.NewRequest("POST", "/webhooks/never", strings.NewReader("{}"))
		if got := deliver(in, unknown); got.Code != 404 {
			t.Errorf("a source that never was: %+v, want 404", got)
		}
	})
}

func TestReloadThatLeavesNoSourceIsRefused(t *testing.T) {
	t.Parallel()
	in := newEngine(t, rig.OpenSQLite(t), nil)
	if err := in.Reload(new(hookonce.Config)); err == nil || !strings.Contains(err.Error(), "no source") {
		t.Errorf("Reload without sources: %v, want an error", err)
	}
	if got := deliver(in, delivery("1", "{}")); got != ok {
		t.Errorf("a delivery under the old settings: %+v, want ok", got)
	}
	// A process that only sends has no source to lose.
	sends := newEngine(t, rig.OpenSQLite(t), func(c *hookonce.Config) { c.Sources = nil })
	reload(t, sends, &hookonce.Config{Destinations: []hookonce.Destination{{Name: "app", URL: "https://app.example.com/"}}})
}

func TestReloadOfWrongSettingsKeepsTheOldOnes(t *testing.T) {
	t.Parallel()
	in := newEngine(t, rig.OpenSQLite(t), nil)
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
	store := rig.OpenSQLite(t)
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
	rig.WaitFor(t, func() bool { return len(sinks[0].got())+len(sinks[1].got()) == senders*each })
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
	in := newEngine(t, rig.OpenSQLite(t), func(c *hookonce.Config) { *c = *cfg })
	for i := range 20 {
		deliver(in, delivery(fmt.Sprint(i), "{}"))
	}
	run(t, in)
	open := func() bool { return in.Destinations()[0].Circuit.Open }
	rig.WaitFor(t, open)
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
