package locate

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// Limits of an expression.
const (
	maxExpr     = 1024 // bytes
	maxAlts     = 8    // alternatives of one expression
	maxParts    = 8    // parts of one alternative
	maxSegments = 64   // segments of one path, and after each "[]" in it
	maxArrays   = 4    // "[]" of one path
)

// Kind is the part of a request that contains a location.
type Kind string

// The kinds of locations.
const (
	Header Kind = "header"
	Body   Kind = "body"
	Item   Kind = "item"
	Outer  Kind = "outer" // the array element that encloses the item
	Form   Kind = "form"
	Query  Kind = "query"
	SHA256 Kind = "sha256" // Ref.Name is "body", "item" or "form:" and a field
	Const  Kind = "const"
)

// Ref is one location of an expression.
type Ref struct {
	Kind Kind
	// Name is a header's name in canonical form (http.CanonicalHeaderKey), a path as written, the
	// name of a field or parameter, or the text of a constant.
	Name     string
	Key      string // key inside a header of pairs; "" for the whole header
	Each     bool   // the path goes into every element of an array
	Optional bool   // may be absent
}

// In returns the part of the request that the location reads: its Kind or, for a sum, the summed
// part.
func (r Ref) In() Kind {
	if r.Kind != SHA256 {
		return r.Kind
	}
	kind, _, _ := strings.Cut(r.Name, ":")
	return Kind(kind)
}

// SummedField returns the name of the summed form field, or "" for other locations.
func (r Ref) SummedField() string {
	if r.Kind != SHA256 {
		return ""
	}
	_, field, _ := strings.Cut(r.Name, ":")
	return field
}

// String returns the location as written in settings.
func (r Ref) String() string {
	text := string(r.Kind) + ":" + r.Name
	if r.Key != "" {
		text += "#" + r.Key
	}
	if r.Optional {
		text += "?"
	}
	return text
}

// Expr is a parsed location expression. It is immutable and safe for
// concurrent use.
type Expr struct {
	text string
	alts [][]leaf
	// The paths of all leaves in the body, in an item and in its enclosing element. One scan of
	// each document finds them all.
	bodyPaths, itemPaths, outerPaths []Path
}

// leaf is a Ref with the indexes to look it up.
type leaf struct {
	Ref
	slot int   // index into the Expr's bodyPaths, itemPaths or outerPaths
	rest *Path // with Each: the path inside an element
}

// String returns the text that Parse got.
func (e *Expr) String() string { return e.text }

// Refs returns all locations of the expression, in order.
func (e *Expr) Refs() []Ref {
	var refs []Ref
	for _, alt := range e.alts {
		for _, l := range alt {
			refs = append(refs, l.Ref)
		}
	}
	return refs
}

// Uses reports whether the expression reads k (see Ref.In).
func (e *Expr) Uses(k Kind) bool {
	return slices.ContainsFunc(e.Refs(), func(r Ref) bool { return r.In() == k })
}

// DiffersByItem reports whether every alternative reads the item of a batch even if all optional
// parts are absent, so that two items can have different values. An enclosing element is shared by
// items, so it does not count.
func (e *Expr) DiffersByItem() bool {
	for _, alt := range e.alts {
		elsewhere := func(l leaf) bool { return l.In() != Item }
		required := func(l leaf) bool { return l.In() == Item && !l.Optional }
		if slices.ContainsFunc(alt, elsewhere) && !slices.ContainsFunc(alt, required) {
			return false
		}
	}
	return true
}

// Parse parses a location expression. Errors name the faulty part. It refuses const:, which does
// not depend on the request.
func Parse(s string) (*Expr, error) { return parse(s, false) }

// ParseType is Parse for event types, which may contain a constant.
func ParseType(s string) (*Expr, error) { return parse(s, true) }

func parse(s string, constants bool) (*Expr, error) {
	if strings.TrimSpace(s) == "" {
		return nil, errors.New("the location is empty: write one such as body:id or header:Name")
	}
	if len(s) > maxExpr {
		return nil, fmt.Errorf("the location is longer than %d bytes", maxExpr)
	}
	e := &Expr{text: s}
	alts := splitUnescaped(s, '|')
	if len(alts) > maxAlts {
		return nil, fmt.Errorf("location %q has more than %d alternatives", s, maxAlts)
	}
	for _, alt := range alts {
		parts := splitUnescaped(alt, '+')
		if len(parts) > maxParts {
			return nil, fmt.Errorf("location %q composes more than %d parts", s, maxParts)
		}
		var leaves []leaf
		for _, part := range parts {
			l, err := e.parseLeaf(strings.TrimSpace(part))
			if err == nil && l.Kind == Const && !constants {
				err = fmt.Errorf("%q does not depend on the request: only event.type can contain a constant", l)
			}
			if err != nil {
				return nil, fmt.Errorf("location %q: %w", s, err)
			}
			leaves = append(leaves, l)
		}
		if err := e.oneArray(leaves); err != nil {
			return nil, fmt.Errorf("location %q: %w", s, err)
		}
		e.alts = append(e.alts, leaves)
	}
	return e, nil
}

