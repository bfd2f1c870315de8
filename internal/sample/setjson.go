package sample

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hookonce/hookonce/internal/locate"
)

// SetJSON returns a JSON document with value, which is JSON, at path, in the syntax of package locate.
// Everything else stays byte for byte. Missing objects are created, an array grows by one element at
// most, and "[]" is the first element. The error says where the path stops.
func SetJSON(doc []byte, path string, value []byte) ([]byte, error) {
	p, err := locate.ParsePath(path)
	if err != nil {
		return nil, err
	}
	doc = locate.Unmarked(doc)
	if !json.Valid(doc) {
		return nil, errors.New("the body is not JSON")
	}
	return splice(bytes.TrimSpace(doc), p.Steps(), value, nil)
}

// splice sets the value below the steps that were taken.
func splice(doc []byte, steps []string, value []byte, taken []string) ([]byte, error) {
	if len(steps) == 0 {
		return value, nil
	}
	here := "the body"
	if len(taken) > 0 {
		here = strings.Join(taken, ".")
	}
	n, err := parts(doc)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s is %s, not an object or an array", here, kindOf(doc))
	case n.array && stepIndex(steps[0]) < 0:
		return nil, fmt.Errorf("%s is an array: name an element by its number, not %q", here, steps[0])
	case n.array && stepIndex(steps[0]) > len(n.parts):
		return nil, fmt.Errorf("%s has %d elements, so %d is the last one that can be set", here, len(n.parts), len(n.parts))
	}
	taken = append(taken, steps[0])
	if at, found := n.find(steps[0]); found {
		inner, err := splice(doc[at.start:at.end], steps[1:], value, taken)
		if err != nil {
			return nil, err
		}
		return slices.Concat(doc[:at.start], inner, doc[at.end:]), nil
	}
	added := nest(steps[1:], value)
	if !n.array {
		added = slices.Concat(quote(steps[0]), []byte(":"), added)
	}
	if len(n.parts) == 0 {
		return slices.Concat(doc[:1], added, doc[n.end:]), nil
	}
	last := n.parts[len(n.parts)-1].end
	return slices.Concat(doc[:last], []byte(","), added, doc[last:]), nil
}

// nest returns value inside new objects.
func nest(steps []string, value []byte) []byte {
	for _, step := range slices.Backward(steps) {
		if step == locate.Every {
			value = slices.Concat([]byte("["), value, []byte("]"))
			continue
		}
		value = slices.Concat([]byte("{"), quote(step), []byte(":"), value, []byte("}"))
	}
	return value
}

// node is an object or an array, with the places of its values.
type node struct {
	array bool
	parts []part
	end   int // the place of its last bracket
}

type part struct {
	name       string // of a member
	start, end int
}

// find returns the value of a step. Of equal names the last one counts, as in encoding/json.
func (n *node) find(step string) (part, bool) {
	if n.array {
		if i := stepIndex(step); i < len(n.parts) {
			return n.parts[i], true
		}
		return part{}, false
	}
	for _, p := range slices.Backward(n.parts) {
		if p.name == step {
			return p, true
		}
	}
	return part{}, false
}

// stepIndex returns the index of an element, or -1.
func stepIndex(step string) int {
	if step == locate.Every {
		return 0
	}
	if i, err := strconv.Atoi(step); err == nil && i >= 0 {
		return i
	}
	return -1
}

var errScalar = errors.New("neither an object nor an array")

// parts finds the values of an object or an array, which is valid JSON.
func parts(doc []byte) (*node, error) {
	dec := json.NewDecoder(bytes.NewReader(doc))
	open, err := dec.Token()
	if err != nil {
		return nil, err
	}
	bracket, is := open.(json.Delim)
	if !is {
		return nil, errScalar
	}
	n := &node{array: bracket == '['}
	for dec.More() {
		var p part
		if !n.array {
			name, err := dec.Token()
			if err != nil {
				return nil, err
			}
			p.name, _ = name.(string)
		}
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return nil, err
		}
		p.end = int(dec.InputOffset())
		p.start = p.end - len(raw)
		n.parts = append(n.parts, p)
	}
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	n.end = int(dec.InputOffset()) - 1
	return n, nil
}

// lookup returns the value at steps.
func lookup(doc []byte, steps []string) (json.RawMessage, bool) {
	for _, step := range steps {
		n, err := parts(doc)
		if err != nil || n.array && stepIndex(step) < 0 {
			return nil, false
		}
		at, found := n.find(step)
		if !found {
			return nil, false
		}
		doc = doc[at.start:at.end]
	}
	return doc, true
}

// kindOf names the kind of a JSON value that is no object and no array.
func kindOf(value []byte) string {
	switch value[0] {
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}
