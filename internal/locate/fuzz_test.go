package locate

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"
)

// FuzzDocument compares the scanner with encoding/json: except for invalid UTF-8, both accept the
// same documents, and except for ambiguous paths, both find the same values.
func FuzzDocument(f *testing.F) {
	for _, seed := range []string{
		`{"id":"evt_1","a":{"b":[1,2.5e-3,"x"]}}`, `[{"id":1},[],{}]`, `{"\u0069d":"a","id":"\ud83d\ude00"}`,
		`{"id":"a"}{"id":"b"}`, `{"id":-0,"a":null}`, ` [1 , true ] `, `{"a":{"b":"x"},"a":{}}`, "\ufeff{}", `"\ud800"`,
		`{"id":01}`, `{"id":"a",}`, "{\"id\":\"\xff\"}", `{"a":{"b":{"id":"c"},"id":[[]]}}`, `{"0":["a",{"0":1}]}`, "nul", "-",
	} {
		for path := range uint8(len(fuzzPaths)) {
			f.Add([]byte(seed), path)
		}
	}
	f.Fuzz(func(t *testing.T, doc []byte, n uint8) {
		text := fuzzPaths[int(n)%len(fuzzPaths)]
		path, err := ParsePath(text)
		if err != nil {
			t.Fatal(err)
		}
		hits := []hit{{path: path.segs}}
		err = scan(doc, hits)
		valid := json.Valid(Unmarked(doc)) // encoding/json refuses a byte order mark
		if want := valid && utf8.Valid(doc); (err == nil) != want {
			t.Fatalf("scan: %v; encoding/json finds it valid: %t, UTF-8: %t", err, valid, utf8.Valid(doc))
		}
		if err != nil {
			return
		}
		want, ambiguous := lookUp(doc, path.segs)
		h := hits[0]
		switch {
		case ambiguous != (h.bad != ""):
			t.Fatalf("%s: %q, want ambiguous %t", text, h.bad, ambiguous)
		case !ambiguous && !bytes.Equal(want, doc[h.start:h.end]):
			t.Fatalf("%s: got %s, want %s", text, doc[h.start:h.end], want)
		}
		if !ambiguous && text != "" {
			sameID(t, doc, text, want)
		}
	})
}

var fuzzPaths = []string{"", "id", "a.b", "a.id", "0", "a.0.b", "1.id", "a.b.id"}

// lookUp returns the value at a path by encoding/json, or nil.
func lookUp(doc json.RawMessage, path []segment) (value json.RawMessage, ambiguous bool) {
	doc = bytes.Trim(Unmarked(doc), " \t\r\n")
	if len(path) == 0 {
		return doc, false
	}
	switch doc[0] {
	case '[':
		var items []json.RawMessage
		_ = json.Unmarshal(doc, &items)
		if i := path[0].index; i >= 0 && i < len(items) {
			return lookUp(items[i], path[1:])
		}
	case '{':
		dec := json.NewDecoder(bytes.NewReader(doc))
		_, _ = dec.Token()
		var found json.RawMessage
		for dec.More() {
			key, _ := dec.Token()
			var value json.RawMessage
			_ = dec.Decode(&value)
			if key == path[0].key {
				if found != nil {
					return nil, true
				}
				found = value
			}
		}
		if found != nil {
			return lookUp(found, path[1:])
		}
	}
	return nil, false
}

// sameID compares the strict reading of one value with that of encoding/json.
func sameID(t *testing.T, doc []byte, path string, value json.RawMessage) {
	got, err := mustParse(t, "body:"+path).Eval(&Input{Body: doc})
	dec := json.NewDecoder(bytes.NewReader(value))
	dec.UseNumber()
	var decoded any
	_ = dec.Decode(&decoded)
	var want string
	switch v := decoded.(type) {
	case nil:
		if !errors.Is(err, ErrAbsent) {
			t.Fatalf("%s: %v, want absent", value, err)
		}
		return
	case string:
		want = v
	case json.Number:
		want = v.String()
	}
	// U+FFFD may stand for half a surrogate pair; only that is refused.
	mustRefuse := want == "" || len(want) > MaxPart || strings.TrimSpace(want) == "" || strings.ContainsFunc(want, unicode.IsControl)
	mayRefuse := mustRefuse || strings.Contains(want, "\ufffd") && bytes.ContainsRune(value, '\\')
	switch {
	case err == nil && (mustRefuse || got.Parts[0] != want):
		t.Fatalf("%s: got %q, want %q", value, got.Parts, want)
	case err != nil && (!mayRefuse || !errors.Is(err, ErrMalformed)):
		t.Fatalf("%s: %v, want %q", value, err, want)
	}
}

// FuzzItems compares the splitting of batches with encoding/json.
func FuzzItems(f *testing.F) {
	for _, seed := range []string{`[]`, ` [ {"a":[1]} , "],\"" ,null ] `, `{"a":[1,2],"b":3}`, `{"a":[[],{}]}`, `[1,]`} {
		f.Add([]byte(seed), false)
		f.Add([]byte(seed), true)
	}
	f.Fuzz(func(t *testing.T, doc []byte, inA bool) {
		var path Path
		if inA {
			path, _ = ParsePath("a")
		}
		got, err := Items(doc, path)
		if err != nil {
			return // FuzzDocument checks this case
		}
		array, ambiguous := lookUp(doc, path.segs)
		var want []json.RawMessage
		if err := json.Unmarshal(array, &want); err != nil || ambiguous {
			t.Fatalf("not an array: %v", err)
		}
		if !slices.EqualFunc(got, want, func(a []byte, b json.RawMessage) bool { return bytes.Equal(a, b) }) {
			t.Fatalf("got %q, want %q", got, want)
		}
	})
}

// FuzzParse checks that no expression makes Parse or a reading panic, and that every id is valid.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"body:a.b + header:X#t | form:f | query:q", `item:a\.0`, "header:", "body:\\", "form:a | query:b | body:0", "body:a[].b? + item:c", "outer:a.b? + item:0 | outer:f"} {
		f.Add(seed, `{"a":{"b":"c"}}`, "t=1,v1=a")
		f.Add(seed, "f=1&a=%41", "a")
	}
	f.Fuzz(func(t *testing.T, expr, body, text string) {
		e, err := Parse(expr)
		if err != nil {
			return
		}
		in := &Input{Body: []byte(body), Item: []byte(text), Outer: []byte(body), RawQuery: text, Header: http.Header{"X": {text}}}
		value, err := e.Eval(in)
		if err != nil && errors.Is(err, ErrAbsent) == errors.Is(err, ErrMalformed) {
			t.Fatalf("%v is not one of absent and malformed", err)
		}
		for _, part := range value.Parts {
			if checkID(part) != nil && (part != "" || !strings.Contains(expr, "?")) {
				t.Fatalf("part %q: %v", part, checkID(part))
			}
		}
		fields := Fields{ID: mustParse(t, "query:a | header:X"), Type: e, Time: e}
		_, typ, at, _ := fields.Reader(in).Read(in.Item, in.Outer)
		if len(typ) > MaxType || !utf8.ValidString(typ) || strings.ContainsFunc(typ, unicode.IsControl) {
			t.Fatalf("type %q", typ)
		}
		if !at.IsZero() && (at.Unix() < 0 || at.Year() > 9999 || at.Location() != time.UTC) {
			t.Fatalf("time %s", at)
		}
	})
}
