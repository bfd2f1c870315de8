package locate

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestEvalEach checks ids made of the elements of an array.
func TestEvalEach(t *testing.T) {
	t.Parallel()
	list := func(n int) string { return `{"a":[` + strings.TrimSuffix(strings.Repeat(`{"b":1},`, n), ",") + `]}` }
	for _, c := range []struct{ name, at, body, want string }{
		{"in order", "body:a[].b", `{"a":[{"b":"x"},{"b":2},{"b":"x"}]}`, "x & 2 & x"},
		{"as a segment", "body:a.[].b", `{"a":[{"b":"x"},{"b":2}]}`, "x & 2"},
		{"the document", "body:[].b", ` [{"b":"x"} , {"b":2}] `, "x & 2"},
		{"the elements themselves", "body:a[]", `{"a":["x", 2 ,"y"]}`, "x & 2 & y"},
		{"index behind it", "body:a[].1", `{"a":[[0,1],[2,3]]}`, "1 & 3"},
		{"beside others", "body:n + body:a[].b + body:n", `{"a":[{"b":"x"},{"b":"y"}],"n":0}`, "0 & x & y & 0"},
		{"two of one array", "body:a[].b + body:a[].c", `{"a":[{"b":1,"c":2},{"b":3,"c":4}]}`, "1 & 3 & 2 & 4"},
		{"alternative", "body:a[].b | body:c", `{"c":1}`, "1"},
		{"64 elements", "body:a[].b", list(64), strings.Repeat("1 & ", 63) + "1"},

		{"65 elements", "body:a[].b", list(65), "malformed"},
		{"no elements", "body:a[].b", list(0), "absent"},
		{"no array", "body:a[].b", `{}`, "absent"},
		{"null", "body:a[].b", `{"a":null}`, "absent"},
		{"an object", "body:a[].b", `{"a":{"b":1}}`, "malformed"},
		{"a string", "body:a[]", `{"a":"b"}`, "malformed"},
		{"an element without it", "body:a[].b", `{"a":[{"b":1},{}]}`, "malformed"},
		{"an element with null", "body:a[].b", `{"a":[{"b":1},{"b":null}]}`, "malformed"},
		{"an element that is a scalar", "body:a[].b", `{"a":[{"b":1},7]}`, "malformed"},
		{"an element with an empty text", "body:a[].b", `{"a":[{"b":""}]}`, "malformed"},
		{"an element with an object", "body:a[].b", `{"a":[{"b":{}}]}`, "malformed"},
		{"array in an array", "body:a[]", `{"a":[[1]]}`, "malformed"},
		{"key twice in an element", "body:a[].b", `{"a":[{"b":1,"b":1}]}`, "malformed"},
		{"key twice on the way", "body:a[].b", `{"a":[],"a":[{"b":1}]}`, "malformed"},
		{"key twice elsewhere", "body:a[].b", `{"a":[{"c":1,"c":2,"b":1}]}`, "1"},
		{"broken behind it", "body:a[].b", `{"a":[{"b":1}]`, "malformed"},
		{"not an alternative", "body:a[].b | body:c", `{"a":[{}],"c":1}`, "malformed"},

		{"optional elements", "body:a[].b? + body:a[].c", `{"a":[{"c":1},{"b":"x","c":2}]}`, " & x & 1 & 2"},
		{"optional array", "body:a[].b? + body:c", `{"c":1}`, " & 1"},
		{"a name with brackets", `body:a\[]`, `{"a[]":1,"a":[2]}`, "1"},
		{"brackets inside", "body:a[0].b", `{"a":[{"b":1}],"a[0]":{"b":2}}`, "2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			value, err := mustParse(t, c.at).Eval(&Input{Body: []byte(c.body)})
			wantValue(t, value, err, c.want)
		})
	}
}

// TestEvalLongArray checks that an id through an array stays short, and that different parts give
// different ids.
func TestEvalLongArray(t *testing.T) {
	t.Parallel()
	read := func(elements []string) []string {
		body, err := json.Marshal(elements)
		if err != nil {
			t.Fatal(err)
		}
		value, err := mustParse(t, "body:[]").Eval(&Input{Body: body})
		if err != nil {
			t.Fatal(err)
		}
		return value.Parts
	}
	most := make([]string, 8)
	for i := range most {
		most[i] = strings.Repeat(strconv.Itoa(i), MaxPart)
	}
	if got := read(most); !cmp.Equal(got, most) {
		t.Errorf("2,047 bytes became %d parts", len(got))
	}
	long := append(most[:7:7], "7", strings.Repeat("8", MaxPart-1))
	first := read(long)
	moved := append(most[:7:7], "78", strings.Repeat("8", MaxPart-2))
	second := read(moved)
	if len(first) != 1 || len(first[0]) != 64 || len(second) != 1 || first[0] == second[0] {
		t.Errorf("got %q and %q, want two sums", first, second)
	}
}

