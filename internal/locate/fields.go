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

// Reader returns a Reader of in, whose Item and Outer it ignores.
func (f *Fields) Reader(in *Input) *Reader {
	return &Reader{fields: f, r: newReading(in, f.ID, f.Type, f.Time)}
}

// Read returns the fields of one event; item is nil outside of batches, outer where
// nothing encloses the item (see BatchItem). What encloses several items in a row is
// scanned once if it is the same memory. The error is about the id alone, and matches
// ErrAbsent or ErrMalformed.
//
// A type that is absent or cannot be read is "". It is cut to 255 bytes at the
// end of a character; control characters, invalid UTF-8 and halves of
// surrogate pairs in it become U+FFFD, so that it can be shown and matches no
// type that was written without them. The parts of a composite one are joined
// by ':'; those that are optional or of an element, and absent, are left out.
//
// A time is seconds or milliseconds since 1970 as a string or number (from
// 100,000,000,000 on they are milliseconds; seconds may have a fraction), or a text
// in one of these forms, where what has no zone is in UTC:
//
//	2025-10-09T08:53:20.5Z, ...+02:00    RFC 3339
//	2025-10-09T08:53:20+0200, ...20      ISO 8601
//	2025-10-09 08:53:20, ... UTC
//	Thu, 09 Oct 2025 08:53:20 GMT        RFC 1123, also with +0200
//
// What cannot be read, or lies before 1970, is the zero time. It is in UTC.
func (rd *Reader) Read(item, outer []byte) (id Value, typ string, at time.Time, err error) {
	f, r := rd.fields, rd.r
	r.turn(item, outer)
	var base slots
	id, err = r.strict(f.ID, base)
	if err != nil {
		return Value{}, "", time.Time{}, err
	}
	base = base.behind(f.ID)
	if f.Type != nil {
		typ = clean(r.lenient(f.Type, base))
	}
	base = base.behind(f.Type)
	if f.Time != nil {
		at = parseTime(r.lenient(f.Time, base))
	}
	return id, typ, at, nil
}

// lenient returns the text of the first alternative that is present, "" if
// there is none or if it cannot be read.
func (r *reading) lenient(e *Expr, base slots) string {
	for _, alt := range e.alts {
		text, err := r.lenientAlt(alt, base)
		if err == nil {
			return text
		}
		if !errors.Is(err, ErrAbsent) {
			return ""
		}
	}
	return ""
}

func (r *reading) lenientAlt(alt []leaf, base slots) (string, error) {
	var s shownParts
	for i := range alt {
		l := &alt[i]
		before := s.count
		if err := r.lenientParts(&s, l, base); err != nil {
			return "", err
		}
		if s.count == before && !l.Optional {
			return "", ErrAbsent
		}
	}
	if s.count == 0 {
		return "", ErrAbsent
	}
	return s.text, nil
}

// lenientParts adds what stands at l to s.
func (r *reading) lenientParts(s *shownParts, l *leaf, base slots) error {
	if !l.Each {
		t, err := r.find(l, base)
		if err != nil {
			return err
		}
		return s.add(t)
	}
	tokens, err := r.findEach(l, base)
	for i := 0; i < len(tokens) && err == nil; i++ {
		err = s.add(tokens[i])
	}
	return err
}

// shownParts are joined by ':'.
type shownParts struct {
	text  string
	count int
}

// add adds a token, if it is there.
func (s *shownParts) add(t token) error {
	if t.absent() {
		return nil
	}
	text, err := t.shown()
	if s.count == 0 {
		s.text = text
	} else {
		s.text += ":" + text
	}
	s.count++
	return err
}

// shown returns the text of a token that is read leniently.
func (t token) shown() (string, error) {
	switch {
	case t.kind == tokenNumber:
		return string(t.raw), nil
	case t.kind != tokenString:
		return "", ErrMalformed
	case t.raw != nil:
		text, _ := stringText(t.raw, MaxType)
		return text, nil
	}
	return t.text, nil
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
