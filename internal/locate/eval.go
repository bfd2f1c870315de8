package locate

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
)

var (
	// ErrAbsent means that nothing stands at a location. null counts as nothing.
	ErrAbsent = errors.New("absent")
	// ErrMalformed means that what stands at a location cannot be used, or that
	// the document around it cannot be read.
	ErrMalformed = errors.New("malformed")
)

// Input is a request to look into. Nothing in this package changes it.
type Input struct {
	Header   http.Header // with names in canonical form, as net/http makes them
	Body     []byte
	RawQuery string
	Item     []byte // one item of a batch; nil outside of batches
}

// Value is what an expression found: its parts, one for most expressions.
type Value struct {
	Parts []string
}

// Shown returns the parts joined by ':', for people. Different values may be
// shown alike.
func (v Value) Shown() string { return strings.Join(v.Parts, ":") }

// Eval reads the expression as an event id. Every part is exactly one string
// or number: 1 to 255 bytes of valid UTF-8, not blank, without control
// characters (C0, DEL, C1). A string counts by its text after unescaping, a
// number by its digits as they were sent, so that 1 and "1" are equal, and 1,
// 1.0 and 1e0 are not, nor -0 and 0.
//
// A JSON document must be valid as a whole (RFC 8259, UTF-8, no byte order
// mark, nothing behind it, at most 10,000 levels), and no key on the path may
// occur twice in its object, compared after unescaping. Keys are compared with
// their case. A header, a key in a header, a field or a parameter must occur
// exactly once. Else the error matches ErrMalformed; where nothing stands at
// the location and no alternative is left, it matches ErrAbsent.
func (e *Expr) Eval(in *Input) (Value, error) {
	r := newReading(in, e)
	return r.strict(e, 0, 0)
}

// token is what stands at one location.
type token struct {
	kind tokenKind // tokenString for text that is no JSON
	raw  []byte    // of a JSON string without its quotes, of a number as sent
	text string    // if raw is nil
}

// reading is one look into one request. Each document is scanned once, when a
// location in it is first asked for.
type reading struct {
	in         *Input
	body, item document
}

type document struct {
	raw     []byte
	hits    []hit
	scanned bool
	err     error
}

// newReading prepares a look for all the paths of exprs; an expression's own
// slots count from where those of the ones before it end.
func newReading(in *Input, exprs ...*Expr) *reading {
	r := &reading{in: in}
	r.body.raw, r.item.raw = in.Body, in.Item
	for _, e := range exprs {
		if e != nil {
			r.body.add(e.bodyPaths)
			r.item.add(e.itemPaths)
		}
	}
	return r
}

func (d *document) add(paths []Path) {
	for _, p := range paths {
		d.hits = append(d.hits, hit{path: p.segs})
	}
}

// reset turns to another document, for the same paths.
func (d *document) reset(raw []byte) {
	d.raw, d.scanned, d.err = raw, false, nil
	for i := range d.hits {
		d.hits[i] = hit{path: d.hits[i].path}
	}
}

func (d *document) find(slot int) (token, error) {
	if !d.scanned {
		d.scanned = true
		d.err = scan(d.raw, d.hits)
	}
	if d.err != nil {
		return token{}, d.err
	}
	h := &d.hits[slot]
	if h.bad != "" {
		return token{}, errors.New(h.bad)
	}
	t := token{kind: h.kind, raw: d.raw[h.start:h.end]}
	if h.kind == tokenString {
		t.raw = t.raw[1 : len(t.raw)-1]
	}
	return t, nil
}

// find returns what stands at l. An error says why it cannot be told.
func (r *reading) find(l *leaf, bodyBase, itemBase int) (token, error) {
	switch l.Kind {
	case Header:
		return r.header(l)
	case Form:
		return formValue(string(r.in.Body), l.Name)
	case Query:
		return formValue(r.in.RawQuery, l.Name)
	case Item:
		return r.item.find(itemBase + l.slot)
	default:
		return r.body.find(bodyBase + l.slot)
	}
}

func (r *reading) header(l *leaf) (token, error) {
	values := r.in.Header[l.Name]
	switch {
	case len(values) == 0:
		return token{}, nil
	case len(values) > 1:
		return token{}, errors.New("the header occurs more than once")
	case l.Key == "":
		return token{kind: tokenString, text: values[0]}, nil
	}
	value, found, ok := PairValue(values[0], l.Key)
	switch {
	case !ok:
		return token{}, errors.New("the header is not a list of key=value")
	case found == 0:
		return token{}, nil
	case found > 1:
		return token{}, errors.New("the key occurs more than once in the header")
	}
	return token{kind: tokenString, text: value}, nil
}

func (r *reading) strict(e *Expr, bodyBase, itemBase int) (Value, error) {
	var absent error
	for _, alt := range e.alts {
		value, err := r.strictAlt(alt, bodyBase, itemBase)
		if err == nil || !errors.Is(err, ErrAbsent) {
			return value, err
		}
		if absent == nil {
			absent = err
		}
	}
	return Value{}, absent
}

func (r *reading) strictAlt(alt []leaf, bodyBase, itemBase int) (Value, error) {
	parts := make([]string, 0, len(alt))
	for i := range alt {
		l := &alt[i]
		t, err := r.find(l, bodyBase, itemBase)
		if err != nil {
			return Value{}, fmt.Errorf("%s: %w: %s", l, ErrMalformed, err)
		}
		if t.kind == tokenAbsent || t.kind == tokenNull {
			return Value{}, fmt.Errorf("%s: %w", l, ErrAbsent)
		}
		part, err := t.id()
		if err != nil {
			return Value{}, fmt.Errorf("%s: %w: %s", l, ErrMalformed, err)
		}
		parts = append(parts, part)
	}
	return Value{Parts: parts}, nil
}
