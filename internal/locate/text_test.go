package locate

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func mustPath(t testing.TB, s string) Path {
	t.Helper()
	p, err := ParsePath(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestTexts checks the values read as text, whose length has no limit, unlike that of ids.
func TestTexts(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é\n", 10_000)
	quoted, err := json.Marshal(long)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, doc, path, want string }{
		{"string", `{"a":"b"}`, "a", "b"},
		{"escapes", `{"a":"\u0062\/\n\ud83d\ude00"}`, "a", "b/\n😀"},
		{"a long one", `{"a":` + string(quoted) + `}`, "a", long},
		{"empty", `{"a":""}`, "a", ""},
		{"number", `{"a":{"b":1.50}}`, "a.b", "1.50"},
		{"bool", `{"a":[true]}`, "a.0", "true"},
		{"null", `{"a":null}`, "a", "absent"},
		{"nothing", `{"b":1}`, "a", "absent"},
		{"object", `{"a":{}}`, "a", "malformed"},
		{"array", `{"a":[]}`, "a", "malformed"},
		{"twice", `{"a":"b","a":"b"}`, "a", "malformed"},
		{"half of a character", `{"a":"\ud83d"}`, "a", "malformed"},
		{"no document", `a=b`, "a", "malformed"},
		{"nothing at all", ``, "a", "malformed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			texts, err := Texts([]byte(c.doc), mustPath(t, c.path), mustPath(t, "other"))
			got := "malformed"
			switch {
			case err != nil && !errors.Is(err, ErrMalformed):
				t.Fatal(err)
			case err == nil && !texts[0].Present:
				got = "absent"
			case err == nil:
				got = texts[0].Text
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestSetText checks the new value, and that the rest stays as written.
func TestSetText(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, doc, path, want string }{
		{"in an empty object", `{}`, "a", `{"a":"x"}`},
		{"in an object with blanks", ` { } `, "a", ` {"a":"x" } `},
		{"before another", `{"b": 1.0}`, "a", `{"a":"x","b": 1.0}`},
		{"over a text", `{"a":"old","b":1}`, "a", `{"a":"x","b":1}`},
		{"over null", `{"a":null}`, "a", `{"a":"x"}`},
		{"over an object", `{"a":{"b":1}}`, "a", `{"a":"x"}`},
		{"deeper", `{"a":{"b":1}}`, "a.c", `{"a":{"c":"x","b":1}}`},
		{"where objects are missing", `{"b":1}`, "a.c.d", `{"a":{"c":{"d":"x"}},"b":1}`},
		{"in an element", `[{"a":1},{}]`, "1.a", `[{"a":1},{"a":"x"}]`},
		{"in an element that is missing", `[{"a":1}]`, "1.a", ""},
		{"within a text", `{"a":"b"}`, "a.c", ""},
		{"in no document", `a=b`, "a", ""},
		{"under a key that occurs twice", `{"a":1,"a":2}`, "a", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			before := c.doc
			got, err := SetText([]byte(c.doc), mustPath(t, c.path), "x")
			if (err == nil) != (c.want != "") || string(got) != c.want {
				t.Errorf("got %s, %v; want %s", got, err, c.want)
			}
			if c.doc != before {
				t.Error("the given document was changed")
			}
		})
	}
}

// TestSetIsRead checks that Texts reads the text that SetText wrote.
func TestSetIsRead(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		doc, err := json.Marshal(rapid.MapOf(rapid.StringMatching(`[a-c]`), rapid.StringMatching(`[a"\\]{0,3}`)).Draw(t, "doc"))
		if err != nil {
			t.Fatal(err)
		}
		path, err := ParsePath(rapid.StringMatching(`[d-f](\.[a-c]){0,2}|[a-c]`).Draw(t, "path"))
		if err != nil {
			t.Fatal(err)
		}
		text := rapid.String().Draw(t, "text")
		doc, err = SetText(doc, path, text)
		if err != nil {
			t.Fatal(err)
		}
		texts, err := Texts(doc, path)
		if diff := cmp.Diff([]Text{{text, true}}, texts); err != nil || diff != "" {
			t.Fatalf("%v (-want +got):\n%s", err, diff)
		}
	})
}
