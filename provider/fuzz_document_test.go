package provider

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"net/url"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/internal/locate"
)

// fuzzDocument checks that a body always gives the same document, and that the events in it have
// usable ids and bodies. It returns the document.
func fuzzDocument(t *testing.T, document string, body []byte) []byte {
	t.Helper()
	for _, rules := range []EventRules{
		{ID: "body:a.id | sha256:body", Type: "body:a[].b | const:none", Time: "body:a.c", Document: document},
		{ID: "item:id + item:n[].m? | sha256:item", Type: "item:b", Document: document, Batch: "body:a[].b | body:a.d | body: | one"},
		{ID: "outer:id + outer:c? + sha256:item | sha256:item", Type: "outer:d", Time: "outer:id", Document: document, Batch: "body:a[].b | body: | one"},
	} {
		x := mustRules(t, rules)
		in := &locate.Input{Body: body}
		events, bad := x.Extract(in)
		if again, badAgain := x.Extract(in); !cmp.Equal(events, again) || !cmp.Equal(bad, badAgain) {
			t.Fatalf("%q: %v and then %v", body, events, again)
		}
		for _, e := range events {
			if len(e.IDParts) == 0 || e.ID == "" || !utf8.ValidString(e.ID) || !utf8.ValidString(e.Type) {
				t.Fatalf("%q: %+v", body, e)
			}
			if x.Batch() && !json.Valid(e.Body) {
				t.Fatalf("%q: item %s is not JSON", body, e.Body)
			}
		}
		for _, m := range bad {
			if m.Reason == "" || m.Body == nil && len(body) > 0 {
				t.Fatalf("%q: %+v", body, m)
			}
		}
	}
	doc, err := mustRules(t, EventRules{ID: "header:X", Document: document}).Document(body)
	if err != nil && (!errors.Is(err, locate.ErrMalformed) || errors.Is(err, locate.ErrAbsent) || doc != nil) {
		t.Fatalf("%q: %q, %v", body, doc, err)
	}
	return doc
}

// FuzzXML also checks that a document becomes valid JSON with all its text.
func FuzzXML(f *testing.F) {
	for _, seed := range []string{
		`<?xml version="1.0"?><a x="1"><b>2</b><b><c/></b></a>`, "<a> x <b/><![CDATA[<]]>&amp;&#65;</a>", `<!DOCTYPE a><a/>`, "<a><b></a>",
		`<s:a xmlns:s="u" s:id="1" id="2"><s:b>7</s:b></s:a>`, "<a>\ufffd&#xD800;</a>", "\ufeff<a/>", "<a><d><id>1</id></d><d/></a>",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		doc := fuzzDocument(t, "xml", body)
		if doc == nil {
			return
		}
		if !json.Valid(doc) || !utf8.Valid(doc) {
			t.Fatalf("%q became %q", body, doc)
		}
		var value any
		if err := json.Unmarshal(doc, &value); err != nil {
			t.Fatal(err)
		}
		if got, want := jsonText(value), xmlText(t, body); got != want {
			t.Fatalf("%q became %s: %d bytes of text, want %d", body, doc, got, want)
		}
	})
}

// jsonText counts the bytes of text in a document, without blanks.
func jsonText(value any) int {
	n := 0
	switch v := value.(type) {
	case string:
		return countText([]byte(v))
	case []any:
		for _, inner := range v {
			n += jsonText(inner)
		}
	case map[string]any:
		for _, inner := range v {
			n += jsonText(inner)
		}
	}
	return n
}

func xmlText(t *testing.T, body []byte) int {
	t.Helper()
	n := 0
	dec := xml.NewDecoder(bytes.NewReader(bytes.TrimPrefix(body, []byte("\ufeff"))))
	for {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return n
		}
		if err != nil {
			t.Fatalf("%q was accepted: %v", body, err)
		}
		switch v := token.(type) {
		case xml.CharData:
			n += countText(v)
		case xml.StartElement:
			for _, a := range v.Attr {
				if a.Name.Space != "xmlns" && (a.Name.Space != "" || a.Name.Local != "xmlns") {
					n += countText([]byte(a.Value))
				}
			}
		case xml.Directive:
			t.Fatalf("%q was accepted", body)
		}
	}
}

func countText(b []byte) int { return len(bytes.Join(bytes.Fields(b), nil)) }

// FuzzForm also checks that a field becomes the document only if net/url finds it exactly once.
func FuzzForm(f *testing.F) {
	for _, seed := range []string{`p=%7B%22a%22%3A1%7D&x=1`, "p=1&p=2", "%70=[]", "p=%zz", "", "p", "p=PGEvPgo%3D%0A"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if len(body) > 0 {
			fuzzDocument(t, "form_xml:p", body)
		}
		doc := fuzzDocument(t, "form:p", body)
		values, err := url.ParseQuery(string(body))
		switch {
		case doc != nil && bytes.IndexByte(body, ';') >= 0: // net/url refuses ';'
		case doc != nil && (err != nil || len(values["p"]) != 1 || values["p"][0] != string(doc)):
			t.Fatalf("%q became %q, want %q", body, doc, values["p"])
		case doc == nil && err == nil && len(values["p"]) == 1 && values["p"][0] != "":
			t.Fatalf("%q was refused", body)
		}
	})
}

// FuzzJWT also checks that the claims are those of the token.
func FuzzJWT(f *testing.F) {
	for _, seed := range []string{`{"a":"{\"id\":1}"}`, `{"a":{"d":"[1,\"x\"]"}}`, `[]`, "", `"x"`, `{"a":1}x`} {
		f.Add([]byte(jwt(seed)), []byte(seed))
	}
	f.Fuzz(func(t *testing.T, body, payload []byte) {
		fuzzDocument(t, "jwt", body)
		token := []byte(jwt(string(payload)))
		doc := fuzzDocument(t, "jwt", token)
		want, err := locate.OpenTexts(payload)
		if (doc == nil) != (err != nil) || !bytes.Equal(doc, want) {
			t.Fatalf("%q became %q, want %q (%v)", payload, doc, want, err)
		}
	})
}
