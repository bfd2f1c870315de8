package sample_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/internal/sample"
	"github.com/hookonce/hookonce/provider"
	"github.com/hookonce/hookonce/verify"
)

// TestBodies checks that the event's fields are where the rules say, in bodies of every form.
func TestBodies(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_760_000_000, 0)
	tests := map[string]struct {
		rules       provider.EventRules
		id, typ     string
		body, query string
		header      http.Header
	}{
		"an object":        {rules: provider.EventRules{ID: "body:data.id", Type: "body:type"}, id: "e1", typ: "a", body: `{"data":{"id":"e1"},"type":"a"}`},
		"an index":         {rules: provider.EventRules{ID: "body:list.1.id"}, id: "e1", body: `{"list":[null,{"id":"e1"}]}`},
		"every element":    {rules: provider.EventRules{ID: "body:list[].id"}, id: "e1", body: `{"list":[{"id":"e1"}]}`},
		"the first":        {rules: provider.EventRules{ID: "body:a | body:b"}, id: "e1", body: `{"a":"e1"}`},
		"a dot in a name":  {rules: provider.EventRules{ID: `body:a\.b`}, id: "e1", body: `{"a.b":"e1"}`},
		"parts":            {rules: provider.EventRules{ID: "body:a + body:b?"}, id: "e1:2", body: `{"a":"e1","b":"2"}`},
		"one part missing": {rules: provider.EventRules{ID: "body:type + body:a + body:b", Type: "body:type"}, id: "e1", typ: "t", body: `{"a":"e1","b":"1","type":"t"}`},
		"the type alone":   {rules: provider.EventRules{ID: "body:type", Type: "body:type"}, id: "e1", typ: "t", body: `{"type":"e1"}`},
		"a constant":       {rules: provider.EventRules{ID: "body:a", Type: "const:push"}, id: "e1", typ: "t", body: `{"a":"e1"}`},
		"a time":           {rules: provider.EventRules{ID: "body:a", Time: "body:b"}, id: "e1", body: `{"a":"e1","b":"2025-10-09T08:53:20Z"}`},
		"a digest":         {rules: provider.EventRules{ID: "sha256:body"}, id: "e1", body: `{"sample":"e1"}`},
		"a header":         {rules: provider.EventRules{ID: "header:X-Id", Type: "header:X-Type"}, id: "e1", typ: "t", body: `{"sample":"e1"}`, header: http.Header{"X-Id": {"e1"}, "X-Type": {"t"}}},
		"the query":        {rules: provider.EventRules{ID: "query:a b"}, id: "e&1", body: `{"sample":"e\u00261"}`, query: "x=1&a+b=e%261"},
		"a form":           {rules: provider.EventRules{ID: "form:id", Type: "form:type"}, id: "e1", typ: "t", body: "id=e1&type=t"},
		"a digest form":    {rules: provider.EventRules{ID: "sha256:body", Type: "form:type"}, id: "e1", typ: "t", body: "sample=e1&type=t"},
		"digests":          {rules: provider.EventRules{ID: "sha256:form:a + sha256:form:b | sha256:form:c"}, id: "e1:2", body: "a=e1&b=2"},
		"a batch":          {rules: provider.EventRules{ID: "item:id", Type: "body:type", Batch: "body:list"}, id: "e1", typ: "t", body: `{"list":[{"id":"e1"}],"type":"t"}`},
		"a batch of all":   {rules: provider.EventRules{ID: "sha256:item", Batch: "body: | one"}, id: "e1", body: `[{"sample":"e1"}]`},
		"texts":            {rules: provider.EventRules{ID: "item:", Batch: "body:a[].b"}, id: "e1", body: `{"a":[{"b":["e1"]}]}`},
		"fields around":    {rules: provider.EventRules{ID: "outer:id + outer:at.0 + item:id", Type: "outer:type", Batch: "body:a[].b[].c | body:d"}, id: "e1:2:3", typ: "t", body: `{"a":[{"b":[{"at":["2"],"c":[{"id":"3"}],"id":"e1","type":"t"}]}]}`},
		"no outer field":   {rules: provider.EventRules{ID: "item:id", Type: "outer:type", Batch: "body:d | body:a[].b"}, id: "e1", typ: "t", body: `{"d":[{"id":"e1"}]}`},
		"one of a batch":   {rules: provider.EventRules{ID: "item:id", Type: "body:type", Batch: "body: | one"}, id: "e1", typ: "t", body: `{"id":"e1","type":"t"}`},
		"JSON in a form":   {rules: provider.EventRules{ID: "item:id", Batch: "body:", Document: "form:f"}, id: "e1", body: "f=%5B%7B%22id%22%3A%22e1%22%7D%5D"},
		"XML": {
			rules: provider.EventRules{ID: "body:r.@id + body:r.a.b", Type: "body:r.a.#text", Document: "xml"}, id: "e1:2", typ: "t<",
			body: `<?xml version="1.0" encoding="UTF-8"?>` + "\n" + `<r id="e1"><a>t&lt;<b>2</b></a></r>`,
		},
		"a digest of XML": {
			rules: provider.EventRules{ID: "sha256:body", Type: "body:r.a", Document: "xml"}, id: "e1", typ: "t",
			body: `<?xml version="1.0" encoding="UTF-8"?>` + "\n" + `<r><a>t</a><sample>e1</sample></r>`,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := sample.New(sample.Setup{Provider: provider.None, Event: tt.rules})
			if err != nil {
				t.Fatal(err)
			}
			query := ""
			if tt.query != "" {
				query = "x=1"
			}
			req, err := s.Request(sample.Draft{Event: sample.Event{ID: tt.id, Type: tt.typ, Time: at}, RawQuery: query})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.body, string(req.Body)); diff != "" {
				t.Errorf("body (-want +got):\n%s", diff)
			}
			for name := range tt.header {
				if got := req.Header.Get(name); got != tt.header.Get(name) {
					t.Errorf("header %s is %q, want %q", name, got, tt.header.Get(name))
				}
			}
			if req.RawQuery != tt.query {
				t.Errorf("query %q, want %q", req.RawQuery, tt.query)
			}
			if got, bad := events(t, s, req); len(got) != 1 || len(bad) != 0 {
				t.Errorf("%d events and the malformed ones %v, want 1 event", len(got), bad)
			}
		})
	}
}

