package locate

// maxSkipped bounds the nesting of a container that skip reads: one bit per level.
const maxSkipped = 64

// skip reads the rest of a container that no location enters. pos is at its first key, or at its
// first value if it is an array; end is behind its closing bracket. ok is false for
// anything that a scanner refuses, and for more than maxSkipped levels. The scanner then names the fault.
func skip(doc []byte, pos int, array bool) (end int, ok bool) {
	var arrays uint64 // bit n: the container at level n is an array
	level := 0        // of the innermost container
	if array {
		arrays = 1
	}
	for {
		if arrays>>level&1 == 0 {
			if pos, ok = skipKey(doc, pos); !ok {
				return 0, false
			}
		}
		switch {
		case pos == len(doc):
			return 0, false
		case doc[pos] == '"':
			if pos, ok = skipString(doc, pos); !ok {
				return 0, false
			}
		case doc[pos] == '{' || doc[pos] == '[':
			closing := doc[pos] + 2 // in ASCII
			pos = skipSpace(doc, pos+1)
			if pos < len(doc) && doc[pos] == closing {
				pos++
				break
			}
			if level++; level == maxSkipped {
				return 0, false
			}
			arrays &^= 1 << level
			if closing == ']' {
				arrays |= 1 << level
			}
			continue
		default:
			var err error
			if _, pos, err = scanScalar(doc, pos); err != nil {
				return 0, false
			}
		}
		for {
			pos = skipSpace(doc, pos)
			if pos == len(doc) {
				return 0, false
			}
			c, closing := doc[pos], byte('}')
			if arrays>>level&1 != 0 {
				closing = ']'
			}
			pos++
			if c == ',' {
				pos = skipSpace(doc, pos)
				break
			}
			if c != closing {
				return 0, false
			}
			if level--; level < 0 {
				return pos, true
			}
		}
	}
}

// skipKey reads a key and the colon after it.
func skipKey(doc []byte, pos int) (value int, ok bool) {
	if pos == len(doc) || doc[pos] != '"' {
		return 0, false
	}
	if pos, ok = skipString(doc, pos); !ok {
		return 0, false
	}
	if pos = skipSpace(doc, pos); pos == len(doc) || doc[pos] != ':' {
		return 0, false
	}
	return skipSpace(doc, pos+1), true
}

// skipString reads the string whose opening quote is at start.
func skipString(doc []byte, start int) (end int, ok bool) {
	pos := skipPlain(doc, start+1)
	if pos < len(doc) && doc[pos] == '"' {
		return pos + 1, true
	}
	end, _, err := scanString(doc, start)
	return end, err == nil
}

// plain says which bytes stand for themselves in a string.
var plain = func() (is [256]bool) {
	for c := range is {
		is[c] = c >= ' ' && c != '"' && c != '\\'
	}
	return is
}()

// skipPlain returns the position of the first byte from pos on that is not plain.
func skipPlain(doc []byte, pos int) int {
	for pos < len(doc) && plain[doc[pos]] {
		pos++
	}
	return pos
}
