package locate

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

var (
	// ErrAbsent means that there is no value at a location. null counts as no value.
	ErrAbsent = errors.New("absent")
	// ErrMalformed means that the value at a location is unusable, or that the document around it
	// is invalid.
	ErrMalformed = errors.New("malformed")
)

// Input is a request to read from. This package does not change it.
type Input struct {
	Header   http.Header // names in canonical form, as net/http makes them
	Body     []byte
	RawQuery string
	Item     []byte // one item of a batch; nil outside of batches
	Outer    []byte // encloses Item, see BatchItem; nil without one
	// Document replaces Body for body: and item: if it was made of Body; otherwise nil.
	Document *Document
}

// Document is a JSON document made of a body in another format.
type Document struct {
	JSON []byte
	Err  error // why there is no document
	// XML says that the body is XML, which does not distinguish an element from a list of one. So
	// "[]" treats a value that is not an array as an array of one. The value of an element with
	// attributes is its text, the member #text.
	XML bool
}

// Value is the value of an expression: its parts, one for most expressions.
type Value struct {
	Parts []string
}

// Shown returns the parts joined by ':', for people. Different values may look the same.
func (v Value) Shown() string { return strings.Join(v.Parts, ":") }

// Eval reads the expression as an event id. Every part is exactly one string or number: 1 to 255
// bytes of valid UTF-8, not blank, without control characters (C0, DEL, C1). Strings compare by
// their text after unescaping, numbers by their digits as sent. So 1 and "1" are equal, but 1, 1.0
// and 1e0 differ, and so do -0 and 0.
//
// A JSON document must be valid as a whole (RFC 8259, UTF-8, perhaps after a byte order mark, no bytes after it,
// at most 10,000 levels), and no key on the path may occur twice in its object, compared after
// unescaping. Keys are case-sensitive. A header, a key in a header, a field or a parameter must
// occur exactly once. Otherwise the error matches ErrMalformed. If no alternative has a value, the
// error matches ErrAbsent.
//
// With "[]", each of 1 to 64 elements gives one part, in order; an element without a value is
// malformed. A location with '?' that is absent, null or an empty string gives an empty part, but
// at least one part must have a value. The sum of an empty body, item or field is absent. An id
// through an array that would be longer than 2,047 bytes is the SHA-256 of its parts, in hex.
func (e *Expr) Eval(in *Input) (Value, error) {
	r := newReading(in, e)
	return r.strict(e, slots{})
}

// token is the value at one location.
type token struct {
	kind tokenKind // tokenString for text that is not JSON
	raw  []byte    // a JSON string without its quotes; a number as sent
	text string    // if raw is nil
}

func (t token) absent() bool { return t.kind == tokenAbsent || t.kind == tokenNull }

// reading reads from one request. Each document is scanned once, when a location in it is first
// needed.
type reading struct {
	in      *Input
	body    document
	item    document
	outer   document
	bodySum string           // cached value of sha256:body
	forms   map[string]field // cached fields
}

type field struct {
	token token
	err   error
}

// newReading prepares a reading for the paths of all exprs. The slots of an expression follow those
// of the expressions before it.
func newReading(in *Input, exprs ...*Expr) *reading {
	r := new(reading)
	r.begin(in, exprs...)
	return r
}

// begin prepares r, which is zero or ended, as newReading does.
func (r *reading) begin(in *Input, exprs ...*Expr) {
	r.in = in
	r.body.raw, r.item.raw, r.outer.raw = in.Body, in.Item, in.Outer
	if d := in.Document; d != nil {
		r.body.raw = d.JSON
		r.body.xml, r.item.xml, r.outer.xml = d.XML, d.XML, d.XML
		r.body.scanned, r.body.err = d.Err != nil, d.Err
	}
	var all slots
	for _, e := range exprs {
		all = all.behind(e)
	}
	r.body.room(all.body)
	r.item.room(all.item)
	r.outer.room(all.outer)
	for _, e := range exprs {
		if e != nil {
			r.body.add(e.bodyPaths)
			r.item.add(e.itemPaths)
			r.outer.add(e.outerPaths)
		}
	}
}

// end forgets everything but the memory for hits.
func (r *reading) end() {
	*r = reading{body: r.body.emptied(), item: r.item.emptied(), outer: r.outer.emptied()}
}

// slots holds the first slot of an expression in each document of a reading.
type slots struct{ body, item, outer int }

// behind returns the first slots of the expression that follows e.
func (s slots) behind(e *Expr) slots {
	if e == nil {
		return s
	}
	return slots{s.body + len(e.bodyPaths), s.item + len(e.itemPaths), s.outer + len(e.outerPaths)}
}

