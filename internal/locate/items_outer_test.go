package locate

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseOuter(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"outer:":                 `"outer:" needs a name`,
		"outer:?":                "needs a name",
		"outer:a[].b":            `does not allow "[]"`,
		"item:a | outer:[]":      `does not allow "[]"`,
		"outer:a..b":             "segment 2",
		"outer:a?":               "",
		`outer:a\[].0 + outer:b`: "",
	} {
		e, err := Parse(in)
		switch {
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: got %v, want an error with %s", in, err, want)
		case want == "" && (err != nil || !e.Uses(Outer) || e.Uses(Item) || e.Uses(Body)):
			t.Errorf("%s: %v, or it looks elsewhere", in, err)
		}
	}
	for at, want := range map[string]bool{
		"outer:a":                        false,
		"outer:a + item:b?":              false,
		"outer:a + item:b":               true,
		"outer:a? + sha256:item":         true,
		"outer:a + sha256:item | item:b": true,
		"item:b | outer:a":               false,
	} {
		if mustParse(t, at).DiffersByItem() != want {
			t.Errorf("%s: want %t", at, want)
		}
	}
}

// TestEvalOuter checks ids made of the element that encloses an item.
func TestEvalOuter(t *testing.T) {
	t.Parallel()
	const item = `{"id":"i","a":9}`
	for _, c := range []struct{ name, at, outer, want string }{
		{"beside the item", "outer:id + item:id", `{"id":"o","list":[{}]}`, "o & i"},
		{"a path", "outer:a.0.b", `{"a":[{"b":7}]}`, "7"},
		{"twice", "outer:b + item:a + outer:a", `{"a":1,"b":2}`, "2 & 9 & 1"},
		{"absent", "outer:x + item:id", `{"a":1}`, "absent"},
		{"null", "outer:x", `{"x":null}`, "absent"},
		{"optional", "outer:x? + item:id", `{"a":1}`, " & i"},
		{"optional, empty", "outer:x? + item:id", `{"x":""}`, " & i"},
		{"alternative", "outer:x | item:id", `{"a":1}`, "i"},
		{"nothing encloses it", "outer:id | item:id", ``, "i"},
		{"nothing encloses it, optional", "outer:id? + item:id", ``, " & i"},
		{"nothing encloses it, alone", "outer:id", ``, "absent"},
		{"a scalar", "outer:id", `7`, "absent"},
		{"not a value", "outer:x | item:id", `{"x":{}}`, "malformed"},
		{"true", "outer:x", `{"x":true}`, "malformed"},
		{"blank", "outer:x", `{"x":" "}`, "malformed"},
		{"key twice on the way", "outer:x | item:id", `{"x":1,"x":1}`, "malformed"},
		{"key twice elsewhere", "outer:x", `{"a":1,"a":2,"x":1}`, "1"},
		{"broken", "outer:x | item:id", `{"x":1`, "malformed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			in := &Input{Body: []byte(`{"id":"b","x":"b"}`), Item: []byte(item), Outer: []byte(c.outer)}
			value, err := mustParse(t, c.at).Eval(in)
			wantValue(t, value, err, c.want)
		})
	}
	in := &Input{Item: []byte(item), Outer: []byte(`{"a":{"#text":"x","@b":"y"}}`), Document: &Document{XML: true}}
	value, err := mustParse(t, "outer:a + outer:a.@b").Eval(in)
	wantValue(t, value, err, "x & y")
}