// oneArray refuses compositions through two arrays: [1,2]+[3] and [1]+[2,3] would have equal parts.
func (e *Expr) oneArray(alt []leaf) error {
	var first *leaf
	for i := range alt {
		l := &alt[i]
		switch {
		case !l.Each:
		case l.rest.rest != nil:
			return fmt.Errorf("%q goes through more than one array; only a batch can", l)
		case first == nil:
			first = l
		case l.Kind != first.Kind || !slices.Equal(e.path(l).segs, e.path(first).segs):
			return fmt.Errorf("%q and %q go through two different arrays", first, l)
		}
	}
	return nil
}

func (e *Expr) path(l *leaf) Path {
	if l.Kind == Item {
		return e.itemPaths[l.slot]
	}
	return e.bodyPaths[l.slot]
}

func (e *Expr) parseLeaf(part string) (leaf, error) {
	if part == "" {
		return leaf{}, errors.New("a '+' or '|' needs a location on both sides")
	}
	kind, rest, ok := strings.Cut(part, ":")
	if !ok {
		return leaf{}, fmt.Errorf("%q has no kind: write header:, body:, item:, outer:, form:, query: or sha256: before it", part)
	}
	l := leaf{Ref: Ref{Kind: Kind(kind)}}
	rest, l.Optional = cutSuffix(rest, "?")
	if rest == "" && l.Kind != Body && l.Kind != Item {
		return leaf{}, fmt.Errorf("%q needs a name after the ':'", part)
	}
	var err error
	switch l.Kind {
	case Header:
		l.Name, l.Key, err = parseHeaderName(rest)
	case Body, Item, Outer:
		l.Name = rest
		err = e.addPath(&l)
	case Form, Query:
		l.Name, err = unescape(rest)
	case SHA256:
		l.Name, err = parseSummed(rest)
	case Const:
		if l.Name, err = unescape(rest); l.Optional {
			err = errors.New("a constant is always present: remove the '?', or write it as '\\?'")
		}
	default:
		err = fmt.Errorf("kind %q is unknown: use header, body, item, outer, form, query or sha256", kind)
	}
	if err != nil {
		return leaf{}, fmt.Errorf("%q: %w", part, err)
	}
	return l, nil
}

// parseSummed parses the part of a request that is summed.
func parseSummed(s string) (string, error) {
	if s == string(Body) || s == string(Item) {
		return s, nil
	}
	if field, ok := strings.CutPrefix(s, string(Form)+":"); ok && field != "" {
		field, err := unescape(field)
		return string(Form) + ":" + field, err
	}
	return "", errors.New("only the body, the item or a field can be summed: use sha256:body, sha256:item or sha256:form:field")
}

func (e *Expr) addPath(l *leaf) error {
	p, err := ParsePath(l.Name)
	if err != nil {
		return err
	}
	list := &e.bodyPaths
	switch {
	case l.Kind == Item:
		list = &e.itemPaths
	case l.Kind == Outer && p.rest != nil:
		return errors.New(`outer: does not allow "[]"`)
	case l.Kind == Outer:
		list = &e.outerPaths
	}
	l.slot, l.rest, l.Each = len(*list), p.rest, p.rest != nil
	*list = append(*list, p)
	return nil
}

func parseHeaderName(s string) (name, key string, err error) {
	s, err = unescape(s)
	if err != nil {
		return "", "", err
	}
	name, key, hasKey := strings.Cut(s, "#")
	if !ValidHeaderName(name) {
		return "", "", fmt.Errorf("%q is not a header name", name)
	}
	if hasKey && (key == "" || strings.ContainsAny(key, "=, \t")) {
		return "", "", fmt.Errorf("%q after the '#' is not a key", key)
	}
	return http.CanonicalHeaderKey(name), key, nil
}

// ValidHeaderName reports whether name is a token (RFC 9110, section 5.6.2).
func ValidHeaderName(name string) bool {
	for _, c := range []byte(name) {
		alnum := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !alnum && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return name != ""
}
