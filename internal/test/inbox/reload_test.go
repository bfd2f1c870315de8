package inbox_test

import (
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/rig"
)

func TestReloadMovesADestination(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	first, second := newSink(t), newSink(t)
	in := forwarding(t, store, first.URL, hookonce.Retry{})
	deliver(in, delivery("1", "{}"))
	eventually.True(t, "the old address gets its message", func() bool { return len(first.got()) == 1 })
	reload(t, in, settings(second.URL))
	deliver(in, delivery("2", "{}"))
	eventually.True(t, "the new address gets its message", func() bool { return len(second.got()) == 1 })
	if n := len(first.got()); n != 1 {
		t.Errorf("the old address got %d requests, want 1", n)
	}
}

// Settings that are refused leave the old ones in force.
func TestReloadOfSources(t *testing.T) {
	t.Parallel()
	in := newEngine(t, rig.OpenSQLite(t), nil)
	other, wrong := settings(""), settings("")
	other.Sources[0].Name = "other"
	wrong.Sources[0].Secrets = hookonce.StaticSecrets("")
	reload(t, in, other)
	if got := deliver(in, delivery("1", "{}")); got.Code != 503 {
		t.Errorf("a delivery to a removed source: %+v, want 503", got)
	}
	reload(t, in, settings(""))
	for says, cfg := range map[string]*hookonce.Config{"secrets[0]": wrong, "no source": {}} {
		if err := in.Reload(cfg); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("Reload returned the error %v, want one that contains %q", err, says)
		}
	}
	deliverAll(t, in, "1")
	// A process that only sends has no source to lose.
	sends := newEngine(t, rig.OpenSQLite(t), func(c *hookonce.Config) { c.Sources = nil })
	reload(t, sends, &hookonce.Config{Destinations: []hookonce.Destination{{Name: "app", URL: "https://app.example.com/"}}})
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
			w := answered(in, delivery("1", "{}"))
			_, err := in.Verify(httptest.NewRecorder(), delivery("1", "{}"))
			own := httptest.NewRecorder()
			in.Refuse(own, delivery("1", "{}"), err)
			if own.Code != w.Code {
				t.Errorf("an own router answers %d, ServeHTTP %d", own.Code, w.Code)
			}
			return w
		}
		reload(t, in, other)
		if text := log.Text(); !strings.Contains(text, "sources vanished by the reload") || !strings.Contains(text, "[gh]") {
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

func TestReloadWhileReceiving(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	sinks := []*sink{newSink(t), newSink(t)}
	in := forwarding(t, store, sinks[0].URL, hookonce.Retry{})
	const senders, each = 4, 10
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
		for i := range 20 {
			if err := in.Reload(settings(sinks[i%2].URL)); err != nil {
				t.Error(err)
			}
		}
	})
	wg.Wait()
	// Each message is sent once, by either relay.
	eventually.True(t, "all messages are sent", func() bool { return len(sinks[0].got())+len(sinks[1].got()) == senders*each })
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
	for i := range 12 {
		deliver(in, delivery(fmt.Sprint(i), "{}"))
	}
	run(t, in)
	open := func() bool { return in.Operator().Destinations()[0].Circuit.Open }
	eventually.True(t, "the circuit opens", open)
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
