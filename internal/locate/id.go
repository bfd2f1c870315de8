package locate

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxPart is the most bytes that one part of an event id may have.
const MaxPart = 255

// id returns the text of a token that is used as a part of an event id.
func (t token) id() (string, error) {
	text := t.text
	switch t.kind {
	case tokenString:
		if t.raw != nil {
			var err error
			if text, err = stringText(t.raw, MaxPart); err != nil {
				return "", err
			}
		}
	case tokenNumber:
		text = string(t.raw[:min(len(t.raw), MaxPart+1)])
	case tokenBool:
		return "", errors.New("it is true or false, not a string or number")
	case tokenArray:
		return "", errors.New("it is an array, not a string or number")
	default:
		return "", errors.New("it is an object, not a string or number")
	}
	return text, checkID(text)
}

// stringText returns the text of a JSON string without its quotes, cut
// somewhere behind limit bytes.
func stringText(raw []byte, limit int) (string, error) {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[:min(len(raw), limit+utf8.UTFMax)]), nil
	}
	return unquote(raw, limit)
}

func checkID(s string) error {
	switch {
	case len(s) > MaxPart:
		return fmt.Errorf("it is longer than %d bytes", MaxPart)
	case !utf8.ValidString(s):
		return errors.New("it is not valid UTF-8")
	case strings.TrimSpace(s) == "":
		return errors.New("it is empty or blank")
	case strings.ContainsFunc(s, unicode.IsControl):
		return errors.New("it has a control character")
	}
	return nil
}
