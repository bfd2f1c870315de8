package stale

import (
	"bytes"
	"log/slog"
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/provider"
)

// newRules compiles the rules of an unsigned source named lab.
func newRules(t *testing.T, log *slog.Logger, event provider.EventRules, rules ...Rule) *Rules {
	t.Helper()
	spec, err := provider.Lookup(provider.None)
	if err != nil {
		t.Fatal(err)
	}
	x, err := provider.CompileRules(event.Or(spec.Event))
	if err != nil {
		t.Fatal(err)
	}
	out, err := New("lab", rules, spec, x, log)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// types matches event types by patterns; none matches all.
func types(patterns ...string) func(string) bool {
	return func(eventType string) bool {
		return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool {
			ok, _ := path.Match(p, eventType)
			return ok
		})
	}
}

var plainEvent = provider.EventRules{ID: "body:id", Type: "body:type"}

// object is the part of a found version that tests compare.
type object struct{ Key, Version, Shown string }

func found(v driver.ObjectVersion, ok bool) object {
	if !ok {
		return object{}
	}
	return object{string(v.Object[:]), string(v.Version), v.Shown}
}

func wantObject(t *testing.T, scope, key, version string) object {
	t.Helper()
	k := driver.ObjectKey("lab", scope, key)
	return object{string(k[:]), string(encoded(t, version)), version}
}

