package locate

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// MaxItems bounds the items of one batch.
const MaxItems = 10_000

// Batch holds the location of a batch's items. It is immutable and safe for concurrent use.
type Batch struct {
	paths []*Path
	one   bool // without any array, the document is the only item
}

// ParseBatch parses the location of a batch: body:path of the array, or body: if the document is
// the array. "[]" in the path goes into every element of an array on the way. "a | b" takes the
// first that is present; for alternatives that go into the same array, each element takes its own
// first. body: is present if the document is an array. The last alternative may be "one": the
// document is the only item.
func ParseBatch(rule string) (*Batch, error) {
	alts := splitUnescaped(rule, '|')
	if len(rule) > maxExpr || len(alts) > maxAlts {
		return nil, fmt.Errorf("the batch is longer than %d bytes, or has more than %d alternatives", maxExpr, maxAlts)
	}
	b := &Batch{}
	for i, alt := range alts {
		alt = strings.TrimSpace(alt)
		if alt == "one" && i == len(alts)-1 {
			b.one = true
			break
		}
		text, ok := strings.CutPrefix(alt, string(Body)+":")
		if !ok {
			return nil, fmt.Errorf("%q is not in the body: use body:path, or body: if the body is the array, and one only as the last alternative", alt)
		}
		path, err := ParsePath(text)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", alt, err)
		}
		if _, ends := cutSuffix(text, "[]"); ends {
			return nil, fmt.Errorf(`%q: a batch is the array itself: leave out the "[]" at its end`, alt)
		}
		b.paths = append(b.paths, &path)
	}
	return b, nil
}

// Encloses reports whether an alternative goes through "[]", so that array elements may enclose
// items.
func (b *Batch) Encloses() bool {
	return slices.ContainsFunc(b.paths, func(p *Path) bool { return p.rest != nil })
}

// BatchItem is one item of a batch.
type BatchItem struct {
	Raw []byte // as sent
	// Outer is the innermost array element that encloses Raw: for body:entry[].changes, the element
	// of entry. It is nil for a path without "[]". Items in one element share its memory.
	Outer []byte
	// Err says why Raw, an array element on the path, has no items. It matches ErrAbsent or
	// ErrMalformed.
	Err error
}

