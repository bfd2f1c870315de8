package locate

import "fmt"

// maxOpen bounds how deeply texts inside texts are opened.
const maxOpen = 8

// OpenTexts returns a copy of doc with the texts that hold a JSON object or array replaced by it,
// also inside these, up to 8 deep. doc must be a valid document as for Expr.Eval. Keys and all
// other texts stay. The error matches ErrMalformed.
func OpenTexts(doc []byte) ([]byte, error) {
	if err := scan(doc, nil); err != nil {
		return nil, fmt.Errorf("%w: %s", ErrMalformed, err)
	}
	return openTexts(doc, maxOpen), nil
}

func openTexts(doc []byte, levels int) []byte {
	var out []byte
	copied := 0
	for pos := 0; pos < len(doc); pos++ {
		if doc[pos] != '"' {
			continue
		}
		end, _, _ := scanString(doc, pos)
		after := skipSpace(doc, end)
		isKey := after < len(doc) && doc[after] == ':'
		if inner, ok := openText(doc[pos+1:end-1], levels); ok && !isKey {
			out = append(append(out, doc[copied:pos]...), inner...)
			copied = end
		}
		pos = end - 1
	}
	return append(out, doc[copied:]...)
}

// openText returns the document inside raw, a string without its quotes.
func openText(raw []byte, levels int) ([]byte, bool) {
	if levels == 0 {
		return nil, false
	}
	text, err := unquote(raw, len(raw))
	if err != nil {
		return nil, false
	}
	doc := trim([]byte(text))
	if len(doc) == 0 || doc[0] != '{' && doc[0] != '[' || scan(doc, nil) != nil {
		return nil, false
	}
	return openTexts(doc, levels-1), true
}
