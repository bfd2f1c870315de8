package driver

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"slices"
	"time"
)

// Cursor is a place in a listing that is sorted by (time, key, id), newest first, ids by their bytes.
// The listings of events have no ids, that of jobs has no keys. The zero value is before the first row.
type Cursor struct {
	At  time.Time // of events and messages: when the event was received; precise to microseconds
	Key Key
	ID  string // of a message; "" for an event that is dead itself
}

// IsZero reports whether c is before the first row.
func (c Cursor) IsZero() bool { return c.At.IsZero() }

// String returns an opaque form for ParseCursor; "" for the zero value.
func (c Cursor) String() string {
	if c.IsZero() {
		return ""
	}
	at := binary.BigEndian.AppendUint64(nil, uint64(c.At.UnixMicro()))
	return cursorText(slices.Concat(at, c.Key[:], []byte(c.ID)))
}

const (
	// cursorSize is the size of a cursor without its id, in bytes.
	cursorSize = 8 + len(Key{})
	// maxCursorID limits the size of the id, in bytes.
	maxCursorID = 255
)

var errCursor = errors.New("malformed cursor: pass the value of \"next\" unchanged")

// ParseCursor reads the result of String.
func ParseCursor(s string) (Cursor, error) {
	if s == "" {
		return Cursor{}, nil
	}
	buf, err := cursorBytes(s)
	if err != nil || len(buf) < cursorSize || len(buf) > cursorSize+maxCursorID {
		return Cursor{}, errCursor
	}
	c := Cursor{
		At:  time.UnixMicro(int64(binary.BigEndian.Uint64(buf))).UTC(),
		Key: Key(buf[8:cursorSize]), ID: string(buf[cursorSize:]),
	}
	// A database stores no other years and texts. The zero value has another form.
	if year := c.At.Year(); year < 1 || year > 9999 || c.IsZero() || !IsText(c.ID) {
		return Cursor{}, errCursor
	}
	return c, nil
}

// cursorText returns the text of a cursor.
func cursorText(buf []byte) string { return base64.RawURLEncoding.EncodeToString(buf) }

// cursorBytes reads the result of cursorText, and accepts no other form of it.
func cursorBytes(s string) ([]byte, error) {
	buf, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil || cursorText(buf) != s { // the decoder ignores line breaks
		return nil, errCursor
	}
	return buf, nil
}