// TestRefuses checks that an impossible request is an error, and not a request with other content.
func TestRefuses(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		setup sample.Setup
		want  string
	}{
		"provider":     {sample.Setup{Provider: "gitub"}, "did you mean github"},
		"scheme":       {sample.Setup{Provider: provider.GitHub, Scheme: "x"}, `no scheme "x"`},
		"no signature": {sample.Setup{Provider: provider.HMAC}, "signature"},
		"signature":    {sample.Setup{Provider: provider.GitHub, Signature: &verify.Scheme{}}, "has its own schemes"},
		"parameter":    {sample.Setup{Provider: provider.GitHub, Params: map[string]string{"a": "b"}}, "params.a"},
		"two roots":    {sample.Setup{Provider: provider.None, Event: provider.EventRules{ID: "body:a.b", Type: "body:c.d", Document: "xml"}}, "several root elements"},
		"no root":      {sample.Setup{Provider: provider.None, Event: provider.EventRules{ID: "item:b", Batch: "body:", Document: "xml"}}, "do not name an element"},
		"in the way":   {sample.Setup{Provider: provider.None, Event: provider.EventRules{ID: "body:a", Type: "body:a.b"}}, `one field of the event is at "a.b"`},
		"far":          {sample.Setup{Provider: provider.None, Event: provider.EventRules{ID: "body:a.0", Type: "body:a.b"}}, `another one above it`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := sample.New(tt.setup)
			if err == nil {
				_, err = s.Request(sample.Draft{Event: sample.Event{ID: "e1", Type: "t"}})
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got the error %v, want it to contain %q", err, tt.want)
			}
		})
	}
}

// TestCorrupt checks, for every scheme, that Corrupt changes exactly one byte and that this breaks
// the signature.
func TestCorrupt(t *testing.T) {
	each(t, func(t *testing.T, s *sample.Sender, key verify.Key) {
		if !s.Verifier.NeedsKeys() {
			return
		}
		req := signed(t, s, key, sample.Event{ID: "evt_1", Type: "a", Time: now})
		before := map[string]string{"body": string(req.Body), "query": req.RawQuery}
		for name := range req.Header {
			before[name] = req.Header.Get(name)
		}
		if err := s.Corrupt(req, key); err != nil {
			t.Fatal(err)
		}
		if err := s.Verifier.Verify(req, []verify.Key{key}); err == nil {
			t.Error("the changed request still verifies")
		}
		after := map[string]string{"body": string(req.Body), "query": req.RawQuery}
		for name := range req.Header {
			after[name] = req.Header.Get(name)
		}
		changed := 0
		for name, text := range before {
			if len(text) != len(after[name]) {
				t.Fatalf("%s has a different length", name)
			}
			for i := range text {
				if text[i] != after[name][i] {
					changed++
				}
			}
		}
		if changed != 1 {
			t.Errorf("%d bytes changed, want 1", changed)
		}
	})
}
