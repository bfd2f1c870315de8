package locate

import (
	"errors"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// MaxType is the most bytes that an event type keeps.
const MaxType = 255

// Fields says where the fields of an event stand.
type Fields struct {
	// ID is read strictly (see Expr.Eval) and must be set.
	ID *Expr
	// Type and Time are read leniently; nil means that the sender has none.
	Type, Time *Expr
}

// Reader reads the fields of the events of one request. It scans the body once
// for all the items of a batch. It is not safe for concurrent use.
type Reader struct {
	fields *Fields
	r      *reading
}

// Reader returns a Reader of in, whose Item it ignores.
func (f *Fields) Reader(in *Input) *Reader {
	return &Reader{fields: f, r: newReading(in, f.ID, f.Type, f.Time)}
}

// Read returns the fields of one event; item is nil outside of batches. The
// error is about the id alone, and matches ErrAbsent or ErrMalformed.
//
// A type that is absent or cannot be read is "". It is cut to 255 bytes at the
// end of a character; control characters, invalid UTF-8 and halves of
// surrogate pairs in it become U+FFFD, so that it can be shown and matches no
// type that was written without them. The parts of a composite one are joined
// by ':'.
//
// A time is an RFC 3339 text, or seconds or milliseconds since 1970 as a
// string or number (from 100,000,000,000 on they are milliseconds). What
// cannot be read, or lies before 1970, is the zero time. It is in UTC.
func (rd *Reader) Read(item []byte) (id Value, typ string, at time.Time, err error) {
	f, r := rd.fields, rd.r
	r.item.reset(item)
	id, err = r.strict(f.ID, 0, 0)
	if err != nil {
		return Value{}, "", time.Time{}, err
	}
	bodyBase, itemBase := len(f.ID.bodyPaths), len(f.ID.itemPaths)
	if f.Type != nil {
		typ = clean(r.lenient(f.Type, bodyBase, itemBase))
		bodyBase += len(f.Type.bodyPaths)
		itemBase += len(f.Type.itemPaths)
	}
	if f.Time != nil {
		at = parseTime(r.lenient(f.Time, bodyBase, itemBase))
	}
	return id, typ, at, nil
}

// lenient returns the text of the first alternative that is present, "" if
// there is none or if it cannot be read.
func (r *reading) lenient(e *Expr, bodyBase, itemBase int) string {
	for _, alt := range e.alts {
		text, err := r.lenientAlt(alt, bodyBase, itemBase)
		if err == nil {
			return text
		}
		if !errors.Is(err, ErrAbsent) {
			return ""
		}
	}
	return ""
}

func (r *reading) lenientAlt(alt []leaf, bodyBase, itemBase int) (string, error) {
	var text string
	for i := range alt {
		t, err := r.find(&alt[i], bodyBase, itemBase)
		if err != nil {
			return "", err
		}
		part := t.text
		switch {
		case t.kind == tokenAbsent || t.kind == tokenNull:
			return "", ErrAbsent
		case t.kind == tokenNumber:
			part = string(t.raw)
		case t.kind != tokenString:
			return "", ErrMalformed
		case t.raw != nil:
			part, _ = stringText(t.raw, MaxType)
		}
		if i > 0 {
			text += ":"
		}
		text += part
	}
	return text, nil
}

// clean makes a type fit to be shown and kept.
func clean(s string) string {
	if len(s) <= MaxType && utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl) {
		return s
	}
	var b strings.Builder
	for _, c := range s { // invalid bytes come as U+FFFD
		if unicode.IsControl(c) {
			c = utf8.RuneError
		}
		if b.Len()+utf8.RuneLen(c) > MaxType {
			break
		}
		b.WriteRune(c)
	}
	return b.String()
}

// Numbers from firstMillis on are milliseconds: as seconds they would lie in
// the year 5138 or later. From tooLate on they are neither.
const (
	firstMillis = 100_000_000_000
	tooLate     = 1000 * firstMillis
)

func parseTime(s string) time.Time {
	if s == "" {
		return time.Time{}
	}
	if n, ok := wholeNumber(s); ok {
		switch {
		case n < firstMillis:
			return time.Unix(n, 0).UTC()
		case n < tooLate:
			return time.UnixMilli(n).UTC()
		}
		return time.Time{}
	}
	t, ok := ParseRFC3339(s)
	if !ok || t.Unix() < 0 {
		return time.Time{}
	}
	return t.UTC()
}

// ParseRFC3339 reads a time in the form of RFC 3339 and in no other: the
// standard library also takes a comma for the point and an hour of one digit
// (https://go.dev/issue/54580).
func ParseRFC3339(s string) (time.Time, bool) {
	const form = "0000-00-00T00:00:00"
	if len(s) <= len(form) || strings.Contains(s, ",") {
		return time.Time{}, false
	}
	for i := range len(form) {
		isDigit := s[i] >= '0' && s[i] <= '9'
		if form[i] == '0' && !isDigit || form[i] != '0' && s[i] != form[i] {
			return time.Time{}, false
		}
	}
	t, err := time.Parse(time.RFC3339, s)
	return t, err == nil
}

// wholeNumber returns the number before the decimal point of s, if s is at
// most 15 digits and an optional fraction.
func wholeNumber(s string) (int64, bool) {
	whole, fraction, hasPoint := strings.Cut(s, ".")
	if _, ok := Digits(fraction, MaxType); hasPoint && !ok {
		return 0, false
	}
	return Digits(whole, 15)
}

// Digits reads a number that is written in 1 to most decimal digits alone. The
// result is meaningful for up to 18 of them.
func Digits(s string, most int) (int64, bool) {
	if s == "" || len(s) > most {
		return 0, false
	}
	var n int64
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int64(c-'0')
	}
	return n, true
}
