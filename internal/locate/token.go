package locate

import (
	"errors"
	"fmt"
	"unicode/utf16"
	"unicode/utf8"
)

// syntaxError returns an error for the byte at pos.
func syntaxError(pos int, why string) error {
	return fmt.Errorf("not valid JSON at byte %d: %s", pos, why)
}

func skipSpace(doc []byte, pos int) int {
	for pos < len(doc) {
		switch doc[pos] {
		case ' ', '\t', '\n', '\r':
			pos++
		default:
			return pos
		}
	}
	return pos
}

// scanString reads the string whose opening quote is at pos. It returns the position after the
// closing quote, and whether the string has escapes.
func scanString(doc []byte, pos int) (end int, escaped bool, err error) {
	for pos++; pos < len(doc); pos++ {
		if pos = skipPlain(doc, pos); pos == len(doc) {
			break
		}
		c := doc[pos]
		switch {
		case c == '"':
			return pos + 1, escaped, nil
		case c < ' ':
			return 0, false, syntaxError(pos, "a control character in a string")
		case c == '\\':
			escaped = true
			pos++
			if pos == len(doc) {
				continue
			}
			switch doc[pos] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			case 'u':
				if _, ok := hex4(doc[pos+1:]); !ok {
					return 0, false, syntaxError(pos, `\u without four hexadecimal digits`)
				}
				pos += 4
			default:
				return 0, false, syntaxError(pos, "an unknown escape in a string")
			}
		}
	}
	return 0, false, syntaxError(len(doc), "a string does not end")
}

func hex4(b []byte) (rune, bool) {
	if len(b) < 4 {
		return 0, false
	}
	var r rune
	for _, c := range b[:4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// scanNumber reads the number that starts at pos and returns its end.
func scanNumber(doc []byte, pos int) (end int, err error) {
	if doc[pos] == '-' {
		pos++
	}
	intStart := pos
	if pos = skipDigits(doc, pos); pos == intStart {
		return 0, syntaxError(pos, "a number without digits")
	}
	if doc[intStart] == '0' && pos > intStart+1 {
		return 0, syntaxError(pos, "a number with a leading zero")
	}
	if pos < len(doc) && doc[pos] == '.' {
		start := pos + 1
		if pos = skipDigits(doc, start); pos == start {
			return 0, syntaxError(pos, "a number that ends with a point")
		}
	}
	if pos < len(doc) && (doc[pos] == 'e' || doc[pos] == 'E') {
		pos++
		if pos < len(doc) && (doc[pos] == '+' || doc[pos] == '-') {
			pos++
		}
		start := pos
		if pos = skipDigits(doc, start); pos == start {
			return 0, syntaxError(pos, "a number without digits in its exponent")
		}
	}
	return pos, nil
}

func skipDigits(doc []byte, pos int) int {
	for pos < len(doc) && doc[pos] >= '0' && doc[pos] <= '9' {
		pos++
	}
	return pos
}

// scanScalar reads the string, number or literal that starts at pos.
func scanScalar(doc []byte, pos int) (k tokenKind, end int, err error) {
	if pos == len(doc) {
		return 0, 0, syntaxError(pos, "expected a value, but the document ends")
	}
	switch c := doc[pos]; {
	case c == '"':
		end, _, err = scanString(doc, pos)
		return tokenString, end, err
	case c == '-' || c >= '0' && c <= '9':
		end, err = scanNumber(doc, pos)
		return tokenNumber, end, err
	}
	for _, lit := range literals {
		if end = pos + len(lit.text); end <= len(doc) && string(doc[pos:end]) == lit.text {
			return lit.kind, end, nil
		}
	}
	return 0, 0, syntaxError(pos, "expected a value")
}

var literals = [...]struct {
	text string
	kind tokenKind
}{{"null", tokenNull}, {"true", tokenBool}, {"false", tokenBool}}

var errLoneSurrogate = errors.New(`a \u escape is half of a surrogate pair`)

// unquote returns the text of raw, a valid JSON string without its quotes. It stops after limit
// bytes of text. Half a surrogate pair becomes U+FFFD; then the error is errLoneSurrogate, and the
// text is still returned.
func unquote(raw []byte, limit int) (string, error) {
	var err error
	text := make([]byte, 0, min(len(raw), limit+utf8.UTFMax))
	for i := 0; i < len(raw) && len(text) <= limit; i++ {
		if raw[i] != '\\' {
			text = append(text, raw[i])
			continue
		}
		i++
		switch c := raw[i]; c {
		case 'b':
			text = append(text, '\b')
		case 'f':
			text = append(text, '\f')
		case 'n':
			text = append(text, '\n')
		case 'r':
			text = append(text, '\r')
		case 't':
			text = append(text, '\t')
		case 'u':
			r, size := unicodeEscape(raw[i+1:])
			if r == utf8.RuneError && size == 0 {
				err, size = errLoneSurrogate, 4
			}
			text = utf8.AppendRune(text, r)
			i += size
		default:
			text = append(text, c)
		}
	}
	return string(text), err
}

// unicodeEscape reads the digits after a \u, and the second escape of a surrogate pair. It returns
// the number of bytes read, or utf8.RuneError and 0 for half a pair.
func unicodeEscape(b []byte) (r rune, size int) {
	r, _ = hex4(b)
	if !utf16.IsSurrogate(r) {
		return r, 4
	}
	if len(b) >= 10 && b[4] == '\\' && b[5] == 'u' {
		low, _ := hex4(b[6:])
		if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
			return pair, 10
		}
	}
	return utf8.RuneError, 0
}
