package inbox_test

import (
	"context"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/eventually"
)

// The messages of a handler have ids by their content: a replay under the same ids sends them under these,
// and a replay as new under others.
func TestReplaysOfAHandlersMessages(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*hookonce.Config){"queued": func(*hookonce.Config) {}, "Inline": inline} {
		t.Run(name+" on pgx", func(t *testing.T) { t.Parallel(); replaysOfMessages(t, onPGX(t), change) })
		t.Run(name+" on SQLite", func(t *testing.T) { t.Parallel(); replaysOfMessages(t, onSQLite(t), change) })
	}
}

func replaysOfMessages[T any](t *testing.T, l *library[T], change func(*hookonce.Config)) {
	outbox, crm := hookonce.NewOutbox(l.db), newSent()
	bodies := []string{"a", "b", "a"} // of the next run
	in := inbox(t, l, handling(func(ctx context.Context, tx T, ev *hookonce.Event) error {
		header := map[string][]string{"Traceparent": {"00-" + traceOf(ev.Generation) + "-00f067aa0ba902b7-01"}}
		for _, body := range bodies {
			if err := outbox.EnqueueTx(ctx, tx, &hookonce.Message{Destination: "crm", Header: header, Body: []byte(body)}); err != nil {
				return err
			}
		}
		return outbox.EnqueueTx(ctx, tx, &hookonce.Message{ID: "mine", Destination: "crm", Body: []byte("mine")})
	}), func(c *hookonce.Config) {
		change(c)
		c.Destinations = []hookonce.Destination{{Name: "crm", Sender: crm}}
	})
	run(t, in)
	deliverAll(t, in, "1")
	first := crm.ids(t, 4)
	if len(first["a"]) != 2 || len(first["b"]) != 1 || first["mine"][0] != "mine" {
		t.Fatalf("sent %v, want two ids for a, one for b, and mine", first)
	}
	again := func(mode driver.ReplayMode, next ...string) map[string][]string {
		t.Helper()
		eventually.True(t, "the messages are recorded as sent", func() bool {
			return !slices.ContainsFunc(eventState(t, l.db, "1").Messages, func(m driver.MessageDetail) bool { return m.State != driver.StateSent })
		})
		bodies = next
		if _, err := in.Replay(t.Context(), &hookonce.ReplayRequest{Source: "gh", EventID: "1", Mode: mode}); err != nil {
			t.Fatal(err)
		}
		return crm.ids(t, len(next))
	}
	want := func(what string, got, want map[string][]string) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: sent (-want +got):\n%s", what, diff)
		}
	}
	want("another order", again(driver.ReplaySameID, "b", "a", "a"), map[string][]string{"a": first["a"], "b": first["b"]})

	other := again(driver.ReplaySameID, "b", "changed")
	want("another body", map[string][]string{"b": other["b"]}, map[string][]string{"b": first["b"]})
	if id := other["changed"][0]; slices.Contains(slices.Concat(slices.Collect(maps.Values(first))...), id) {
		t.Errorf("other content was sent under the id %s of another message", id)
	}

	anew := again(driver.ReplayAsNew, "a")
	if id := anew["a"][0]; slices.Contains(first["a"], id) {
		t.Errorf("a replay as new sent the id %s again", id)
	}
	want("same ids after as new", again(driver.ReplaySameID, "a"), anew)
	if n := len(eventState(t, l.db, "1").Messages); n != 6 {
		t.Errorf("the event has %d messages, want a, a, b, mine, changed, and a as new", n)
	}
}

// traceOf returns another trace id for each generation.
func traceOf(generation int) string {
	return "4bf92f3577b34da6a3ce929d0e0e473" + string(rune('0'+generation))
}

// ids waits for n further messages, and returns their sorted ids by body.
func (s *sent) ids(t *testing.T, n int) map[string][]string {
	t.Helper()
	eventually.True(t, "the messages are sent", func() bool { return len(s.got) >= n })
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := make(map[string][]string)
	for _, m := range s.all[len(s.all)-len(s.got):] {
		<-s.got
		ids[string(m.Body)] = append(ids[string(m.Body)], m.ID)
	}
	for _, of := range ids {
		slices.Sort(of)
	}
	return ids
}
