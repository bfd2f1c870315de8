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
func sendingBy(t *testing.T, store driver.Store, sender hookonce.Sender, change func(*hookonce.Config)) *hookonce.Engine {
	t.Helper()
	return newEngine(t, store, func(c *hookonce.Config) {
		c.Destinations = []hookonce.Destination{{
			Name: "app", Sender: sender, Retry: hookonce.Retry{Attempts: 3, First: time.Millisecond, Max: time.Millisecond},
		}}
		c.Routes = []hookonce.Route{{Name: "all", To: "app"}}
		if change != nil {
			change(c)
		}
	})
}

func TestSenderIsGivenTheMessage(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	var mu sync.Mutex
	var got []hookonce.Outgoing
	in := sendingBy(t, store, hookonce.SenderFunc(func(ctx context.Context, m *hookonce.Outgoing) error {
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
	}), nil)
	r := delivery("1", `{"n":1}`)
	r.Header.Set("Authorization", "Bearer canary")
	deliver(in, r)
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

func TestSenderOutcomes(t *testing.T) {
	t.Parallel()
	invalidText := errors.New("boom \xff\x00")
	tests := []struct {
		name string
		send func(ctx context.Context, m *hookonce.Outgoing) error // for attempt 1
		want string                                                // see outcomes
		log  string                                                // must be in the log

		timeout time.Duration
	}{
		{"error", func(context.Context, *hookonce.Outgoing) error { return invalidText }, "retry: boom \ufffd\ufffd, sent: ", "boom", 0},
		{"permanent", func(context.Context, *hookonce.Outgoing) error {
			return fmt.Errorf("wrapped: %w", hookonce.Permanent(errors.New("no such mailbox")))
		}, "dead: wrapped: no such mailbox", "no such mailbox", 0},
		{"retry after", func(context.Context, *hookonce.Outgoing) error {
			return hookonce.RetryAfter(0, errors.New("busy"))
		}, "retry: busy, sent: ", "busy", 0},
		{"panic", func(context.Context, *hookonce.Outgoing) error { panic("a defect") }, "retry: the Sender panicked: a defect, sent: ", "sender_test.go", 0},
		{"goexit", func(context.Context, *hookonce.Outgoing) error {
			runtime.Goexit()
			return nil
		}, "retry: the Sender ended its goroutine by runtime.Goexit: return an error instead, sent: ", "Goexit", 0},
		{"timeout", func(ctx context.Context, _ *hookonce.Outgoing) error {
			<-ctx.Done()
			return ctx.Err()
		}, "retry: the Sender used up its timeout of 20ms: context deadline exceeded, sent: ", "deadline", 20 * time.Millisecond},
		{"success after the timeout", func(ctx context.Context, _ *hookonce.Outgoing) error {
			<-ctx.Done()
			return nil
		}, "sent: ", "", 20 * time.Millisecond},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			store, log := rig.OpenSQLite(t), &rig.Log{}
			in := sendingBy(t, store, hookonce.SenderFunc(func(ctx context.Context, m *hookonce.Outgoing) error {
				if m.Attempt == 1 {
					return tt.send(ctx, m)
				}
				return nil
			}), func(c *hookonce.Config) {
				c.Destinations[0].Timeout = tt.timeout
				c.Logger = log.Logger()
			})
			deliver(in, delivery("1", "{}"))
			run(t, in)
			state := driver.StateDone
			if tt.name == "permanent" {
				state = driver.StateDead
			}
			if got := outcomes(settled(t, store, "1", state)); got != tt.want {
				t.Errorf("attempts %q, want %q", got, tt.want)
			}
			if text := strings.Join(log.Lines(), ""); !strings.Contains(text, tt.log) {
				t.Errorf("the log lacks %q:\n%s", tt.log, text)
			}
		})
	}
}

// RetryAfter replaces the delay of the schedule, also when it is shorter.
func TestSenderSetsTheDelay(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		schedule, after time.Duration
		least, most     time.Duration // until the message is due
	}{
		"later":  {time.Millisecond, time.Hour, 50 * time.Minute, time.Hour},
		"sooner": {12 * time.Hour, 10 * time.Minute, 0, 10 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := rig.OpenSQLite(t)
			in := sendingBy(t, store, hookonce.SenderFunc(func(context.Context, *hookonce.Outgoing) error {
				return hookonce.RetryAfter(tt.after, errors.New("busy"))
			}), func(c *hookonce.Config) {
				c.Destinations[0].Retry = hookonce.Retry{First: tt.schedule, Max: tt.schedule}
			})
			deliver(in, delivery("1", "{}"))
			run(t, in)
			rig.WaitFor(t, func() bool { return len(eventState(t, store, "1").Tries) == 1 })
			now, err := store.Now(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if due := eventState(t, store, "1").Messages[0].DueAt.Sub(now); due < tt.least || due > tt.most {
				t.Errorf("due in %s, want %s to %s", due, tt.least, tt.most)
			}
		})
	}
}

// The relay abandons a Sender that does not return, and sends other messages.
func TestSenderThatHangs(t *testing.T) {
	t.Parallel()
	store, log, release := rig.OpenSQLite(t), &rig.Log{}, make(chan struct{})
	t.Cleanup(func() { close(release) })
	in := sendingBy(t, store, hookonce.SenderFunc(func(_ context.Context, m *hookonce.Outgoing) error {
		if m.EventID == "hangs" {
			<-release
		}
		return nil
	}), func(c *hookonce.Config) {
		c.Destinations[0].Timeout, c.Destinations[0].Concurrency, c.Destinations[0].Retry.Attempts = 10*time.Millisecond, 1, 2
		c.Logger = log.Logger()
	})
	deliver(in, delivery("hangs", "{}"))
	deliver(in, delivery("2", "{}"))
	run(t, in)
	settled(t, store, "2", driver.StateDone)
	const failure = "the Sender used up its timeout of 10ms: it did not return after its context ended"
	if got := outcomes(settled(t, store, "hangs", driver.StateDead)); got != "retry: "+failure+", dead: "+failure {
		t.Errorf("attempts %q, want two timeouts", got)
	}
	if text := strings.Join(log.Lines(), ""); !strings.Contains(text, "left behind") || !strings.Contains(text, "event_id=hangs") {
		t.Errorf("the log does not say that the Sender was left behind:\n%s", text)
	}
}

// A permanent error is about one message, so it does not open the circuit.
func TestCircuitOfASender(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		err  error
		open bool
	}{
		"permanent": {hookonce.Permanent(errors.New("refused")), false},
		"fails":     {hookonce.RetryAfter(time.Hour, errors.New("down")), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := rig.OpenSQLite(t)
			var calls atomic.Int64
			in := sendingBy(t, store, hookonce.SenderFunc(func(context.Context, *hookonce.Outgoing) error {
				calls.Add(1)
				return tt.err
			}), func(c *hookonce.Config) {
				c.Destinations[0].Retry, c.Destinations[0].Concurrency = hookonce.Retry{First: time.Hour}, 1
			})
			for i := range 20 {
				deliver(in, delivery(fmt.Sprint(i), "{}"))
			}
			run(t, in)
			want := int64(20)
			if tt.open {
				want = 10
			}
			rig.WaitFor(t, func() bool { return calls.Load() == want && in.Destinations()[0].Circuit.Open == tt.open })
		})
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
	in := sendingBy(t, store, uncomparable{[]*atomic.Int64{&sent}}, nil)
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