// TestEvalOptional checks which parts a '?' makes optional.
func TestEvalOptional(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ at, body, want string }{
		{"body:a + body:b?", `{"a":1,"b":2}`, "1 & 2"},
		{"body:a + body:b?", `{"a":1}`, "1 & "},
		{"body:a + body:b?", `{"a":1,"b":null}`, "1 & "},
		{"body:a + body:b?", `{"a":1,"b":""}`, "1 & "},
		{"body:b? + body:a", `{"a":1}`, " & 1"},
		{"body:a + body:b?", `{"a":1,"b":" "}`, "malformed"},
		{"body:a + body:b?", `{"a":1,"b":true}`, "malformed"},
		{"body:a + body:b?", `{"a":1,"b":2,"b":2}`, "malformed"},
		{"body:a + body:b?", `{"b":2}`, "absent"},
		{"body:a? + body:b?", `{"b":2}`, " & 2"},
		{"body:a? + body:b?", `{}`, "absent"},
		{"body:a? + body:b?", `{"a":"","b":null}`, "absent"},
		{"body:a? + body:b? | body:c", `{"c":3}`, "3"},
		{"body:a?", `{"a":1}`, "1"},
		{"body:a? | body:c", `{"c":3}`, "3"},
		{"header:X-A#k? + header:X-B? + form:f? + query:q? + body:a", `{"a":1}`, " &  &  &  & 1"},
		{`body:a\?`, `{"a?":1}`, "1"},
		{`body:a\\?`, `{"a\\":1}`, "1"},
		{`body:a\??`, `{"a?":1}`, "1"},
	} {
		value, err := mustParse(t, c.at).Eval(&Input{Body: []byte(c.body), Header: http.Header{"X-A": {"b=1"}}})
		t.Run(c.at+" "+c.body, func(t *testing.T) { wantValue(t, value, err, c.want) })
	}
}

// TestEvalSums checks sums and scalar documents as ids.
func TestEvalSums(t *testing.T) {
	t.Parallel()
	const (
		sumAB = "fb8e20fc2e4c3f248c60c39bd652f3c1347298bb977b8b4d5903b85055620603" // of "ab"
		sum1  = "6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b" // of "1"
	)
	for _, c := range []struct {
		at   string
		in   Input
		want string
	}{
		{"sha256:body", Input{Body: []byte("ab")}, sumAB},
		{"sha256:body", Input{}, "absent"},
		{"sha256:form:a", Input{Body: []byte("x=1&a=%61b&y=2")}, sumAB},
		{"sha256:form:a", Input{Body: []byte("x=1&a=")}, "absent"},
		{"sha256:form:a", Input{Body: []byte("a=ab&a=ab")}, "malformed"},
		{"sha256:body? + query:a", Input{RawQuery: "a=1"}, " & 1"},
		{"sha256:body + sha256:item + item:", Input{Body: []byte("ab"), Item: []byte("1")}, sumAB + " & " + sum1 + " & 1"},
		{"sha256:body", Input{Body: []byte("ab"), Document: &Document{JSON: []byte("1")}}, sumAB},
		{"sha256:item", Input{Body: []byte("ab")}, "absent"},
		{"item:", Input{Item: []byte(`"x"`)}, "x"},
		{"item:", Input{Item: []byte(`{}`)}, "malformed"},
		{"item:", Input{Item: []byte(`null`)}, "absent"},
		{"body:", Input{Body: []byte(` "x\u0041" `)}, "xA"},
		{"body:", Input{Body: []byte(`[1]`)}, "malformed"},
		{"body:a", Input{Body: []byte(`{"a":1}`), Document: &Document{JSON: []byte(`{"a":2}`)}}, "2"},
		{"body:a", Input{Body: []byte(`{"a":1}`), Document: &Document{Err: errors.New("broken")}}, "malformed"},
		{"form:a", Input{Body: []byte(`a=1`), Document: &Document{Err: errors.New("broken")}}, "1"},
	} {
		value, err := mustParse(t, c.at).Eval(&c.in)
		t.Run(c.at, func(t *testing.T) { wantValue(t, value, err, c.want) })
	}
}

// TestEvalXML checks the differences for a document made of XML.
func TestEvalXML(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ at, body, want string }{
		{"body:a[].b", `{"a":{"b":"1"}}`, "1"},
		{"body:a[].b", `{"a":[{"b":"1"},{"b":"2"}]}`, "1 & 2"},
		{"body:a[]", `{"a":"1"}`, "1"},
		{"body:a.b", `{"a":{"b":{"#text":"1","@c":"2"}}}`, "1"},
		{"body:a.b.@c", `{"a":{"b":{"#text":"1","@c":"2"}}}`, "2"},
		{"body:a[].b", `{"a":{"b":{"#text":"1","@c":"2"}}}`, "1"},
		{"body:a", `{"a":{"b":"1"}}`, "malformed"},
		{"body:a[].b", `{}`, "absent"},
	} {
		in := &Input{Document: &Document{JSON: []byte(c.body), XML: true}}
		value, err := mustParse(t, c.at).Eval(in)
		t.Run(c.at+" "+c.body, func(t *testing.T) { wantValue(t, value, err, c.want) })
		item := &Input{Item: []byte(c.body), Document: &Document{XML: true}}
		value, err = mustParse(t, strings.Replace(c.at, "body:", "item:", 1)).Eval(item)
		t.Run("item "+c.at, func(t *testing.T) { wantValue(t, value, err, c.want) })
	}
}

