package locate

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Text is the value at a path of a JSON document, as text: the content of a string, otherwise the
// JSON as written (true, 1.0).
type Text struct {
	Text    string
	Present bool // false for null
}

// Texts returns the values at paths in doc, which must be a valid document as for Expr.Eval. An
// object, an array or a key that occurs twice is an error that matches ErrMalformed.
func Texts(doc []byte, paths ...Path) ([]Text, error) {
	d := document{raw: doc}
	d.add(paths)
	texts := make([]Text, len(paths))
	for i := range paths {
		t, err := d.find(i)
		if paths[i].rest != nil {
			err = errEveryElement
		}
		if err == nil {
			texts[i], err = t.full()
		}
		if err != nil {
			return nil, fmt.Errorf("body:%s: %w: %s", paths[i], ErrMalformed, err)
		}
	}
	return texts, nil
}

var errEveryElement = errors.New("the path goes into every element of an array; use a path to one value")

func (t token) full() (Text, error) {
	switch t.kind {
	case tokenAbsent, tokenNull:
		return Text{}, nil
	case tokenString:
		text, err := stringText(t.raw, len(t.raw))
		return Text{text, true}, err
	case tokenNumber, tokenBool:
		return Text{string(t.raw), true}, nil
	}
	return Text{}, errors.New("it is an object or an array")
}

// SetText returns a copy of doc with the string text at path. It creates missing objects on the
// path, but not arrays.
func SetText(doc []byte, path Path, text string) ([]byte, error) {
	raw, err := json.Marshal(text)
	if err != nil {
		return nil, err
	}
	return SetRaw(doc, path, raw)
}

// SetRaw returns a copy of doc with raw, a valid JSON value, at path. It creates missing objects on
// the path, but not arrays.
func SetRaw(doc []byte, path Path, raw []byte) ([]byte, error) {
	if path.rest != nil {
		return nil, fmt.Errorf("body:%s: %w: %s", path, ErrMalformed, errEveryElement)
	}
	hits := make([]hit, len(path.segs)+1)
	for i := range hits {
		hits[i].path = path.segs[:i]
	}
	if err := scan(doc, hits); err != nil {
		return nil, fmt.Errorf("%w: %s", ErrMalformed, err)
	}
	deepest := len(path.segs)
	for deepest > 0 && hits[deepest].kind == tokenAbsent {
		deepest--
	}
	at := hits[deepest]
	switch {
	case at.bad != "":
		return nil, fmt.Errorf("body:%s: %w: %s", path, ErrMalformed, at.bad)
	case deepest == len(path.segs):
		return splice(doc, at.start, at.end, raw), nil
	case at.kind != tokenObject:
		return nil, fmt.Errorf("body:%s: %w: there is no object to set the value in", path, ErrAbsent)
	}
	missing := path.segs[deepest:]
	for i := len(missing) - 1; i >= 0; i-- {
		key, err := json.Marshal(missing[i].key)
		if err != nil {
			return nil, err
		}
		raw = append(append(key, ':'), raw...)
		if i > 0 {
			raw = append(append([]byte{'{'}, raw...), '}')
		}
	}
	if inside := skipSpace(doc, at.start+1); doc[inside] != '}' {
		raw = append(raw, ',')
	}
	return splice(doc, at.start+1, at.start+1, raw), nil
}

// splice returns a copy of doc with raw in place of doc[start:end].
func splice(doc []byte, start, end int, raw []byte) []byte {
	out := make([]byte, 0, len(doc)+len(raw))
	out = append(out, doc[:start]...)
	out = append(out, raw...)
	return append(out, doc[end:]...)
}
