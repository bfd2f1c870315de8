package sample_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/internal/sample"
	"github.com/hookonce/hookonce/provider"
)

// TestSetJSON checks that only the value at the path changes, and that an error says where the path
// stops.
func TestSetJSON(t *testing.T) {
	t.Parallel()
	const doc = `{ "b": {"a.b":[1, {"x":null}]}, "n":12345678901234567890, "s":"t" }`
	tests := map[string]struct{ doc, path, value, want, err string }{
		"a member":           {doc, "s", `5`, `{ "b": {"a.b":[1, {"x":null}]}, "n":12345678901234567890, "s":5 }`, ""},
		"a new one":          {doc, "c.d", `5`, `{ "b": {"a.b":[1, {"x":null}]}, "n":12345678901234567890, "s":"t","c":{"d":5} }`, ""},
		"in an array":        {doc, `b.a\.b.1.x`, `"y"`, `{ "b": {"a.b":[1, {"x":"y"}]}, "n":12345678901234567890, "s":"t" }`, ""},
		"one more element":   {doc, `b.a\.b.2`, `{}`, `{ "b": {"a.b":[1, {"x":null},{}]}, "n":12345678901234567890, "s":"t" }`, ""},
		"the first element":  {doc, `b.a\.b[]`, `2`, `{ "b": {"a.b":[2, {"x":null}]}, "n":12345678901234567890, "s":"t" }`, ""},
		"an empty object":    {` {} `, "a", `1`, `{"a":1}`, ""},
		"a mark in front":    {"\ufeff{}", "a", `1`, `{"a":1}`, ""},
		"an empty array":     {`[]`, "0.a", `1`, `[{"a":1}]`, ""},
		"the last of two":    {`{"a":1,"a":2}`, "a", `3`, `{"a":1,"a":3}`, ""},
		"below a string":     {doc, "s.x", `1`, "", "s is a string, not an object or an array"},
		"below a number":     {doc, "n.x.y", `1`, "", "n is a number, not an object or an array"},
		"a scalar document":  {`true`, "x", `1`, "", "the body is a boolean, not an object or an array"},
		"a name in an array": {doc, `b.a\.b.x`, `1`, "", `b.a.b is an array: name an element by its number, not "x"`},
		"beyond an array":    {doc, `b.a\.b.3`, `1`, "", "b.a.b has 2 elements, so 2 is the last one that can be set"},
		"no JSON":            {`a=1`, "a", `1`, "", "the body is not JSON"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := sample.SetJSON([]byte(tt.doc), tt.path, []byte(tt.value))
			if tt.err != "" {
				if err == nil || err.Error() != tt.err {
					t.Errorf("the error is %v, want %s", err, tt.err)
				}
				return
			}
			if diff := cmp.Diff(tt.want, string(got)); err != nil || diff != "" {
				t.Errorf("error %v (-want +got):\n%s", err, diff)
			}
		})
	}
}

