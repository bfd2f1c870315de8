package locate

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// TestOpenTexts checks which texts are opened.
func TestOpenTexts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ doc, want string }{
		{`{}`, `{}`},
		{`{"a":"x","b":1}`, `{"a":"x","b":1}`},
		{`{"a":"{\"b\":\"[1,\\\"[2]\\\"]\"}"}`, `{"a":{"b":[1,[2]]}}`},
		{` [ "[]" , "{}" ] `, ` [ [] , {} ] `},
		{`"{\"a\":1}"`, `{"a":1}`},
		{`{"a":"\u007b\n\"b\":1}"}`, "{\"a\":{\n\"b\":1}}"},
		{`{"a":" [1] "}`, `{"a":[1]}`},
		{`{"[1]":"x","{}" : "[1]"}`, `{"[1]":"x","{}" : [1]}`},
		{`{"a":"1","b":"true","c":"null","d":"\"x\""}`, `{"a":"1","b":"true","c":"null","d":"\"x\""}`},
		{`{"a":"{\"b\":","c":"[1]x","d":"{1}"}`, `{"a":"{\"b\":","c":"[1]x","d":"{1}"}`},
		{`{"a":"[\"\ud800\"]"}`, `{"a":"[\"\ud800\"]"}`},
		{`{"a":"[\"\\ud800\"]"}`, `{"a":["\ud800"]}`},
		{`{"a":"{\"b\":1,\"b\":2}"}`, `{"a":{"b":1,"b":2}}`},
		{`{"a":""}`, `{"a":""}`},
	} {
		got, err := OpenTexts([]byte(c.doc))
		if err != nil || string(got) != c.want {
			t.Errorf("%s: got %s, %v; want %s", c.doc, got, err, c.want)
		}
	}
	for _, doc := range []string{"", "{", `{"a":"\x"}`, "[1]]", "{\"a\":\"\xff\"}"} {
		if got, err := OpenTexts([]byte(doc)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: got %q, %v", doc, got, err)
		}
	}
}

// TestOpenTextsDepth checks that 8 texts inside each other are opened, and the ninth stays.
func TestOpenTextsDepth(t *testing.T) {
	t.Parallel()
	doc := `{"a":1}`
	for range maxOpen + 1 {
		text, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		doc = `{"a":` + string(text) + `}`
	}
	got, err := OpenTexts([]byte(doc))
	want := strings.Repeat(`{"a":`, maxOpen+1) + `"{\"a\":1}"` + strings.Repeat("}", maxOpen+1)
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
}

// FuzzOpenTexts checks that the result is valid JSON, and that encoding/json reads it like the
// original, except for opened texts.
func FuzzOpenTexts(f *testing.F) {
	for _, seed := range []string{
		`{"a":"{\"b\":\"[1,\\\"[2]\\\"]\"}"}`, ` [ "[]" , "{}" ] `, `{"a":"\u007b\n\"b\":1}"}`, `{"[1]":"x","{}" : "[1]"}`,
		`{"a":"[\"\ud800\"]"}`, `"[\"a\",1e9]"`, `{"a":"{\"b\":","c":"[1]x"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		got, err := OpenTexts(doc)
		if err != nil {
			if json.Valid(doc) && scan(doc, nil) == nil {
				t.Fatalf("valid, but refused: %v", err)
			}
			return
		}
		if err := scan(got, nil); err != nil && len(got) < maxDepth {
			t.Fatalf("%s became %s: %v", doc, got, err)
		}
		if again, err := OpenTexts(got); err == nil && len(again) > len(got) {
			t.Fatalf("%s grew to %s", got, again)
		}
		if len(got) > len(doc) {
			t.Fatalf("%s grew to %s", doc, got)
		}
		var before, after any
		if json.Unmarshal(doc, &before) == nil && json.Unmarshal(got, &after) == nil && !sameOpened(before, after) {
			t.Fatalf("%s became %s", doc, got)
		}
	})
}

// sameOpened reports whether after is before with some texts opened.
func sameOpened(before, after any) bool {
	switch b := before.(type) {
	case map[string]any:
		a, ok := after.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for key, value := range b {
			if inner, ok := a[key]; !ok || !sameOpened(value, inner) {
				return false
			}
		}
		return true
	case []any:
		a, ok := after.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range b {
			if !sameOpened(b[i], a[i]) {
				return false
			}
		}
		return true
	case string:
		if a, ok := after.(string); ok {
			return a == b
		}
		var inner any
		return json.Unmarshal([]byte(b), &inner) == nil && sameOpened(inner, after)
	}
	return before == after
}