func TestStaleRules(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	rules := newRules(t, slog.New(slog.NewTextHandler(&log, nil)), plainEvent,
		Rule{Matches: types("sub.updated", "sub.*.fixed"), Key: "body:sub.id", Version: "body:sub.v"},
		Rule{Matches: types("sub.*"), Key: "body:sub.id", Version: "body:at | header:X-At"},
		Rule{Matches: types("composed"), Key: "body:a + body:b", Version: "body:v"},
		Rule{Matches: types("form"), Key: "form:id", Version: "form:v"},
	)
	tests := []struct {
		name string
		ev   Event
		want object
		log  string // a part of the log; "" for an empty log
	}{
		{"number", Event{Type: "sub.updated", Body: []byte(`{"sub":{"id":"s1","v":12}}`)}, wantObject(t, "", "2:s1", "12"), ""},
		{"number in text", Event{Type: "sub.updated", Body: []byte(`{"sub":{"id":"s1","v":"12"}}`)}, wantObject(t, "", "2:s1", "12"), ""},
		{"pattern", Event{Type: "sub.x.fixed", Body: []byte(`{"sub":{"id":7,"v":"b"}}`)}, wantObject(t, "", "1:7", "b"), ""},
		{"first rule", Event{Type: "sub.updated", Body: []byte(`{"sub":{"id":"s1"},"at":"3"}`)}, object{}, ""},
		{"later rule", Event{Type: "sub.new", Body: []byte(`{"sub":{"id":"s1","v":1},"at":"2026-01-02T03:04:05Z"}`)}, wantObject(t, "", "2:s1", "2026-01-02T03:04:05Z"), ""},
		{"header", Event{Type: "sub.new", Header: http.Header{"X-At": {"5"}}, Body: []byte(`{"sub":{"id":"s1"}}`)}, wantObject(t, "", "2:s1", "5"), ""},
		{"composed", Event{Type: "composed", Body: []byte(`{"a":"x","b":"y:","v":1}`)}, wantObject(t, "", "1:x2:y:", "1"), ""},
		{"form", Event{Type: "form", Body: []byte(`id=x&v=1.5`)}, wantObject(t, "", "1:x", "1.5"), ""},
		{"no rule", Event{Type: "invoice", Body: []byte(`{"sub":{"id":"s1","v":1}}`)}, object{}, ""},
		{"no key", Event{Type: "sub.updated", Body: []byte(`{"sub":{"v":1}}`)}, object{}, ""},
		{"null", Event{Type: "sub.updated", Body: []byte(`{"sub":{"id":"s1","v":null}}`)}, object{}, ""},
		{"key is an object", Event{ID: "e1", Type: "sub.updated", Body: []byte(`{"sub":{"id":{},"v":1}}`)}, object{}, "unreadable=key"},
		{"version is true", Event{ID: "e1", Type: "sub.updated", Body: []byte(`{"sub":{"id":1,"v":true}}`)}, object{}, "unreadable=version"},
		{"too long", Event{ID: "e1", Type: "sub.updated", Body: []byte(`{"sub":{"id":1,"v":1e9999999999}}`)}, object{}, "too long"},
		{"no JSON", Event{ID: "e1", Type: "sub.updated", Body: []byte(`<sub/>`)}, object{}, "not valid JSON"},
	}
	for _, tt := range tests {
		log.Reset()
		if diff := cmp.Diff(tt.want, found(rules.ObjectOf("", &tt.ev))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
		if got := log.String(); tt.log == "" && got != "" || !strings.Contains(got, tt.log) || tt.log != "" && !strings.Contains(got, "event_id=e1") {
			t.Errorf("%s: the log says %q, want %q", tt.name, got, tt.log)
		}
	}
}

// Handlers and each route track applied versions separately.
func TestStaleScopes(t *testing.T) {
	t.Parallel()
	rules := newRules(t, slog.New(slog.DiscardHandler), plainEvent, Rule{Matches: types(), Key: "body:id", Version: "body:v"})
	seen := make(map[driver.Key]string)
	for _, scope := range []string{"", "a", "b"} {
		v, ok := rules.ObjectOf(scope, &Event{Body: []byte(`{"id":1,"v":1}`)})
		if other, known := seen[v.Object]; !ok || known {
			t.Errorf("scope %q: %t, the object of %q", scope, ok, other)
		}
		seen[v.Object] = scope
	}
}

func TestStaleRulesOfBatches(t *testing.T) {
	t.Parallel()
	rules := newRules(t, slog.New(slog.DiscardHandler), provider.EventRules{ID: "item:id", Batch: "body:items"}, Rule{Matches: types(), Key: "item:o + header:X-Account", Version: "item:v"})
	ev := &Event{Header: http.Header{"X-Account": {"acme"}}, Body: []byte(`{"id":1,"o":"x","v":3}`)}
	if diff := cmp.Diff(wantObject(t, "r", "1:x4:acme", "3"), found(rules.ObjectOf("r", ev))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Stale rules read the same document as the event rules.
func TestStaleRulesOfDocuments(t *testing.T) {
	t.Parallel()
	rules := newRules(t, slog.New(slog.DiscardHandler), provider.EventRules{ID: "body:n.id", Document: "form:p"}, Rule{Matches: types(), Key: "body:n.id + form:f", Version: "body:n.v"})
	ev := &Event{Body: []byte(`f=x&p=%7B%22n%22%3A%7B%22id%22%3A1%2C%22v%22%3A3%7D%7D`)}
	if diff := cmp.Diff(wantObject(t, "r", "1:11:x", "3"), found(rules.ObjectOf("r", ev))); diff != "" {
		t.Errorf("form (-want +got):\n%s", diff)
	}
	rules = newRules(t, slog.New(slog.DiscardHandler), provider.EventRules{ID: "item:id", Document: "xml", Batch: "body:e.n"}, Rule{Matches: types(), Key: "item:id", Version: "item:v"})
	ev = &Event{Body: []byte(`{"id":{"#text":"1","@type":"long"},"v":"3"}`)}
	if diff := cmp.Diff(wantObject(t, "r", "1:1", "3"), found(rules.ObjectOf("r", ev))); diff != "" {
		t.Errorf("item of XML (-want +got):\n%s", diff)
	}
}

func TestShownVersionsAreCut(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text  string
		limit int
		want  string
	}{{"abc", 3, "abc"}, {"abcd", 3, "abc"}, {"aé", 2, "a"}, {"a😀", 4, "a"}, {"a😀", 5, "a😀"}, {"", 0, ""}} {
		if got := cutText(tt.text, tt.limit); got != tt.want || !utf8.ValidString(got) {
			t.Errorf("%q cut to %d: %q, want %q", tt.text, tt.limit, got, tt.want)
		}
	}
}
