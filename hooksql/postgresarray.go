package hooksql

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// byteaArray scans a bytea[] of one dimension, which drivers return as text
// (https://www.postgresql.org/docs/current/arrays.html#ARRAYS-IO). NULL becomes a nil slice, as an
// element and as the whole.
type byteaArray struct{ into *[][]byte }

// Scan implements sql.Scanner.
func (a byteaArray) Scan(value any) error {
	var text string
	switch v := value.(type) {
	case nil:
		*a.into = nil
		return nil
	case string:
		text = v
	case []byte:
		text = string(v)
	default:
		return fmt.Errorf("cannot scan a %T as a bytea[]", value)
	}
	list, err := splitArray(text)
	if err != nil {
		return err
	}
	keys := make([][]byte, len(list))
	for i, element := range list {
		if element == nil {
			continue
		}
		if keys[i], err = readBytea(*element); err != nil {
			return err
		}
	}
	*a.into = keys
	return nil
}

var (
	errArray = errors.New("the text of an array is malformed")
	errBytea = errors.New("the text of a bytea is malformed")
)

// splitArray returns the elements of the text of an array; nil stands for NULL.
func splitArray(text string) ([]*string, error) {
	if len(text) < 2 || text[0] != '{' || text[len(text)-1] != '}' {
		return nil, errArray
	}
	text = text[1 : len(text)-1]
	list := []*string{}
	for text != "" {
		element, quoted, rest, err := cutElement(text)
		if err != nil {
			return nil, err
		}
		if !quoted && element == "NULL" {
			list = append(list, nil)
		} else {
			list = append(list, &element)
		}
		if text = rest; text == "" {
			return list, nil
		}
		if text = text[1:]; rest[0] != ',' || text == "" {
			return nil, errArray
		}
	}
	return list, nil
}

// cutElement returns the first element of the text between the braces, and the rest from the comma
// on.
func cutElement(text string) (element string, quoted bool, rest string, err error) {
	var plain []byte
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text):
			i++
			plain = append(plain, text[i])
		case c == '"' && !quoted && i == 0:
			quoted = true
		case c == '"' && quoted:
			return string(plain), true, text[i+1:], nil
		case c == ',' && !quoted && i > 0:
			return string(plain), false, text[i:], nil
		case !quoted && (c == '"' || c == '{' || c == '}' || c == ','), c == '\\':
			return "", false, "", errArray
		default:
			plain = append(plain, c)
		}
	}
	if quoted {
		return "", false, "", errArray
	}
	return string(plain), false, "", nil
}

// readBytea reads a bytea in either format of the setting bytea_output
// (https://www.postgresql.org/docs/current/datatype-binary.html).
func readBytea(text string) ([]byte, error) {
	if digits, ok := strings.CutPrefix(text, `\x`); ok {
		return hex.DecodeString(digits)
	}
	plain := make([]byte, 0, len(text))
	for ; text != ""; text = text[1:] {
		switch {
		case text[0] != '\\':
			plain = append(plain, text[0])
		case strings.HasPrefix(text, `\\`):
			plain = append(plain, '\\')
			text = text[1:]
		default:
			if len(text) < 4 {
				return nil, errBytea
			}
			c, err := strconv.ParseUint(text[1:4], 8, 8)
			if err != nil {
				return nil, errBytea
			}
			plain = append(plain, byte(c))
			text = text[3:]
		}
	}
	return plain, nil
}
