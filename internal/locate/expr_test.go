package locate

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   string
		want []string
	}{
		{"header:x-github-delivery", []string{"header:X-Github-Delivery"}},
		{"header:Stripe-Signature#t", []string{"header:Stripe-Signature#t"}},
		{"body:data.object.id", []string{"body:data.object.id"}},
		{"body:data.0.id", []string{"body:data.0.id"}},
		{`body:a\.b.c`, []string{`body:a\.b.c`}},
		{"item:id", []string{"item:id"}},
		{"outer:a.b? + item:id", []string{"outer:a.b?", "item:id"}},
		{"form:MessageSid", []string{"form:MessageSid"}},
		{"query:id", []string{"query:id"}},
		{"  body:id  ", []string{"body:id"}},
		{"header:webhook-id | header:svix-id", []string{"header:Webhook-Id", "header:Svix-Id"}},
		{"body:a+body:b|body:c", []string{"body:a", "body:b", "body:c"}},
		{`form:a\+b\|c\\d + query:e`, []string{`form:a+b|c\d`, "query:e"}},
		{"body:a b", []string{"body:a b"}},
		{"body:a:b", []string{"body:a:b"}},
		{"body:", []string{"body:"}},
		{"item: + header:x?", []string{"item:", "header:X?"}},
		{"body:a[].b[ + item:c?", []string{"body:a[].b[", "item:c?"}},
		{"body:a[].b + body:a[].c.d", []string{"body:a[].b", "body:a[].c.d"}},
		{"body:a[].b | body:c[].d", []string{"body:a[].b", "body:c[].d"}},
		{"sha256:form:a? + sha256:body", []string{"sha256:form:a?", "sha256:body"}},
		{"sha256:body + sha256:item?", []string{"sha256:body", "sha256:item?"}},
		{"form:a[] + form:b[c]", []string{"form:a[]", "form:b[c]"}},
		{`form:a\?b?`, []string{"form:a?b?"}},
	} {
		e, err := Parse(c.in)
		if err != nil {
			t.Errorf("%s: %v", c.in, err)
			continue
		}
		var got []string
		for _, r := range e.Refs() {
			got = append(got, r.String())
		}
		if diff := cmp.Diff(c.want, got); diff != "" || e.String() != c.in {
			t.Errorf("%s: %s", c.in, diff)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, names string }{
		{"", "empty"},
		{" \t", "empty"},
		{"id", `"id" has no kind`},
		{"form:", `"form:" needs a name`},
		{"const:", `"const:" needs a name`},
		{"const:a", "only event.type"},
		{"body:id + const:a", "only event.type"},
		{"sha256:header", "sha256:body, sha256:item or sha256:form:field"},
		{"sha256:form:", "sha256:form:field"},
		{"sha256:", `"sha256:" needs a name`},
		{"body:a[].b[].c", "more than one array"},
		{"body:a[].b + body:c[].d", "two different arrays"},
		{"body:a[].b + item:a[].b", "two different arrays"},
		{"body:a[][].b", "a[].[]"},
		{"body:a[].", "segment 2"},
		{"body:" + strings.Repeat("a[].", 4) + "a[]", "4 arrays"},
		{`body:a\[\]`, `\`},
		{"header:?", "needs a name"},
		{"header:", `"header:" needs a name`},
		{"bdy:id", `"bdy"`},
		{"Body:id", `"Body"`},
		{" :id", `kind ""`},
		{"body:id |", "needs a location"},
		{"| body:id", "needs a location"},
		{"body:id + + body:b", "needs a location"},
		{"body:a..b", "segment 2"},
		{"body:.a", "segment 1"},
		{"body:a.", "segment 2"},
		{"body:ok | item:a..b", `"item:a..b"`},
		{`body:a\`, `\`},
		{`body:a\x`, `\`},
		{`form:a\x`, `\`},
		{"header:X Y", `"X Y"`},
		{"header:X-Ä", "X-Ä"},
		{"header:#t", `""`},
		{"header:X#", "not a key"},
		{"header:X#a=b", "not a key"},
		{"header:X#a,b", "not a key"},
		{`header:X\`, `\`},
		{"body:" + strings.Repeat("a.", 64) + "a", "64 segments"},
		{"body:" + strings.Repeat("a", 1024), "1024 bytes"},
		{strings.Repeat("body:a|", 8) + "body:a", "8 alternatives"},
		{strings.Repeat("body:a+", 8) + "body:a", "8 parts"},
	} {
		_, err := Parse(c.in)
		if err == nil || !strings.Contains(err.Error(), c.names) {
			t.Errorf("%q: got %v, want an error with %s", c.in, err, c.names)
		}
	}
}

func TestParseType(t *testing.T) {
	t.Parallel()
	for _, c := range []string{"const:a", "const:a + body:b", "body:a | const:b"} {
		if e, err := ParseType(c); err != nil || e.String() != c {
			t.Errorf("%s: %v", c, err)
		}
	}
	if _, err := ParseType("const:a?"); err == nil || !strings.Contains(err.Error(), "remove the '?'") {
		t.Errorf("got %v", err)
	}
}

func TestUses(t *testing.T) {
	t.Parallel()
	e := mustParse(t, "header:a + item:b | item:c")
	if !e.Uses(Header) || !e.Uses(Item) || e.Uses(Body) || !e.DiffersByItem() {
		t.Errorf("%s: wrong kinds", e)
	}
	for at, want := range map[string]bool{
		"item:b | body:c":           false,
		"item:b? + body:c":          false,
		"item:b? + item:c?":         true,
		"item:b? + item:c + body:d": true,
		"sha256:item":               true,
		"sha256:body":               false,
		"item:a[].b + sha256:body":  true,
	} {
		if mustParse(t, at).DiffersByItem() != want {
			t.Errorf("%s: want %t", at, want)
		}
	}
	if e := mustParse(t, "sha256:item"); !e.Uses(Item) || e.Uses(Body) {
		t.Error("a sum of the item does not look into the item")
	}
}

func mustParse(t testing.TB, s string) *Expr {
	t.Helper()
	e, err := Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return e
}