// TestReadShown checks how arrays, constants and optional parts appear in a type.
func TestReadShown(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ at, body, want string }{
		{"const:ping", `{"id":1}`, "ping"},
		{`const:a\+b \| c`, `{"id":1}`, "a+b | c"},
		{"const:order + body:action", `{"id":1,"action":"paid"}`, "order:paid"},
		{"const:order + body:action", `{"id":1}`, ""},
		{"body:kind | const:other", `{"id":1}`, "other"},
		{"body:kind | const:other", `{"id":1,"kind":"k"}`, "k"},
		{"body:a[].b", `{"id":1,"a":[{"b":"x"},{},{"b":null},{"b":"y"}]}`, "x:y"},
		{"body:a[].b", `{"id":1,"a":[{}]}`, ""},
		{"body:a[].b", `{"id":1,"a":[{"b":{}}]}`, ""},
		{"body:a[].b", `{"id":1,"a":{}}`, ""},
		{"body:a + body:b?", `{"id":1,"a":"x"}`, "x"},
		{"body:b? + body:a", `{"id":1,"a":"x"}`, "x"},
		{"body:a? + body:b?", `{"id":1}`, ""},
		{"body:a? + body:b? | const:none", `{"id":1}`, "none"},
	} {
		typ, err := ParseType(c.at)
		if err != nil {
			t.Fatal(err)
		}
		f := Fields{ID: mustParse(t, "body:id"), Type: typ, Time: mustParse(t, "body:at[] | body:id")}
		_, got, at, err := f.Reader(&Input{Body: []byte(c.body)}).Read(nil, nil)
		if err != nil || got != c.want || at.Unix() != 1 {
			t.Errorf("%s of %s: got %q at %s, %v; want %q", c.at, c.body, got, at, err, c.want)
		}
	}
}

// TestReadItems checks that only values of the body are cached from one item of a batch to the
// next.
func TestReadItems(t *testing.T) {
	t.Parallel()
	f := Fields{
		ID:   mustParse(t, "item:list[].n + form:f + sha256:item + sha256:body"),
		Type: mustParse(t, "item:list[].n | body:all[]"),
	}
	in := &Input{Body: []byte("f=x"), Document: &Document{JSON: []byte(`{"all":["u","v"]}`)}}
	sum := func(s string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(s))) }
	r := f.Reader(in)
	for _, item := range []string{`{"list":[{"n":7},{"n":8}]}`, `{"list":[{"n":9}]}`} {
		id, typ, _, err := r.Read([]byte(item), nil)
		if err != nil {
			t.Fatal(err)
		}
		numbers := []string{"7", "8"}
		if item != `{"list":[{"n":7},{"n":8}]}` {
			numbers = []string{"9"}
		}
		want := append(numbers, "x", sum(item), sum("f=x"))
		if diff := cmp.Diff(want, id.Parts); diff != "" || typ != strings.Join(numbers, ":") {
			t.Errorf("%s: type %q %s", item, typ, diff)
		}
	}
	f.ID = mustParse(t, "sha256:item")
	r = f.Reader(in)
	for _, item := range []string{`1`, `2`} {
		if _, typ, _, err := r.Read([]byte(item), nil); typ != "u:v" || err != nil {
			t.Errorf("%s: type %q, %v", item, typ, err)
		}
	}
}

// TestEachAgainstEncodingJSON compares the parts of "[]" with those that encoding/json finds.
func TestEachAgainstEncodingJSON(t *testing.T) {
	t.Parallel()
	e := mustParse(t, "body:a[].b")
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.StringMatching(`[ -~é"\\\]}\[{,:]{1,12}x`), rapid.SampledFrom([]string{"1", "é", `"],[`}))
		want := rapid.SliceOfN(text, 1, maxElements).Draw(t, "texts")
		var list []map[string]any
		for _, w := range want {
			list = append(list, map[string]any{"b": w, "c": []any{w, map[string]any{"b": w}}})
		}
		body, err := json.Marshal(map[string]any{"z": list, "a": list})
		if err != nil {
			t.Fatal(err)
		}
		got, err := e.Eval(&Input{Body: body})
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		if diff := cmp.Diff(shorten(want), got.Parts); diff != "" {
			t.Fatalf("%s: %s", body, diff)
		}
	})
}
