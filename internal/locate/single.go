package locate

import (
	"errors"
	"fmt"
	"unicode/utf8"
)

// Single returns what stands at e, which is one single location that goes through no
// "[]". A string or number of a JSON document counts as its text, null as absent, and
// anything else as the JSON that stands there. It is for what is compared and
// repeated, and so takes up to limit bytes of any valid UTF-8, where Eval takes only
// what can be an id. Errors match ErrAbsent or ErrMalformed.
func (e *Expr) Single(in *Input, limit int) (string, error) {
	if !e.IsSingle() {
		return "", fmt.Errorf("%s: %w: it is not one single location", e, ErrMalformed)
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

// IsSingle reports whether e is one location: neither composed, nor with
// alternatives, nor through an array.
func (e *Expr) IsSingle() bool {
	return len(e.alts) == 1 && len(e.alts[0]) == 1 && !e.alts[0][0].Each
}

// bounded returns the text of a token, or that it is longer than limit.
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