// turn replaces the item. It keeps the scan of the enclosing element if the next item has the same.
func (r *reading) turn(item, outer []byte) {
	r.item.reset(item)
	same := len(outer) == len(r.outer.raw) && (len(outer) == 0 || &outer[0] == &r.outer.raw[0])
	if !same {
		r.outer.reset(outer)
	}
}

// find returns the value at l, which has no "[]". It fails if the value is ambiguous or the
// document invalid.
func (r *reading) find(l *leaf, base slots) (token, error) {
	switch l.Kind {
	case Body:
		return r.body.find(base.body + l.slot)
	case Item:
		return r.item.find(base.item + l.slot)
	case Outer:
		if len(r.outer.raw) == 0 {
			return token{}, nil
		}
		return r.outer.find(base.outer + l.slot)
	case Header:
		return r.header(l)
	case Form:
		return r.form(l.Name)
	case Query:
		return formValue(r.in.RawQuery, l.Name)
	case SHA256:
		if field := l.SummedField(); field != "" {
			return r.sumField(field)
		}
		return r.sum(l.In()), nil
	default:
		return token{kind: tokenString, text: l.Name}, nil
	}
}

// findEach returns the value at l in every element of its array, absent or not. It returns nothing
// if there is no array or no element.
func (r *reading) findEach(l *leaf, base slots) ([]token, error) {
	if l.Kind == Item {
		return r.item.findEach(base.item+l.slot, l.rest)
	}
	return r.body.findEach(base.body+l.slot, l.rest)
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

// form caches fields for the next item of a batch.
func (r *reading) form(name string) (token, error) {
	f, ok := r.forms[name]
	if !ok {
		f.token, f.err = formField(r.in.Body, name)
		if r.forms == nil {
			r.forms = make(map[string]field)
		}
		r.forms[name] = f
	}
	return f.token, f.err
}

// sum returns the sum of the body or of the item. The sum of no bytes is absent: it would be the id
// of every empty request.
func (r *reading) sum(of Kind) token {
	raw := r.item.raw
	if of == Body {
		raw = r.in.Body
	}
	if len(raw) == 0 {
		return token{}
	}
	text := r.bodySum
	if of == Item || text == "" {
		sum := sha256.Sum256(raw)
		text = hex.EncodeToString(sum[:])
	}
	if of == Body {
		r.bodySum = text
	}
	return token{kind: tokenString, text: text}
}

// sumField returns the sum of a decoded field of the form.
func (r *reading) sumField(name string) (token, error) {
	t, err := r.form(name)
	if err != nil || t.absent() || t.text == "" {
		return token{}, err
	}
	sum := sha256.Sum256([]byte(t.text))
	return token{kind: tokenString, text: hex.EncodeToString(sum[:])}, nil
}

func (r *reading) strict(e *Expr, base slots) (Value, error) {
	var absent error
	for _, alt := range e.alts {
		value, err := r.strictAlt(alt, base)
		if err == nil || !errors.Is(err, ErrAbsent) {
			return value, err
		}
		if absent == nil {
			absent = err
		}
	}
	return Value{}, absent
}

func (r *reading) strictAlt(alt []leaf, base slots) (Value, error) {
	parts := make([]string, 0, len(alt))
	present := false
	for i := range alt {
		before := len(parts)
		var err error
		if l := &alt[i]; l.Each {
			parts, err = r.strictEach(parts, l, base)
		} else {
			parts, err = r.strictOne(parts, l, base)
		}
		if err != nil {
			return Value{}, err
		}
		for _, part := range parts[before:] {
			present = present || part != ""
		}
	}
	if !present {
		return Value{}, fmt.Errorf("%s: %w", &alt[0], ErrAbsent)
	}
	return Value{Parts: shorten(parts)}, nil
}

func (r *reading) strictOne(parts []string, l *leaf, base slots) ([]string, error) {
	t, err := r.find(l, base)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", l, ErrMalformed, err)
	}
	if t.absent() && !l.Optional {
		return nil, fmt.Errorf("%s: %w", l, ErrAbsent)
	}
	return appendPart(parts, l, t)
}

func (r *reading) strictEach(parts []string, l *leaf, base slots) ([]string, error) {
	tokens, err := r.findEach(l, base)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w: %s", l, ErrMalformed, err)
	case len(tokens) == 0 && l.Optional:
		return append(parts, ""), nil
	case len(tokens) == 0:
		return nil, fmt.Errorf("%s: %w", l, ErrAbsent)
	}
	for _, t := range tokens {
		if parts, err = appendPart(parts, l, t); err != nil {
			return nil, err
		}
	}
	return parts, nil
}

func appendPart(parts []string, l *leaf, t token) ([]string, error) {
	part, err := t.part(l.Optional)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", l, ErrMalformed, err)
	}
	return append(parts, part), nil
}