// Items returns the items in doc, in order. doc must be a valid document as for Expr.Eval; the
// items share its memory. An empty array is not an error. An unreadable batch is an error that
// matches ErrAbsent or ErrMalformed. If only some of several arrays are unreadable, each of these
// gives an item with an Err. If xml is true, a value that is not an array counts as an array of
// one.
func (b *Batch) Items(doc []byte, xml bool) ([]BatchItem, error) {
	var paths []*Path
	for i, p := range b.paths {
		// The document itself is an alternative only if it is an array.
		if last := i == len(b.paths)-1 && !b.one; last || xml || len(p.segs) > 0 || isArray(doc) {
			paths = append(paths, p)
		}
	}
	w := walker{xml: xml}
	err := w.any(doc, nil, paths)
	if b.one && (len(paths) == 0 || errors.Is(err, ErrAbsent)) {
		w.items = []BatchItem{{Raw: doc}}
		err = scan(doc, nil)
		if err != nil {
			err = fmt.Errorf("one: %w: %s", ErrMalformed, err)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("the batch at %w", err)
	}
	return w.items, nil
}

func isArray(doc []byte) bool {
	doc = Unmarked(doc)
	pos := skipSpace(doc, 0)
	return pos < len(doc) && doc[pos] == '['
}

// Items returns the raw bytes of each item of the array at path in body; see Batch.Items. It is
// strict: one unreadable item is an error.
func Items(body []byte, path Path) ([][]byte, error) {
	b := Batch{paths: []*Path{&path}}
	items, err := b.Items(body, false)
	if err != nil {
		return nil, err
	}
	var raw [][]byte
	for _, item := range items {
		if item.Err != nil {
			return nil, item.Err
		}
		raw = append(raw, item.Raw)
	}
	return raw, nil
}

// walker collects the items of a batch.
type walker struct {
	xml   bool
	items []BatchItem
}

var errTooMany = fmt.Errorf("%w: it has more than %d items", ErrMalformed, MaxItems)

// any collects the items of the first of paths that is present in doc. outer is doc, or nil if doc
// is not an array element.
func (w *walker) any(doc, outer []byte, paths []*Path) error {
	var absent error
	for i, p := range paths {
		if slices.ContainsFunc(paths[:i], p.sameArray) {
			continue // the walk of p tried both for each element
		}
		err := w.walk(doc, outer, p, paths[i:])
		if !errors.Is(err, ErrAbsent) {
			return err
		}
		if absent == nil {
			absent = err
		}
	}
	return absent
}

// sameArray reports whether both paths continue in the elements of one array.
func (p *Path) sameArray(q *Path) bool {
	return p.rest != nil && q.rest != nil && slices.Equal(p.segs, q.segs)
}

// walk collects the items at p. Alternatives that go into the same array are tried for each
// element.
func (w *walker) walk(doc, outer []byte, p *Path, alternatives []*Path) error {
	hits := []hit{{path: p.segs}}
	err := scan(doc, hits)
	h := &hits[0]
	switch {
	case err != nil:
	case h.bad != "":
		err = errors.New(h.bad)
	case h.kind == tokenAbsent || h.kind == tokenNull:
		return fmt.Errorf("body:%s: %w", p, ErrAbsent)
	}
	var found [][]byte
	if err == nil {
		found, err = h.elements(doc, w.xml, MaxItems)
	}
	if err != nil {
		return fmt.Errorf("body:%s: %w: %s", p, ErrMalformed, err)
	}
	if p.rest != nil {
		var rests []*Path
		for _, q := range alternatives {
			if p.sameArray(q) {
				rests = append(rests, q.rest)
			}
		}
		return w.each(found, rests)
	}
	if len(w.items)+len(found) > MaxItems {
		return fmt.Errorf("body:%s: %w", p, errTooMany)
	}
	w.items = slices.Grow(w.items, len(found))
	for _, item := range found {
		w.items = append(w.items, BatchItem{Raw: item, Outer: outer})
	}
	return nil
}

// each collects the items of all elements. It returns ErrAbsent if all elements lack them.
func (w *walker) each(elements [][]byte, rests []*Path) error {
	before, missing := len(w.items), 0
	var absent error
	for _, element := range elements {
		start := len(w.items)
		err := w.any(element, element, rests)
		switch {
		case err == nil:
			continue
		case errors.Is(err, errTooMany):
			return err
		case start == MaxItems:
			return fmt.Errorf("body:%s: %w", rests[0], errTooMany)
		case errors.Is(err, ErrAbsent):
			missing++
			absent = err
		}
		w.items = append(w.items[:start], BatchItem{Raw: element, Err: fmt.Errorf("the batch at %w", err)})
	}
	if absent != nil && missing == len(elements) {
		w.items = w.items[:before]
		return absent
	}
	return nil
}

// elements splits a valid array. It stops after most+1 elements.
func elements(array []byte, most int) [][]byte {
	var items [][]byte
	depth, start := 0, 0
	for pos := 0; pos < len(array) && len(items) <= most; pos++ {
		switch array[pos] {
		case '"':
			end, _, _ := scanString(array, pos)
			pos = end - 1
		case '[', '{':
			if depth++; depth == 1 {
				start = pos + 1
			}
		case ']', '}':
			if depth--; depth == 0 {
				if item := trim(array[start:pos]); len(item) > 0 {
					items = append(items, item)
				}
			}
		case ',':
			if depth == 1 {
				items = append(items, trim(array[start:pos]))
				start = pos + 1
			}
		}
	}
	return items
}

// trim cuts JSON white space off both ends.
func trim(b []byte) []byte {
	b = b[skipSpace(b, 0):]
	for len(b) > 0 && skipSpace(b, len(b)-1) == len(b) {
		b = b[:len(b)-1]
	}
	return b[:len(b):len(b)]
}
