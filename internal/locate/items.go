package locate

import "fmt"

// MaxItems is the most items that one batch may have.
const MaxItems = 10_000

// Items returns the raw bytes of each element of the array at path in body,
// which must be a valid document as for Expr.Eval. They share the memory of
// body. An empty array is no error. Errors match ErrAbsent or ErrMalformed.
func Items(body []byte, path Path) ([][]byte, error) {
	hits := []hit{{path: path.segs}}
	err := scan(body, hits)
	h := hits[0]
	switch {
	case err != nil:
		return nil, fmt.Errorf("the batch: %w: %s", ErrMalformed, err)
	case h.bad != "":
		return nil, fmt.Errorf("the batch at body:%s: %w: %s", path, ErrMalformed, h.bad)
	case h.kind == tokenAbsent || h.kind == tokenNull:
		return nil, fmt.Errorf("the batch at body:%s: %w", path, ErrAbsent)
	case h.kind != tokenArray:
		return nil, fmt.Errorf("the batch at body:%s: %w: it is not an array", path, ErrMalformed)
	}
	items := elements(body[h.start:h.end])
	if len(items) > MaxItems {
		return nil, fmt.Errorf("the batch at body:%s: %w: it has more than %d items", path, ErrMalformed, MaxItems)
	}
	return items, nil
}

// elements splits a valid array, and stops behind MaxItems of them.
func elements(array []byte) [][]byte {
	var items [][]byte
	depth, start := 0, 0
	for pos := 0; pos < len(array) && len(items) <= MaxItems; pos++ {
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

// trim cuts the white space of JSON off both ends.
func trim(b []byte) []byte {
	b = b[skipSpace(b, 0):]
	for len(b) > 0 && skipSpace(b, len(b)-1) == len(b) {
		b = b[:len(b)-1]
	}
	return b[:len(b):len(b)]
}
