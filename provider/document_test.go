package provider

import (
	"encoding/base64"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/internal/locate"
)

func form(pairs ...string) string {
	var out []string
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, url.QueryEscape(pairs[i])+"="+url.QueryEscape(pairs[i+1]))
	}
	return strings.Join(out, "&")
}

// lines encodes base64 as in mails: with a line break every 60 characters and at the end.
func lines(text string) string {
	encoded := base64.StdEncoding.EncodeToString([]byte(text))
	var b strings.Builder
	for len(encoded) > 60 {
		b.WriteString(encoded[:60] + "\n")
		encoded = encoded[60:]
	}
	return b.String() + encoded + "\n"
}

func jwt(claims string) string {
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(`{"alg":"RS256"}`)) + "." + encode([]byte(claims)) + "." + encode([]byte("signature"))
}

// TestDocument checks the document of each kind for a body, and the refused bodies.
func TestDocument(t *testing.T) {
	t.Parallel()
	long := `<a>` + strings.Repeat("x", 100) + `</a>`
	for _, c := range []struct{ name, rule, body, want, fault string }{
		{"none", "", "anything", "anything", ""},
		{"none, a byte order mark", "", "\ufeff{}", "{}", ""},
		{"form, a byte order mark", "form:payload", form("payload", "\ufeff{}"), "{}", ""},
		{"form", "form:payload", form("x", "1", "payload", `{"a": "é+"}`), `{"a": "é+"}`, ""},
		{"form, no JSON", "form:payload", form("payload", "x"), "x", ""},
		{"form, no field", "form:payload", form("x", "1"), "", "absent"},
		{"form, empty body", "form:payload", "", "", "absent"},
		{"form, field twice", "form:payload", "payload=1&payload=2", "", "more than once"},
		{"form, not a form", "form:payload", "payload=%zz", "", "urlencoded"},
		{"form, multipart", "form:payload", "--b\r\nContent-Disposition: form-data; name=payload\r\n\r\n{}\r\n--b--", "{}", ""},
		{"form, multipart twice", "form:a", strings.Repeat("--b\r\nContent-Disposition: form-data; name=a\r\n\r\n1\r\n", 2) + "--b--", "", "more than once"},
		{"form, brackets", "form:a[b]", form("a[b]", "[1]"), "[1]", ""},
		{"xml", "xml", "<a>1</a>\n", `{"a":"1"}`, ""},
		{"xml, broken", "xml", "<a>", "", "not valid XML"},
		{"form_xml", "form_xml:p", form("s", "x", "p", lines(long)), `{"a":"` + strings.Repeat("x", 100) + `"}`, ""},
		{"form_xml, one line", "form_xml:p", form("p", strings.ReplaceAll(lines(long), "\n", "")), `{"a":"` + strings.Repeat("x", 100) + `"}`, ""},
		{"form_xml, no base64", "form_xml:p", form("p", "<a/>"), "", "base64"},
		{"form_xml, loose base64", "form_xml:p", form("p", "PGEvPk=="), "", "base64"},
		{"form_xml, no XML", "form_xml:p", form("p", lines("{}")), "", "not valid XML"},
		{"form_xml, no field", "form_xml:p", form("s", "x"), "", "absent"},
		{"jwt", "jwt", jwt(`{"a":"{\"b\":1}"}`), `{"a":{"b":1}}`, ""},
		{"jwt, trailing line break", "jwt", jwt(`{"a":1}`) + "\n", `{"a":1}`, ""},
		{"jwt, two parts", "jwt", "e30.e30", "", "three parts"},
		{"jwt, JSON", "jwt", `{"a":1}`, "", "three parts"},
		{"jwt, no base64", "jwt", "e30.{}.x", "", "base64url"},
		{"jwt, padded", "jwt", "e30.e30=.x", "", "base64url"},
		{"jwt, line break in it", "jwt", "e30.e3\n0.x", "", "base64url"},
		{"jwt, loose base64", "jwt", "e30.e31.x", "", "base64url"},
		{"jwt, no JSON", "jwt", jwt(`{"canary"`), "", "JSON"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			x := mustRules(t, EventRules{ID: "header:X", Document: c.rule})
			got, err := x.Document([]byte(c.body))
			switch {
			case c.fault == "" && (err != nil || string(got) != c.want):
				t.Errorf("got %s, %v; want %s", got, err, c.want)
			case c.fault != "" && (!errors.Is(err, locate.ErrMalformed) || errors.Is(err, locate.ErrAbsent) || !strings.Contains(err.Error(), c.fault) || got != nil):
				t.Errorf("got %s, %v; want an error that holds %s", got, err, c.fault)
			}
			if x.HasDocument() != (c.rule != "") || x.Batch() {
				t.Error("HasDocument or Batch is wrong")
			}
			if err != nil && strings.Contains(err.Error(), "canary") {
				t.Errorf("%v holds a value", err)
			}
		})
	}
}

