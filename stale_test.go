package hookonce

import (
	"bytes"
	"compress/gzip"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/provider"
)

// staleSource is an unsigned source with rules.
func staleSource(t *testing.T, log *slog.Logger, change func(*Source)) *source {
	t.Helper()
	s := Source{Name: "lab", Provider: provider.None, Event: provider.EventRules{ID: "body:id", Type: "body:type"}}
	change(&s)
	src, err := newSource(s, log)
	if err != nil {
		t.Fatal(err)
	}
	return src
}

// object is what tests compare of what a rule found.
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
	src := staleSource(t, slog.New(slog.NewTextHandler(&log, nil)), func(s *Source) {
		s.Stale = []StaleRule{
			{Types: []string{"sub.updated", "sub.*.fixed"}, Key: "body:sub.id", Version: "body:sub.v"},
			{Types: []string{"sub.*"}, Key: "body:sub.id", Version: "body:at | header:X-At"},
			{Types: []string{"composed"}, Key: "body:a + body:b", Version: "body:v"},
			{Types: []string{"form"}, Key: "form:id", Version: "form:v"},
		}
	})
	tests := []struct {
		name string
		ev   Event
		want object
		log  string // what the log says; "" for nothing
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
		tt.ev.Source = "lab"
		if diff := cmp.Diff(tt.want, found(src.stale.objectOf("", &tt.ev))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
		if got := log.String(); tt.log == "" && got != "" || !strings.Contains(got, tt.log) || tt.log != "" && !strings.Contains(got, "event_id=e1") {
			t.Errorf("%s: the log says %q, want %q", tt.name, got, tt.log)
		}
	}
}

// What handlers applied and what each route sent are different things.
func TestStaleScopes(t *testing.T) {
	t.Parallel()
	src := staleSource(t, slog.New(slog.DiscardHandler), func(s *Source) {
		s.Stale = []StaleRule{{Key: "body:id", Version: "body:v"}}
	})
	seen := make(map[driver.Key]string)
	for _, scope := range []string{"", "a", "b"} {
		v, ok := src.stale.objectOf(scope, &Event{Source: "lab", Body: []byte(`{"id":1,"v":1}`)})
		if other, known := seen[v.Object]; !ok || known {
			t.Errorf("scope %q: %t, the object of %q", scope, ok, other)
		}
		seen[v.Object] = scope
	}
}

func TestStaleRulesOfBatches(t *testing.T) {
	t.Parallel()
	src := staleSource(t, slog.New(slog.DiscardHandler), func(s *Source) {
		s.Event = provider.EventRules{ID: "item:id", Batch: "body:items"}
		s.Stale = []StaleRule{{Key: "item:o + header:X-Account", Version: "item:v"}}
	})
	ev := &Event{Source: "lab", Header: http.Header{"X-Account": {"acme"}}, Body: []byte(`{"id":1,"o":"x","v":3}`)}
	if diff := cmp.Diff(wantObject(t, "r", "1:x4:acme", "3"), found(src.stale.objectOf("r", ev))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Rules look into what the body stands for, as the rules of its events do.
func TestStaleRulesOfDocuments(t *testing.T) {
	t.Parallel()
	src := staleSource(t, slog.New(slog.DiscardHandler), func(s *Source) {
		s.Event = provider.EventRules{ID: "body:n.id", Document: "form:p"}
		s.Stale = []StaleRule{{Key: "body:n.id + form:f", Version: "body:n.v"}}
	})
	ev := &Event{Source: "lab", Body: []byte(`f=x&p=%7B%22n%22%3A%7B%22id%22%3A1%2C%22v%22%3A3%7D%7D`)}
	if diff := cmp.Diff(wantObject(t, "r", "1:11:x", "3"), found(src.stale.objectOf("r", ev))); diff != "" {
		t.Errorf("form (-want +got):\n%s", diff)
	}
	src = staleSource(t, slog.New(slog.DiscardHandler), func(s *Source) {
		s.Event = provider.EventRules{ID: "item:id", Document: "xml", Batch: "body:e.n"}
		s.Stale = []StaleRule{{Key: "item:id", Version: "item:v"}}
	})
	ev = &Event{Source: "lab", Body: []byte(`{"id":{"#text":"1","@type":"long"},"v":"3"}`)}
	if diff := cmp.Diff(wantObject(t, "r", "1:1", "3"), found(src.stale.objectOf("r", ev))); diff != "" {
		t.Errorf("item of XML (-want +got):\n%s", diff)
	}
}

// The stored body is what was received; rules and handlers read what it stands for.
func TestStoredBodiesAreInflated(t *testing.T) {
	t.Parallel()
	var zipped bytes.Buffer
	zw := gzip.NewWriter(&zipped)
	if _, err := zw.Write([]byte(`{"id":1,"v":2}`)); err != nil {
		t.Fatal(err)
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	src := staleSource(t, slog.New(slog.DiscardHandler), func(s *Source) {
		s.Stale = []StaleRule{{Key: "body:id", Version: "body:v"}}
	})
	for name, tt := range map[string]struct {
		headers string
		body    []byte
		want    object
	}{
		"gzip":     {`{"Content-Encoding":["gzip"]}`, zipped.Bytes(), wantObject(t, "", "1:1", "2")},
		"plain":    {`{}`, []byte(`{"id":1,"v":2}`), wantObject(t, "", "1:1", "2")},
		"not gzip": {`{"Content-Encoding":["gzip"]}`, []byte(`{"id":1,"v":2}`), wantObject(t, "", "1:1", "2")},
	} {
		ev := eventOf(&driver.TakenEvent{Source: "lab", Headers: []byte(tt.headers), Body: tt.body}, slog.New(slog.DiscardHandler))
		if diff := cmp.Diff(tt.want, found(src.stale.objectOf("", ev))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestStaleRulesAreChecked(t *testing.T) {
	t.Parallel()
	_, err := newSource(Source{
		Name: "lab", Provider: provider.None, Event: provider.EventRules{ID: "body:id"}, Consume: ConsumeSQL,
		Stale: []StaleRule{{Key: "body:id", Version: "body:v"}, {Key: "", Version: "query:v"}, {Key: "header:Cookie", Version: "item:v"}},
	}, slog.New(slog.DiscardHandler))
	for _, want := range []string{
		`source "lab": stale: it cannot be applied with consume: sql`,
		`source "lab": stale[1].key: the location is empty`,
		`source "lab": stale[1].version: "query:v" looks into the query string`,
		`source "lab": stale[2].key: "header:Cookie" looks into a header that carries a credential`,
		`source "lab": stale[2].version: "item:v" looks into an item`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q: %v", want, err)
		}
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