// TestModel checks that a body that is made from a model has the event's fields in the model's places
// and kinds, and keeps all else.
func TestModel(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_770_000_000, 0)
	event := sample.Event{ID: "e1", Type: "t", Time: at}
	tests := map[string]struct {
		rules       provider.EventRules
		event       sample.Event
		unique      bool
		model, body string
		header      http.Header
	}{
		"fields":           {provider.EventRules{ID: "body:id", Type: "body:type", Time: "body:at"}, event, false, `{"type":"x", "a":1,"id":"y","at":1760000000}`, `{"type":"t", "a":1,"id":"e1","at":1770000000}`, nil},
		"milliseconds":     {provider.EventRules{ID: "body:id", Time: "body:at"}, event, false, `{"id":"y","at":1760000000123}`, `{"id":"e1","at":1770000000000}`, nil},
		"a text of a time": {provider.EventRules{ID: "body:id", Time: "body:at"}, event, false, `{"id":"y","at":"2025-10-09T08:53:20.000Z"}`, `{"id":"e1","at":"2026-02-02T02:40:00.000Z"}`, nil},
		"a chosen id":      {provider.EventRules{ID: "body:id"}, event, false, `{"id":5}`, `{"id":"e1"}`, nil},
		"a made-up id":     {provider.EventRules{ID: "body:id"}, sample.Event{ID: "e1", MadeUp: true}, false, `{"id":5}`, `{"id":9408042480953}`, nil},
		"no event":         {provider.EventRules{ID: "body:id", Type: "body:type", Time: "body:at"}, sample.Event{}, false, `{"id":"y","type":"x","at":1}`, `{"id":"y","type":"x","at":1}`, nil},
		"a type alone":     {provider.EventRules{ID: "body:id", Type: "body:type"}, sample.Event{Type: "t"}, false, `{"id":"y","type":"x"}`, `{"id":"y","type":"t"}`, nil},
		"the alternative":  {provider.EventRules{ID: "body:a.id | body:b.id"}, event, false, `{"b":{"id":"y"}}`, `{"b":{"id":"e1"}}`, nil},
		"an optional part": {provider.EventRules{ID: "body:id + body:more?"}, event, false, `{"id":"y"}`, `{"id":"e1"}`, nil},
		"parts":            {provider.EventRules{ID: "body:account + body:eventId"}, event, false, `{"account":7,"eventId":"y"}`, `{"account":7,"eventId":"e1"}`, nil},
		"a batch":          {provider.EventRules{ID: "item:id", Type: "item:type", Batch: "body:"}, event, false, `[{"id":"y","type":"x","a":1}]`, `[{"id":"e1","type":"t","a":1}]`, nil},
		"a nested batch":   {provider.EventRules{ID: "outer:id + item:id", Batch: "body:a[].b"}, event, false, `{"a":[{"id":"o","b":[{"id":"y"}]}]}`, `{"a":[{"id":"e1","b":[{"id":"y"}]}]}`, nil},
		"one":              {provider.EventRules{ID: "item:id", Batch: "body: | one"}, event, false, `{"id":"y"}`, `{"id":"e1"}`, nil},
		"a header":         {provider.EventRules{ID: "header:X-Id"}, event, false, `{"a":1}`, `{"a":1,"sample":"e1"}`, http.Header{"X-Id": {"e1"}}},
		"a unique model":   {provider.EventRules{ID: "header:X-Id"}, event, true, `{"a":1}`, `{"a":1}`, http.Header{"X-Id": {"e1"}}},
		"a digest":         {provider.EventRules{ID: "sha256:body"}, event, false, `{"a":1}`, `{"a":1,"sample":"e1"}`, nil},
		"a unique digest":  {provider.EventRules{ID: "sha256:body"}, event, true, `{"a":1}`, `{"a":1}`, nil},
		"a form":           {provider.EventRules{ID: "form:id", Type: "form:a | form:type"}, event, false, `id=y&type=x&z=1`, `id=e1&type=t&z=1`, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := sample.New(sample.Setup{Provider: provider.None, Event: tt.rules})
			if err != nil {
				t.Fatal(err)
			}
			req, err := s.Request(sample.Draft{Event: tt.event, Model: []byte(tt.model), Unique: tt.unique, Now: at})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.body, string(req.Body)); diff != "" {
				t.Errorf("body (-want +got):\n%s", diff)
			}
			for name := range tt.header {
				if got := req.Header.Get(name); got != tt.header.Get(name) {
					t.Errorf("header %s is %q", name, got)
				}
			}
		})
	}
	s, err := sample.New(sample.Setup{Provider: provider.SendGrid})
	if err != nil {
		t.Fatal(err)
	}
	for _, model := range []string{`{}`, `[]`, `no JSON`} {
		if _, err := s.Request(sample.Draft{Event: event, Model: []byte(model), Now: at}); err == nil {
			t.Errorf("%s is a model of SendGrid", model)
		}
	}
	if whole, err := s.Whole([]byte(`{"a":1}`)); err != nil || string(whole) != `[{"a":1}]` {
		t.Errorf("the whole body is %s, %v", whole, err)
	}
}
