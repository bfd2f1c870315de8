package locate

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxPart bounds one part of an event id, in bytes.
const MaxPart = 255

// maxID bounds an id through an array, in bytes: the length of eight parts, the most without an
// array. A header carries the id.
const maxID = maxParts*(MaxPart+1) - 1

// shorten returns parts or, if they are too long, one part: their SHA-256.
func shorten(parts []string) []string {
	size := len(parts) - 1
	for _, p := range parts {
		size += len(p)
	}
	if size <= maxID {
		return parts
	}
	h := sha256.New()
	for _, p := range parts {
		var n [4]byte
		binary.BigEndian.PutUint32(n[:], uint32(len(p)))
		h.Write(n[:])
		h.Write([]byte(p))
	}
	return []string{hex.EncodeToString(h.Sum(nil))}
}

// part returns the text of a token as a part of an event id. An absent optional token is "".
func (t token) part(optional bool) (string, error) {
	switch empty := len(t.raw) == 0 && t.text == ""; {
	case optional && (t.absent() || t.kind == tokenString && empty):
		return "", nil
	case t.absent():
		return "", errors.New("an element of the array lacks it")
	}
	return t.id()
}

// id is part for a token that is present.
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

// stringText returns the text of a JSON string without its quotes, cut somewhere after limit bytes.
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
