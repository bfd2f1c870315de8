package locate

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Limits of an expression.
const (
	maxExpr     = 1024 // bytes
	maxAlts     = 8    // alternatives of one expression
	maxParts    = 8    // parts of one alternative
	maxSegments = 64   // segments of one path
)

// Kind is the part of a request that a location points into.
type Kind string

// The kinds of locations.
const (
	Header Kind = "header"
	Body   Kind = "body"
	Item   Kind = "item"
	Form   Kind = "form"
	Query  Kind = "query"
)

// Ref is one single location of an expression.
type Ref struct {
	Kind Kind
	// Name is a header's name in canonical form (http.CanonicalHeaderKey), a
	// path as it was written, or the name of a field or parameter.
	Name string
	Key  string // the key inside a header of pairs; "" if the whole header is meant
}

// String returns the location as it is written in settings.
func (r Ref) String() string {
	if r.Key != "" {
		return string(r.Kind) + ":" + r.Name + "#" + r.Key
	}
	return string(r.Kind) + ":" + r.Name
}

// Expr is a parsed location expression. It is immutable and safe for
// concurrent use.
type Expr struct {
	text string
	alts [][]leaf
	// The paths of all leaves that point into the body and into an item, so
	// that one scan of each document finds them all.
	bodyPaths, itemPaths []Path
}

// leaf is a Ref with what is needed to look it up.
type leaf struct {
	Ref
	slot int // index into the Expr's bodyPaths or itemPaths
}

// String returns the expression as it was given to Parse.
func (e *Expr) String() string { return e.text }

// Refs returns every single location of the expression, in order.
func (e *Expr) Refs() []Ref {
	var refs []Ref
	for _, alt := range e.alts {
		for _, l := range alt {
			refs = append(refs, l.Ref)
		}
	}
	return refs
}

// Uses reports whether the expression has a location of kind k.
func (e *Expr) Uses(k Kind) bool {
	return slices.ContainsFunc(e.Refs(), func(r Ref) bool { return r.Kind == k })
}

// DiffersByItem reports whether every alternative looks into the item of a
// batch, so that two items need not give the same value.
func (e *Expr) DiffersByItem() bool {
	for _, alt := range e.alts {
		if !slices.ContainsFunc(alt, func(l leaf) bool { return l.Kind == Item }) {
			return false
		}
	}
	return true
}

// Parse reads a location expression. Its errors name the part that is wrong.
func Parse(s string) (*Expr, error) {
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
			if err != nil {
				return nil, fmt.Errorf("location %q: %w", s, err)
			}
			leaves = append(leaves, l)
		}
		e.alts = append(e.alts, leaves)
	}
	return e, nil
}

func (e *Expr) parseLeaf(part string) (leaf, error) {
	if part == "" {
		return leaf{}, errors.New("nothing stands beside a '+' or '|'")
	}
	kind, rest, ok := strings.Cut(part, ":")
	if !ok {
		return leaf{}, fmt.Errorf("%q has no kind: write header:, body:, item:, form: or query: before it", part)
	}
	l := leaf{Ref: Ref{Kind: Kind(kind)}}
	if rest == "" {
		return leaf{}, fmt.Errorf("%q names nothing after the ':'", part)
	}
	var err error
	switch l.Kind {
	case Header:
		l.Name, l.Key, err = parseHeaderName(rest)
	case Body, Item:
		l.Name = rest
		l.slot, err = e.addPath(l.Kind, rest)
	case Form, Query:
		l.Name, err = unescape(rest)
	default:
		err = fmt.Errorf("kind %q is unknown: use header, body, item, form or query", kind)
	}
	if err != nil {
		return leaf{}, fmt.Errorf("%q: %w", part, err)
	}
	return l, nil
}

func (e *Expr) addPath(kind Kind, text string) (slot int, err error) {
	p, err := ParsePath(text)
	if err != nil {
		return 0, err
	}
	list := &e.bodyPaths
	if kind == Item {
		list = &e.itemPaths
	}
	*list = append(*list, p)
	return len(*list) - 1, nil
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

// Path is a way into a JSON document. The zero value is the document itself.
type Path struct {
	text string
	segs []segment
}

// segment is one step: into an object by key, or into an array by index.
type segment struct {
	key   string
	index int // -1 if key is no array index
}

// String returns the path as it was given to ParsePath.
func (p Path) String() string { return p.text }

// ParsePath reads a path: segments split by '.', where a segment of decimal
// digits is also an array index. "" is the document itself.
func ParsePath(s string) (Path, error) {
	p := Path{text: s}
	if s == "" {
		return p, nil
	}
	pieces := splitUnescaped(s, '.')
	if len(pieces) > maxSegments {
		return Path{}, fmt.Errorf("the path has more than %d segments", maxSegments)
	}
	for i, piece := range pieces {
		key, err := unescape(piece)
		if err != nil {
			return Path{}, err
		}
		if key == "" {
			return Path{}, fmt.Errorf("segment %d of the path is empty", i+1)
		}
		p.segs = append(p.segs, segment{key: key, index: arrayIndex(key)})
	}
	return p, nil
}

// arrayIndex returns the index that s spells, or -1. Only the plain decimal
// form counts, so that an element has one name.
func arrayIndex(s string) int {
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil || strconv.FormatUint(n, 10) != s {
		return -1
	}
	return int(n)
}

// splitUnescaped splits s at every sep that no backslash precedes. The
// backslashes stay.
func splitUnescaped(s string, sep byte) []string {
	var pieces []string
	start := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case sep:
			pieces = append(pieces, s[start:i])
			start = i + 1
		}
	}
	return append(pieces, s[start:])
}

func unescape(s string) (string, error) {
	if !strings.Contains(s, `\`) {
		return s, nil
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' {
			i++
			if i == len(s) || !strings.ContainsRune(`.+|\`, rune(s[i])) {
				return "", errors.New(`a '\' must be followed by '.', '+', '|' or '\'`)
			}
		}
		b.WriteByte(s[i])
	}
	return b.String(), nil
}
