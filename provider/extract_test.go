package provider

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/hookonce/hookonce/internal/locate"
)

func mustRules(t testing.TB, r EventRules) *Extractor {
	t.Helper()
	x, err := CompileRules(r)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func TestExtract(t *testing.T) {
	t.Parallel()
	day := time.Unix(1_760_000_000, 0).UTC()
	batch := EventRules{ID: "item:id", Type: "item:type", Time: "item:at", Batch: "body:events"}
	for _, c := range []struct {
		name   string
		rules  EventRules
		header http.Header
		body   string
		events []Event
		bad    []string // the bodies of Malformed
	}{
		{
			"one",
			EventRules{ID: "body:id", Type: "body:type", Time: "body:created"},
			nil,
			`{"id":"evt_1","type":"a.b","created":1760000000}`,
			[]Event{{IDParts: []string{"evt_1"}, ID: "evt_1", Type: "a.b", Time: day, Body: []byte(`{"id":"evt_1","type":"a.b","created":1760000000}`)}},
			nil,
		},
		{
			"composite id, no type, no time",
			EventRules{ID: "header:X-Shop + body:n"},
			http.Header{"X-Shop": {"s:1"}},
			`{"n":7}`,
			[]Event{{IDParts: []string{"s:1", "7"}, ID: "s:1:7", Body: []byte(`{"n":7}`)}},
			nil,
		},
		{
			"type and time absent",
			EventRules{ID: "body:id", Type: "body:type", Time: "body:at"},
			nil, `{"id":1}`,
			[]Event{{IDParts: []string{"1"}, ID: "1", Body: []byte(`{"id":1}`)}},
			nil,
		},
		{
			"id in a header, binary body",
			EventRules{ID: "header:X-Id", Type: "body:type"},
			http.Header{"X-Id": {"a"}},
			"\x00\xff",
			[]Event{{IDParts: []string{"a"}, ID: "a", Body: []byte("\x00\xff")}},
			nil,
		},
		{"no id", EventRules{ID: "body:id"}, nil, `{"ID":"x"}`, nil, []string{`{"ID":"x"}`}},
		{"not JSON", EventRules{ID: "body:id"}, nil, "hello", nil, []string{"hello"}},
		{"empty", EventRules{ID: "body:id"}, nil, "", nil, []string{""}},
		{
			"batch", batch, nil, `{"events":[{"id":1,"type":"t","at":"2025-10-09T08:53:20Z"}, {"id":"1"} ]}`,
			[]Event{
				{IDParts: []string{"1"}, ID: "1", Type: "t", Time: day, Body: []byte(`{"id":1,"type":"t","at":"2025-10-09T08:53:20Z"}`)},
				{IDParts: []string{"1"}, ID: "1", Body: []byte(`{"id":"1"}`)},
			},
			nil,
		},
		{
			"bad items between good ones", batch, nil, `{"events":[{"id":1},{},{"id":2},7,{"id":""}]}`,
			[]Event{
				{IDParts: []string{"1"}, ID: "1", Body: []byte(`{"id":1}`)},
				{IDParts: []string{"2"}, ID: "2", Body: []byte(`{"id":2}`)},
			},
			[]string{`{}`, `7`, `{"id":""}`},
		},
		{"empty batch", batch, nil, `{"events":[]}`, nil, nil},
		{"no batch", batch, nil, `{"id":1}`, nil, []string{`{"id":1}`}},
		{"batch that is an object", batch, nil, `{"events":{"id":1}}`, nil, []string{`{"events":{"id":1}}`}},
		{"truncated batch", batch, nil, `{"events":[{"id":1}`, nil, []string{`{"events":[{"id":1}`}},
		{"batch past the limit", batch, nil, `{"events":[` + strings.Repeat("1,", locate.MaxItems) + "1]}", nil, []string{`{"events":[` + strings.Repeat("1,", locate.MaxItems) + "1]}"}},
		{
			"document as batch",
			EventRules{ID: "header:X-Shop + item:id", Batch: "body:"},
			http.Header{"X-Shop": {"s"}},
			`[{"id":1}]`,
			[]Event{{IDParts: []string{"s", "1"}, ID: "s:1", Body: []byte(`{"id":1}`)}},
			nil,
		},
		{
			"item and body",
			EventRules{ID: "body:tenant + item:id", Batch: "body:list"},
			nil, `{"tenant":"t","list":[{"id":1},{"id":2}]}`,
			[]Event{
				{IDParts: []string{"t", "1"}, ID: "t:1", Body: []byte(`{"id":1}`)},
				{IDParts: []string{"t", "2"}, ID: "t:2", Body: []byte(`{"id":2}`)},
			},
			nil,
		},
		{
			"outer, item and body",
			EventRules{ID: "outer:id? + item:id + body:t", Type: "outer:type", Batch: "body:a[].b | body:c"},
			nil, `{"t":"t","a":[{"id":"x","type":"k","b":[{"id":1},{}]},{"c":1},{"id":[],"b":[{"id":2}]},{"b":[{"id":3}]}]}`,
			[]Event{
				{IDParts: []string{"x", "1", "t"}, ID: "x:1:t", Type: "k", Body: []byte(`{"id":1}`)},
				{IDParts: []string{"", "3", "t"}, ID: ":3:t", Body: []byte(`{"id":3}`)},
			},
			[]string{`{}`, `{"c":1}`, `{"id":2}`},
		},
		{
			"nothing around the items",
			EventRules{ID: "outer:id + item:id | body:t + item:id", Batch: "body:a[].b | body:c"},
			nil, `{"t":"t","id":"z","c":[{"id":1}]}`,
			[]Event{{IDParts: []string{"t", "1"}, ID: "t:1", Body: []byte(`{"id":1}`)}},
			nil,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			in := &locate.Input{Outer: []byte(`{"id":"ignored"}`), Header: c.header, Body: []byte(c.body), Item: []byte(`{"id":"ignored"}`)}
			events, bad := mustRules(t, c.rules).Extract(in)
			if diff := cmp.Diff(c.events, events, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			var bodies []string
			for _, m := range bad {
				bodies = append(bodies, string(m.Body))
				if m.Reason == "" {
					t.Error("a malformed one without a reason")
				}
			}
			if diff := cmp.Diff(c.bad, bodies); diff != "" {
				t.Errorf("malformed (-want +got):\n%s", diff)
			}
		})
	}
}

// TestReasonsHoldNoValues checks that a reason names the location but not the value.
func TestReasonsHoldNoValues(t *testing.T) {
	t.Parallel()
	x := mustRules(t, EventRules{ID: "body:a.id"})
	for _, body := range []string{`{"a":{"id":"canary\n"}}`, `{"a":{"id":["canary"]}}`, `{"canary":`, `{"a":{"id":1,"id":"canary"}}`} {
		_, bad := x.Extract(&locate.Input{Body: []byte(body)})
		if len(bad) != 1 || strings.Contains(bad[0].Reason, "canary") || !strings.Contains(bad[0].Reason, "body:a.id") {
			t.Errorf("%s: %+v", body, bad)
		}
	}
}

func TestCompileRulesFaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		rules EventRules
		want  []string // the faulty fields
		text  string
	}{
		{"nothing", EventRules{}, []string{"event.id"}, "set event.id"},
		{"everything", EventRules{ID: "x", Type: "form:", Time: "foo:a", Batch: "header:X"}, []string{"event.id", "event.type", "event.time", "event.batch"}, ""},
		{"item without a batch", EventRules{ID: "item:id", Type: "item:type"}, []string{"event.id", "event.type"}, "event.batch"},
		{"one id for a batch", EventRules{ID: "header:X-Id", Batch: "body:list"}, []string{"event.id"}, "item:path"},
		{"one id for a batch, in an alternative", EventRules{ID: "item:id | header:X-Id", Batch: "body:list"}, []string{"event.id"}, "item:path"},
		{"a form in a batch", EventRules{ID: "item:id + form:x", Batch: "body:list"}, []string{"event.id"}, "form"},
		{"an outer without a batch", EventRules{ID: "outer:id", Type: "outer:type"}, []string{"event.id", "event.type"}, "set event.batch"},
		{"an outer of a flat batch", EventRules{ID: "item:id", Time: "outer:at", Batch: "body:list | one"}, []string{"event.time"}, `has no "[]"`},
		{"an outer of a broken batch", EventRules{ID: "outer:a + item:id", Batch: "body:a[]"}, []string{"event.batch"}, "leave out"},
		{"an outer alone", EventRules{ID: "outer:id", Batch: "body:a[].b"}, []string{"event.id"}, "item:path"},
		{"an outer in an alternative", EventRules{ID: "item:id | outer:id", Batch: "body:a[].b"}, []string{"event.id"}, "item:path"},
		{"an empty segment", EventRules{ID: "item:id", Batch: "body:a..b"}, []string{"event.batch"}, "segment 2"},
		{"no id for a batch", EventRules{Batch: "body:list"}, []string{"event.id"}, "set event.id"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := CompileRules(c.rules)
			if err == nil || !strings.Contains(err.Error(), c.text) {
				t.Fatalf("got %v, want an error that holds %q", err, c.text)
			}
			var joined interface{ Unwrap() []error }
			if !errors.As(err, &joined) {
				t.Fatalf("%v is not joined", err)
			}
			var fields []string
			for _, fault := range joined.Unwrap() {
				var r *RuleError
				if !errors.As(fault, &r) {
					t.Fatalf("%v is not a *RuleError", fault)
				}
				fields = append(fields, r.Field)
			}
			if diff := cmp.Diff(c.want, fields); diff != "" {
				t.Error(diff)
			}
		})
	}
	if got := mustRules(t, EventRules{ID: "body:a + body:b"}).ID().String(); got != "body:a + body:b" {
		t.Errorf("ID() is %s", got)
	}
}

// TestCompositeIDsKeepTheirParts checks that lists of parts that look alike stay different ids:
// a+bc and ab+c, a:b and a, b.
func TestCompositeIDsKeepTheirParts(t *testing.T) {
	t.Parallel()
	x := mustRules(t, EventRules{ID: "header:A + header:B"})
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[a-c:]{3,8}`).Draw(t, "text")
		cut := rapid.IntRange(1, len(text)-1)
		first, second := cut.Draw(t, "first cut"), cut.Draw(t, "second cut")
		read := func(cut int) []string {
			events, bad := x.Extract(&locate.Input{Header: http.Header{"A": {text[:cut]}, "B": {text[cut:]}}})
			if len(events) != 1 || len(bad) != 0 {
				t.Fatalf("%v %v", events, bad)
			}
			return events[0].IDParts
		}
		if cmp.Equal(read(first), read(second)) != (first == second) {
			t.Fatalf("%q cut at %d and %d", text, first, second)
		}
	})
}