// TestDocumentRules checks the fields that each kind of document allows.
func TestDocumentRules(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rules EventRules
		field string // the faulty field; "" if there is no fault
		text  string
	}{
		{EventRules{ID: "form:id", Document: "form:payload"}, "", ""},
		{EventRules{ID: "form:t + item:id", Document: "form:payload", Batch: "body:"}, "", ""},
		{EventRules{ID: "form:id", Document: "form_xml:payload"}, "", ""},
		{EventRules{ID: "form:id", Document: "xml"}, "event.id", "the body is xml"},
		{EventRules{ID: "body:id", Type: "form:id", Document: "jwt"}, "event.type", "the body is jwt"},
		{EventRules{ID: "body:id", Document: "form:"}, "event.document", "no field"},
		{EventRules{ID: "body:id", Document: "form"}, "event.document", "no field"},
		{EventRules{ID: "body:id", Document: "xml:a"}, "event.document", "leave out"},
		{EventRules{ID: "body:id", Document: "yaml"}, "event.document", "unknown"},
		{EventRules{ID: "body:id", Type: "const:ping"}, "", ""},
		{EventRules{ID: "body:id", Time: "const:ping"}, "event.time", "event.type"},
		{EventRules{ID: "const:ping", Type: "const:ping"}, "event.id", "event.type"},
		{EventRules{ID: "sha256:item"}, "event.id", "event.batch"},
		{EventRules{ID: "sha256:body", Batch: "body:"}, "event.id", "same for all items"},
		{EventRules{ID: "sha256:body + item:id?", Batch: "body:"}, "event.id", "same for all items"},
		{EventRules{ID: "sha256:item", Batch: "body: | one"}, "", ""},
	} {
		_, err := CompileRules(c.rules)
		var fault *RuleError
		switch {
		case c.field == "" && err != nil:
			t.Errorf("%+v: %v", c.rules, err)
		case c.field != "" && (!errors.As(err, &fault) || fault.Field != c.field || !strings.Contains(err.Error(), c.text)):
			t.Errorf("%+v: got %v, want a fault of %s that holds %s", c.rules, err, c.field, c.text)
		}
	}
}

// TestStoredDocument checks that a stored body gives the same values as the received one.
func TestStoredDocument(t *testing.T) {
	t.Parallel()
	const soap = `<e><n><id>1</id><v x="y">7</v></n><n><id>2</id><v>8</v></n></e>`
	for _, c := range []struct {
		rules          EventRules
		body, location string
		want           []string
	}{
		{EventRules{ID: "body:id"}, `{"id":1,"v":7}`, "body:v", []string{"7"}},
		{EventRules{ID: "item:id", Batch: "body:"}, `[{"id":1,"v":7},{"id":2,"v":8}]`, "item:v", []string{"7", "8"}},
		{EventRules{ID: "body:id", Document: "form:p"}, form("p", `{"id":1,"v":7}`, "f", "x"), "form:f + body:v", []string{"x:7"}},
		{EventRules{ID: "body:e.n[].id", Document: "xml"}, soap, "body:e.n.0.v", []string{"7"}},
		{EventRules{ID: "item:id", Document: "xml", Batch: "body:e.n"}, soap, "item:v", []string{"7", "8"}},
		{EventRules{ID: "body:id", Document: "jwt"}, jwt(`{"id":1,"d":"{\"v\":7}"}`), "body:d.v", []string{"7"}},
	} {
		x := mustRules(t, c.rules)
		expr, err := (&Spec{Event: c.rules}).ParseStored(c.location, x.Batch())
		if err != nil {
			t.Fatal(err)
		}
		events, bad := x.Extract(&locate.Input{Body: []byte(c.body)})
		if len(events) != len(c.want) || len(bad) > 0 {
			t.Fatalf("%s: %+v %+v", c.body, events, bad)
		}
		for i, e := range events {
			value, err := expr.Eval(x.Stored(nil, e.Body))
			if err != nil || value.Shown() != c.want[i] {
				t.Errorf("%s in event %d of %s: got %q, %v; want %s", c.location, i, c.body, value.Parts, err, c.want[i])
			}
		}
	}
	x := mustRules(t, EventRules{ID: "header:X", Document: "xml"})
	if _, err := mustExpr(t, "body:a").Eval(x.Stored(nil, []byte("<a>"))); !errors.Is(err, locate.ErrMalformed) {
		t.Errorf("a broken document: %v", err)
	}
}

func mustExpr(t testing.TB, at string) *locate.Expr {
	t.Helper()
	e, err := locate.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	return e
}
