package inbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/rig"
	"github.com/hookonce/hookonce/observe"
)

// tracer keeps its spans. Each has a number as its id; a root begins the trace of that number.
type tracer struct {
	mu    sync.Mutex
	spans []*tracedSpan
	fails bool
	gives *string // the traceparent of every span, if not nil
}

type tracedSpan struct {
	observe.SpanStart
	tracer      *tracer
	traceparent string
	end         *observe.SpanEnd
}

// spanKey is the context key of a traceparent.
type spanKey struct{}

func (t *tracer) Start(ctx context.Context, s observe.SpanStart) (context.Context, observe.Span) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.fails {
		panic("canary")
	}
	n := len(t.spans) + 1
	trace := fmt.Sprintf("%032x", n)
	if s.Parent != "" {
		trace = s.Parent[3:35]
	}
	out := &tracedSpan{SpanStart: s, tracer: t, traceparent: fmt.Sprintf("00-%s-%016x-01", trace, n)}
	if t.gives != nil {
		out.traceparent = *t.gives
	}
	t.spans = append(t.spans, out)
	return context.WithValue(ctx, spanKey{}, out.traceparent), out
}

func (s *tracedSpan) Traceparent() string { return s.traceparent }

func (s *tracedSpan) End(e observe.SpanEnd) {
	s.tracer.mu.Lock()
	defer s.tracer.mu.Unlock()
	s.end = &e
}

// ended waits for n spans of a name that have ended, and returns them.
func (t *tracer) ended(tb testing.TB, name string, n int) (found []*tracedSpan) {
	tb.Helper()
	eventually.True(tb, fmt.Sprintf("%d spans %s have ended", n, name), func() bool {
		t.mu.Lock()
		defer t.mu.Unlock()
		found = slices.DeleteFunc(slices.Clone(t.spans), func(s *tracedSpan) bool { return s.Name != name || s.end == nil })
		return len(found) == n
	})
	return found
}

const sendersTrace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func ofTrace(r *http.Request) { r.Header.Set("Traceparent", sendersTrace) }

// The handler, the message that it enqueues and a replay belong to the trace of the delivery.
func TestTracesOfHandlers(t *testing.T) {
	t.Parallel()
	l, app, traces := onSQLite(t), newSink(t), &tracer{}
	outbox, parents := hookonce.NewOutbox(l.db), make(chan any, 2) // of the spans that a handler would make
	in := inbox(t, l, handling(func(ctx context.Context, tx *sql.Tx, ev *hookonce.Event) error {
		parents <- ctx.Value(spanKey{})
		return outbox.EnqueueTx(ctx, tx, &hookonce.Message{Destination: "app", Body: ev.Body})
	}), func(c *hookonce.Config) {
		sendTo(c, app.URL, hookonce.Retry{})
		c.Routes, c.Tracer = nil, traces
	})
	run(t, in)
	deliver(in, delivery("1", "{}", ofTrace))
	receive := traces.ended(t, observe.SpanReceive, 1)[0]
	handle, attempt := traces.ended(t, observe.SpanHandle, 1)[0], traces.ended(t, observe.SpanAttempt, 1)[0]
	if receive.Parent != sendersTrace || handle.Parent != receive.traceparent || attempt.Parent != receive.traceparent {
		t.Errorf("parents: receive %s, handle %s, attempt %s; receive is %s", receive.Parent, handle.Parent, attempt.Parent, receive.traceparent)
	}
	if parent := <-parents; parent != handle.traceparent {
		t.Errorf("the context of the handler has the span %v, want %s", parent, handle.traceparent)
	}
	for _, s := range []*tracedSpan{receive, handle, attempt} {
		text := fmt.Sprint(s.end.Attributes)
		if !strings.Contains(text, "source=gh") || !strings.Contains(text, "event_id=1") || s.end.At.Before(s.At) {
			t.Errorf("%s ended with %s at %v, and began at %v", s.Name, text, s.end.At, s.At)
		}
	}
	settled(t, l.db, "1", driver.StateDone)
	if _, err := in.Replay(t.Context(), &hookonce.ReplayRequest{Source: "gh", EventID: "1", Mode: driver.ReplayAsNew}); err != nil {
		t.Fatal(err)
	}
	if replay := traces.ended(t, observe.SpanReplay, 1)[0]; replay.Parent != "" || replay.Link != receive.traceparent {
		t.Errorf("replay has the parent %q and the link %q, want a link to %s", replay.Parent, replay.Link, receive.traceparent)
	}
	traces.ended(t, observe.SpanHandle, 2)
}

// Each run of a handler has its span, also one that was undone with its batch, and one of an Inline handler.
func TestSpansOfRuns(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		inline bool
		want   []string
	}{
		"batch":  {false, []string{"bad dead no", "bad undone no", "good done <nil>", "good undone <nil>"}},
		"inline": {true, []string{"bad dead no", "good done <nil>"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, traces := onSQLite(t), &tracer{}
			in := inbox(t, l, handling(func(ctx context.Context, _ *sql.Tx, ev *hookonce.Event) error {
				if ctx.Value(spanKey{}) == nil {
					t.Error("the context of the handler has no span")
				}
				if ev.ID == "bad" {
					return hookonce.Permanent(errors.New("no"))
				}
				return nil
			}), func(c *hookonce.Config) {
				c.Workers, c.Tracer, c.Sources[0].Inline = 1, traces, tt.inline
			})
			deliverAll(t, in, "good", "bad")
			run(t, in)
			var got []string
			for _, s := range traces.ended(t, observe.SpanHandle, len(tt.want)) {
				values := map[string]string{}
				for _, a := range s.end.Attributes {
					values[a.Key] = a.Value.String()
				}
				got = append(got, fmt.Sprint(values["event_id"], " ", values["outcome"], " ", s.end.Err))
			}
			slices.Sort(got)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A Tracer that panics, or gives no traceparent, disturbs nothing.
func TestFailingTracer(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		tracer *tracer
		logged bool
	}{
		"panic":           {&tracer{fails: true}, true},
		"no traceparent":  {&tracer{gives: new(string)}, false},
		"one that is bad": {&tracer{gives: new("00-1\r\nX-Forged: 1")}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, app, log := rig.OpenSQLite(t), newSink(t), &rig.Log{}
			in := newEngine(t, store, func(c *hookonce.Config) {
				sendTo(c, app.URL, hookonce.Retry{})
				c.Tracer, c.Logger = tt.tracer, log.Logger()
			})
			run(t, in)
			if got := deliver(in, delivery("1", "{}", ofTrace)); got != ok {
				t.Errorf("answer %+v", got)
			}
			settled(t, store, "1", driver.StateDone)
			if got := strings.Contains(log.Text(), "a Tracer failed"); got != tt.logged {
				t.Errorf("the log mentions it: %t, want %t:\n%s", got, tt.logged, log.Text())
			}
		})
	}
}
