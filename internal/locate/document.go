package locate

import (
	"errors"
	"fmt"
	"slices"
)

// maxElements bounds the elements of one "[]", except in a batch.
const maxElements = 64

// document is a JSON document and the values found at some paths. A path with "[]" leads to its
// first array.
type document struct {
	raw     []byte
	hits    []hit
	scanned bool
	err     error
	xml     bool
	lists   map[int]list // by slot: values that needed another scan
}

type list struct {
	tokens []token
	err    error
}

// room makes room for n hits.
func (d *document) room(n int) { d.hits = slices.Grow(d.hits, n) }

// emptied returns an empty document with the memory for the hits of d.
func (d *document) emptied() document {
	clear(d.hits)
	return document{hits: d.hits[:0]}
}

func (d *document) add(paths []Path) {
	for _, p := range paths {
		d.hits = append(d.hits, hit{path: p.segs})
	}
}

// reset replaces the document and keeps the paths.
func (d *document) reset(raw []byte) {
	d.raw, d.scanned, d.err = raw, false, nil
	if d.lists != nil {
		clear(d.lists)
	}
	for i := range d.hits {
		d.hits[i] = hit{path: d.hits[i].path}
	}
}

func (d *document) hit(slot int) (*hit, error) {
	if !d.scanned {
		d.scanned = true
		d.err = scan(d.raw, d.hits)
	}
	if d.err != nil {
		return nil, d.err
	}
	h := &d.hits[slot]
	if h.bad != "" {
		return nil, errors.New(h.bad)
	}
	return h, nil
}

// token returns the value that h found in doc.
func (h *hit) token(doc []byte) token {
	t := token{kind: h.kind, raw: doc[h.start:h.end]}
	if h.kind == tokenString {
		t.raw = t.raw[1 : len(t.raw)-1]
	}
	return t
}

func (d *document) keep(slot int, found list) {
	if d.lists == nil {
		d.lists = make(map[int]list)
	}
	d.lists[slot] = found
}

// find returns the value at a slot whose path has no "[]". For XML it caches the value for the next
// item of a batch.
func (d *document) find(slot int) (token, error) {
	h, err := d.hit(slot)
	if err != nil {
		return token{}, err
	}
	t := h.token(d.raw)
	if !d.xml || t.kind != tokenObject {
		return t, nil
	}
	found, ok := d.lists[slot]
	if !ok {
		t, err = t.inner()
		found = list{[]token{t}, err}
		d.keep(slot, found)
	}
	return found.tokens[0], found.err
}

// findEach returns the value at rest in each element of the array at a slot, see reading.findEach.
// It caches the values for the next item of a batch.
func (d *document) findEach(slot int, rest *Path) ([]token, error) {
	found, ok := d.lists[slot]
	if ok {
		return found.tokens, found.err
	}
	h, err := d.hit(slot)
	if err != nil || h.kind == tokenAbsent || h.kind == tokenNull {
		return nil, err
	}
	found.tokens, found.err = h.each(d.raw, rest, d.xml)
	d.keep(slot, found)
	return found.tokens, found.err
}

// each returns the value at rest in each element of the array that h found in doc.
func (h *hit) each(doc []byte, rest *Path, xml bool) ([]token, error) {
	items, err := h.elements(doc, xml, maxElements)
	if err != nil {
		return nil, err
	}
	var tokens []token
	for _, item := range items {
		hits := []hit{{path: rest.segs}}
		if err := scan(item, hits); err != nil {
			return nil, err
		}
		if hits[0].bad != "" {
			return nil, errors.New(hits[0].bad)
		}
		t := hits[0].token(item)
		if xml {
			if t, err = t.inner(); err != nil {
				return nil, err
			}
		}
		tokens = append(tokens, t)
	}
	return tokens, nil
}

// inner returns the text of an XML element with attributes. It returns any other token unchanged.
func (t token) inner() (token, error) {
	if t.kind != tokenObject {
		return t, nil
	}
	hits := []hit{{path: []segment{{key: "#text", index: -1}}}}
	if err := scan(t.raw, hits); err != nil || hits[0].kind != tokenString {
		return t, err
	}
	return hits[0].token(t.raw), nil
}

// elements returns the elements of the array that h found in doc, or an error if there are more
// than most.
func (h *hit) elements(doc []byte, xml bool, most int) ([][]byte, error) {
	value := doc[h.start:h.end:h.end]
	switch {
	case h.kind == tokenArray:
	case xml:
		return [][]byte{value}, nil
	default:
		return nil, errors.New("it is not an array")
	}
	items := elements(value, most)
	if len(items) > most {
		return nil, fmt.Errorf("it has more than %d elements", most)
	}
	return items, nil
}
