package locate

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
)

// FuzzBatchItems compares the items of nested arrays, and the parts of "[]", with those that
// encoding/json finds.
func FuzzBatchItems(f *testing.F) {
	for _, seed := range []string{
		`{"a":[{"b":[1,{"c":2}]},{"b":[]},{"b":[[3]]}]}`, `{"a":[{"b":null},{},7]}`, `{"a":[]}`, `{"a":{"b":[1]}}`, `[{"b":[1]}]`,
		`{"a":[{"b":["],\"{"]},{"b":["x"],"b":[]}]}`, `{"a":[{"b":"x"},{"b":"y"}]}`, `{"\u0061":[{"b":[0]}],"x":{"a":1,"a":2}}`,
	} {
		f.Add([]byte(seed))
	}
	batch, err := ParseBatch("body:a[].b")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		want, whole, ok := flatten(doc)
		got, err := batch.Items(doc, false)
		if !ok || !whole {
			if err == nil {
				t.Fatalf("got %d items without a batch", len(got))
			}
			return
		}
		if err != nil {
			t.Fatalf("%v, want %q", err, want)
		}
		for i, item := range got {
			if i >= len(want) || !bytes.Equal(item.Raw, want[i].Raw) || !bytes.Equal(item.Outer, want[i].Outer) || (item.Err != nil) != (want[i].Err != nil) {
				t.Fatalf("item %d is %s, %v; want %v", i, item.Raw, item.Err, want)
			}
		}
		if len(got) != len(want) {
			t.Fatalf("%d items, want %d", len(got), len(want))
		}
	})
}

// flatten is Batch.Items of body:a[].b by encoding/json. ok reports whether doc is a document,
// whole whether it has the batch.
func flatten(doc []byte) (items []BatchItem, whole, ok bool) {
	if scan(doc, nil) != nil {
		return nil, false, false
	}
	array, ambiguous := lookUp(doc, []segment{{key: "a", index: -1}})
	var elements []json.RawMessage
	if ambiguous || array == nil || string(array) == "null" || json.Unmarshal(array, &elements) != nil {
		return nil, false, true
	}
	found := len(elements) == 0
	for _, e := range elements {
		inner, ambiguous := lookUp(e, []segment{{key: "b", index: -1}})
		var list []json.RawMessage
		absent := !ambiguous && (inner == nil || string(inner) == "null")
		found = found || !absent
		if ambiguous || absent || json.Unmarshal(inner, &list) != nil {
			items = append(items, BatchItem{Raw: e, Err: ErrMalformed})
			continue
		}
		for _, raw := range list {
			items = append(items, BatchItem{Raw: raw, Outer: e})
		}
	}
	return items, found && len(items) <= MaxItems && len(elements) <= MaxItems, true
}

// FuzzIDs checks that no combination of locations and document format makes a reading panic, or
// returns an invalid id.
func FuzzIDs(f *testing.F) {
	const seed = `{"a":[{"b":"x","c":[1]},{"b":{"#text":"y","@z":"w"}}],"d":null,"e":""}`
	for _, at := range []string{
		"body:a[].b + body:a[].c? + body:d?", "item:a[].b | item:[].c", "sha256:item + item:e?", "body: | item: | sha256:body?", "const:x + body:a[].@z?",
		"outer:a.0.b + sha256:item | outer:d? + item:", "outer:a.1.b + outer:e? + body:a[].b",
	} {
		f.Add(at, []byte(seed), []byte(seed), true)
		f.Add(at, []byte(seed), []byte("[1,2]"), false)
	}
	f.Fuzz(func(t *testing.T, at string, body, item []byte, xml bool) {
		e, err := ParseType(at)
		if err != nil {
			return
		}
		in := &Input{Body: body, Item: item, Outer: body}
		if xml {
			in.Document = &Document{JSON: body, XML: true}
		}
		value, err := e.Eval(in)
		if err != nil {
			if errors.Is(err, ErrAbsent) == errors.Is(err, ErrMalformed) || value.Parts != nil {
				t.Fatalf("%q, %v", value.Parts, err)
			}
			return
		}
		size, present := len(value.Parts)-1, false
		for _, part := range value.Parts {
			size += len(part)
			if part == "" {
				continue
			}
			present = true
			if err := checkID(part); err != nil {
				t.Fatalf("%q: %v", part, err)
			}
		}
		if !present || size > maxID {
			t.Fatalf("%d bytes: %q", size, value.Parts)
		}
		again, err := e.Eval(in)
		if err != nil || again.Shown() != value.Shown() {
			t.Fatalf("read twice: %q and %q, %v", value.Parts, again.Parts, err)
		}
	})
}
