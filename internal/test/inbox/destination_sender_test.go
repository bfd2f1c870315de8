package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/rig"
)

// sendingBy returns an engine that sends all events of gh with sender. It is not running.
func sendingBy(t *testing.T, store driver.Store, sender hookonce.SenderFunc, change func(*hookonce.Destination)) *hookonce.Engine {
	t.Helper()
	return newEngine(t, store, func(c *hookonce.Config) {
		sendBy(c, sender)
		if change != nil {
			change(&c.Destinations[0])
		}
	})
}

func TestSenderIsGivenTheMessage(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	var mu sync.Mutex
	var got []hookonce.Outgoing
	in := sendingBy(t, store, func(ctx context.Context, m *hookonce.Outgoing) error {
		if _, bounded := ctx.Deadline(); !bounded {
			t.Error("the context has no deadline")
		}
		mu.Lock()
		defer mu.Unlock()
		got = append(got, *m)
		if len(got) < 3 {
			return errors.New("try again")
		}
		return nil
	}, nil)
	deliver(in, delivery("1", `{"n":1}`, func(r *http.Request) { r.Header.Set("Authorization", "Bearer canary") }))
	run(t, in)
	ev := settled(t, store, "1", driver.StateDone)

	var want []hookonce.Outgoing
	for attempt := 1; attempt <= 3; attempt++ {
		want = append(want, hookonce.Outgoing{
			ID: messageID("1", 0), Destination: "app", Source: "gh", EventID: "1", Type: "push", Attempt: attempt, Body: []byte(`{"n":1}`),
		})
	}
	mu.Lock()
	defer mu.Unlock()
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(hookonce.Outgoing{}, "Header", "HTTPHeader")); diff != "" {
		t.Errorf("the Sender was given (-want +got):\n%s", diff)
	}
	for _, m := range got {
		if m.Header.Get("X-GitHub-Event") != "push" || m.Header.Get("Authorization") != "<secret>" {
			t.Errorf("headers %v", m.Header)
		}
		if h := m.HTTPHeader; h.Get("X-GitHub-Event") != "push" || h.Get("Authorization") != "" || h.Get("Webhook-Id") != m.ID || h.Get("Hookonce-Event-Id") != "1" {
			t.Errorf("headers over HTTP %v", h)
		}
	}
	if tries := outcomes(ev); tries != "retry: try again, retry: try again, sent: " {
		t.Errorf("the audit trail says %q", tries)
	}
}

// outcomes returns the attempts of an event, as "outcome: error", joined by commas.
func outcomes(ev *driver.EventDetail) string {
	var all []string
	for _, try := range ev.Tries {
		all = append(all, try.Outcome+": "+try.Error)
	}
	return strings.Join(all, ", ")
}

// A Sender that does not return is left behind, and its only slot goes to another message.
func TestSenderOutcomes(t *testing.T) {
	t.Parallel()
	store, log, release := rig.OpenSQLite(t), &rig.Log{}, make(chan struct{})
	t.Cleanup(func() { close(release) })
	first := map[string]struct { // attempt 1 of the event
		send func(ctx context.Context) error
		want string // see outcomes
	}{
		"error":       {func(context.Context) error { return errors.New("boom \xff\x00") }, "retry: boom \ufffd\ufffd, sent: "},
		"retry after": {func(context.Context) error { return hookonce.RetryAfter(0, errors.New("busy")) }, "retry: busy, sent: "},
		"permanent": {func(context.Context) error {
			return fmt.Errorf("wrapped: %w", hookonce.Permanent(errors.New("no such mailbox")))
		}, "dead: wrapped: no such mailbox"},
		"goexit": {func(context.Context) error {
			runtime.Goexit()
			return nil
		}, "retry: the Sender ended its goroutine by runtime.Goexit: return an error instead, sent: "},
		"timeout": {func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}, "retry: the Sender used up its timeout of 300ms: context deadline exceeded, sent: "},
		"late success": {func(ctx context.Context) error {
			<-ctx.Done()
			return nil
		}, "sent: "},
		"hangs": {func(context.Context) error {
			<-release
			return nil
		}, "retry: the Sender used up its timeout of 300ms: it did not return after its context ended, sent: "},
	}
	in := newEngine(t, store, func(c *hookonce.Config) {
		c.Logger = log.Logger()
		sendBy(c, func(ctx context.Context, m *hookonce.Outgoing) error {
			if m.Attempt == 1 {
				return first[m.EventID].send(ctx)
			}
			return nil
		})
		c.Destinations[0].Timeout, c.Destinations[0].Concurrency = 300*time.Millisecond, 1
	})
	for id := range first {
		deliver(in, delivery(id, "{}"))
	}
	run(t, in)
	for id, tt := range first {
		state := driver.StateDone
		if id == "permanent" {
			state = driver.StateDead
		}
		if got := outcomes(settled(t, store, id, state)); got != tt.want {
			t.Errorf("%s: attempts %q, want %q", id, got, tt.want)
		}
	}
	if text := log.Text(); !strings.Contains(text, "left behind") || !strings.Contains(text, "event_id=hangs") {
		t.Errorf("the log does not say that the Sender was left behind:\n%s", text)
	}
}

// A permanent error is about one message, so it does not open the circuit.
func TestPermanentErrorsOpenNoCircuit(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	in := sendingBy(t, store, func(context.Context, *hookonce.Outgoing) error {
		return hookonce.Permanent(errors.New("refused"))
	}, nil)
	const events = 12
	for i := range events {
		deliver(in, delivery(fmt.Sprint(i), "{}"))
	}
	run(t, in)
	for i := range events {
		settled(t, store, fmt.Sprint(i), driver.StateDead)
	}
	if circuit := in.Operator().Destinations()[0].Circuit; circuit.Open {
		t.Errorf("circuit %+v, want it closed", circuit)
	}
}

// uncomparable is a Sender that makes == panic.
type uncomparable struct{ sent []*atomic.Int64 }

func (u uncomparable) Send(context.Context, *hookonce.Outgoing) error {
	u.sent[0].Add(1)
	return nil
}

func TestReloadWithASender(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	var sent atomic.Int64
	in := sendingBy(t, store, nil, func(d *hookonce.Destination) { d.Sender = uncomparable{[]*atomic.Int64{&sent}} })
	run(t, in)
	for i, sender := range []hookonce.Sender{
		uncomparable{[]*atomic.Int64{&sent}},
		hookonce.SenderFunc(func(context.Context, *hookonce.Outgoing) error { sent.Add(1); return nil }),
		uncomparable{[]*atomic.Int64{&sent}},
	} {
		cfg := settings("http://localhost/")
		cfg.Destinations[0] = hookonce.Destination{Name: "app", Sender: sender}
		reload(t, in, cfg)
		id := fmt.Sprint(i)
		if got := deliver(in, delivery(id, "{}")); got.Code != http.StatusOK {
			t.Fatalf("delivery: %+v, want 200", got)
		}
		settled(t, store, id, driver.StateDone)
	}
	if n := sent.Load(); n != 3 {
		t.Errorf("the Senders were called %d times, want 3", n)
	}
}
