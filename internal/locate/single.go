package locate

import (
	"errors"
	"fmt"
	"unicode/utf8"
)

// Single returns the value at e, which must be one location without "[]". A string or number of a
// JSON document is returned as its text, null counts as absent, and any other value is returned as
// JSON. Single is for values that are compared or repeated, so it accepts up to limit bytes of any
// valid UTF-8; Eval accepts only ids. Errors match ErrAbsent or ErrMalformed.
func (e *Expr) Single(in *Input, limit int) (string, error) {
	if !e.IsSingle() {
		return "", fmt.Errorf("%s: %w: it is not one location", e, ErrMalformed)
	}
	l := &e.alts[0][0]
	t, err := newReading(in, e).find(l, slots{})
	if err != nil {
		return "", fmt.Errorf("%s: %w: %w", l, ErrMalformed, err)
	}
	if t.absent() {
		return "", fmt.Errorf("%s: %w", l, ErrAbsent)
	}
	text, err := t.bounded(limit)
	if err != nil {
		return "", fmt.Errorf("%s: %w: %w", l, ErrMalformed, err)
	}
	return text, nil
}

// IsSingle reports whether e is one location without parts, alternatives or "[]".
func (e *Expr) IsSingle() bool {
	return len(e.alts) == 1 && len(e.alts[0]) == 1 && !e.alts[0][0].Each
}

// bounded returns the text of a token, or an error if it is longer than limit.
func (t token) bounded(limit int) (string, error) {
	text := t.text
	var err error
	switch {
	case t.raw == nil:
	case t.kind == tokenString:
		text, err = stringText(t.raw, limit)
	default:
		text = string(t.raw[:min(len(t.raw), limit+1)])
	}
	switch {
	case err != nil:
	case len(text) > limit:
		err = fmt.Errorf("it is longer than %d bytes", limit)
	case !utf8.ValidString(text):
		err = errors.New("it is not valid UTF-8")
	}
	return text, err
}