// TestReadOuter checks that fields do not affect each other, and that each item sees only its own
// enclosing element.
func TestReadOuter(t *testing.T) {
	t.Parallel()
	f := Fields{
		ID:   mustParse(t, "outer:none + item:id | outer:id? + body:a + item:id"),
		Type: mustParse(t, "outer:type + item:type? | body:none | body:type"),
		Time: mustParse(t, "item:none | outer:at"),
	}
	r := f.Reader(&Input{Body: []byte(`{"a":"A","type":"T"}`), Item: []byte(`{`), Outer: []byte(`{`)})
	var got []string
	for _, c := range []struct{ item, outer string }{
		{`{"id":1,"type":"x"}`, `{"id":"p","type":"t","at":1}`},
		{`{"id":2}`, `{"id":"p","type":"t","at":1}`},
		{`{"id":3}`, `{"id":"q","type":[],"at":2}`},
		{`{"id":4}`, ``},
		{`{"id":5}`, `{"id":"r","at":"x"}`},
		{`{"id":6}`, `{"id":`},
		{`{"id":7}`, `{"none":"n"}`},
	} {
		id, typ, at, err := r.Read([]byte(c.item), []byte(c.outer))
		text := fmt.Sprintf("%s %s", id.Shown(), typ)
		if !at.IsZero() {
			text += fmt.Sprintf(" %d", at.Unix())
		}
		if err != nil {
			text = "malformed"
		}
		got = append(got, text)
	}
	want := []string{"p:A:1 t:x 1", "p:A:2 t 1", "q:A:3  2", ":A:4 T", "r:A:5 T", "malformed", "n:7 T"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestItemsOuter checks the enclosing element of each item of a batch.
func TestItemsOuter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, rule, body string
		xml, encloses    bool
		want             []string // for each item; nil for none
	}{
		{"none", "body:a", `{"a":[1]}`, false, false, []string{"1 in nil"}},
		{"one", "body: | one", `{"a":[1]}`, false, false, []string{`{"a":[1]} in nil`}},
		{
			"flat", "body:a[].b", `{"a":[{"b":[1,2]}, {"b":[3],"c":4} ,{"b":[]}]}`, false, true,
			[]string{`1 in {"b":[1,2]}`, `2 in {"b":[1,2]}`, `3 in {"b":[3],"c":4}`},
		},
		{
			"innermost", "body:a[].b.c[].d", `{"a":[{"b":{"c":[{"d":[1]},{"d":[2]}]}}]}`, false, true,
			[]string{`1 in {"d":[1]}`, `2 in {"d":[2]}`},
		},
		{"innermost array", "body:a[].[].b", `{"a":[[{"b":[1]}]]}`, false, true, []string{`1 in {"b":[1]}`}},
		{"the document", "body:[].b", `[{"b":[1]}]`, false, true, []string{`1 in {"b":[1]}`}},
		{
			"each its own", "body:a[].b | body:a[].c", `{"a":[{"c":[1]},{"b":[2]}]}`, false, true,
			[]string{`1 in {"c":[1]}`, `2 in {"b":[2]}`},
		},
		{"another alternative", "body:a[].b | body:c", `{"c":[1]}`, false, true, []string{"1 in nil"}},
		{"another alternative, one", "body:a[].b | one", `{"c":[1]}`, false, true, []string{`{"c":[1]} in nil`}},
		{"XML", "body:a[].b", `{"a":{"b":"1"}}`, true, true, []string{`"1" in {"b":"1"}`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b, err := ParseBatch(c.rule)
			if err != nil {
				t.Fatal(err)
			}
			if b.Encloses() != c.encloses {
				t.Errorf("Encloses is not %t", c.encloses)
			}
			items, err := b.Items([]byte(c.body), c.xml)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, item := range items {
				outer := string(item.Outer)
				if item.Outer == nil {
					outer = "nil"
				}
				got = append(got, string(item.Raw)+" in "+outer)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestOuterIsScannedOnce checks that many items in one element cost one scan of it: after the first
// item it changes the element so that a second scan would fail.
func TestOuterIsScannedOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, at, body string
		xml            bool
	}{
		{"JSON", "outer:id + item:", `{"a":[{"id":"x","b":[0,1,2]},{"id":"y","b":[3]}]}`, false},
		{"XML, with attributes", "outer:id + item:", `{"a":[{"id":{"#text":"x","@c":"1"},"b":["0","1","2"]},{"id":"y","b":"3"}]}`, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			body := []byte(c.body)
			batch, err := ParseBatch("body:a[].b")
			if err != nil {
				t.Fatal(err)
			}
			items, err := batch.Items(body, c.xml)
			if err != nil || len(items) != 4 {
				t.Fatalf("%d items, %v", len(items), err)
			}
			f := Fields{ID: mustParse(t, c.at), Type: mustParse(t, "outer:id"), Time: mustParse(t, "outer:at")}
			r := f.Reader(&Input{Body: body, Document: &Document{JSON: body, XML: c.xml}})
			for i, item := range items {
				id, typ, _, err := r.Read(item.Raw, item.Outer)
				owner := "x"
				if i == 3 {
					owner = "y"
				}
				if want := fmt.Sprintf("%s:%d", owner, i); err != nil || id.Shown() != want || typ != owner {
					t.Errorf("got %s, type %s, %v; want %s", id.Shown(), typ, err, want)
				}
				if i == 0 {
					replace(t, item.Outer, `"id":`, `"id" `)
					if c.xml {
						replace(t, item.Outer, `"@c":`, `"@c" `)
					}
				}
			}
			if _, _, _, err := f.Reader(&Input{}).Read(items[1].Raw, items[1].Outer); err == nil {
				t.Error("the second scan does not see the change")
			}
		})
	}
}

// replace overwrites old in doc with text of the same length.
func replace(t *testing.T, doc []byte, old, text string) {
	t.Helper()
	at := bytes.Index(doc, []byte(old))
	if at < 0 || len(old) != len(text) {
		t.Fatalf("no %s in %s", old, doc)
	}
	copy(doc[at:], text)
}
