package locate

import (
	"errors"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"
)

// MaxType is the maximum length of an event type in bytes; longer types are cut.
const MaxType = 255

// Fields holds the locations of an event's fields.
type Fields struct {
	// ID is read strictly (see Expr.Eval) and must be set.
	ID *Expr
	// Type and Time are read leniently; nil means that the sender sends none.
	Type, Time *Expr
}

// Reader reads the fields of the events of one request. It scans the body once for all items of a
// batch. It is not safe for concurrent use.
type Reader struct {
	fields *Fields
	r      reading
}

var readers = sync.Pool{New: func() any { return new(Reader) }}

// Reader returns a Reader of in. It ignores in.Item and in.Outer.
func (f *Fields) Reader(in *Input) *Reader {
	rd := readers.Get().(*Reader)
	rd.fields = f
	rd.r.begin(in, f.ID, f.Type, f.Time)
	return rd
}

// Close lets another request use the memory of rd. What Read has returned stays valid.
func (rd *Reader) Close() {
	rd.fields = nil
	rd.r.end()
	readers.Put(rd)
}

// Read returns the fields of one event. item is nil outside of batches; outer is nil if no element
// encloses the item (see BatchItem). Items in a row with the same outer, by memory, share one scan
// of it. The error is about the id alone, and matches ErrAbsent or ErrMalformed.
//
// An absent or unreadable type is "". A type is cut at a character boundary to 255 bytes. Control
// characters, invalid UTF-8 and halves of surrogate pairs become U+FFFD, so the type can be shown
// and matches no type written without them. The parts of a composite type are joined by ':'; absent
// parts that are optional or belong to an element are left out.
//
// A time is seconds or milliseconds since 1970 as a string or number (from 100,000,000,000 on they
// are milliseconds; seconds may have a fraction), or a text in one of these forms, in UTC unless it
// names a zone:
//
//	2025-10-09T08:53:20.5Z, ...+02:00    RFC 3339
//	2025-10-09T08:53:20+0200, ...20      ISO 8601
//	2025-10-09 08:53:20, ... UTC
//	Thu, 09 Oct 2025 08:53:20 GMT        RFC 1123, also with +0200
//
// An unreadable time, and a time before 1970, is the zero time. The result is in UTC.
func (rd *Reader) Read(item, outer []byte) (id Value, typ string, at time.Time, err error) {
	f, r := rd.fields, &rd.r
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

// lenient returns the text of the first alternative that is present; "" if there is none or it is
// unreadable.
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

// lenientParts adds the value at l to s.
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

// add adds a token unless it is absent.
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

// shown returns the text of a token for lenient reading.
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

// clean makes a type fit to be shown and stored.
func clean(s string) string {
	if len(s) <= MaxType && utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl) {
		return s
	}
	var b strings.Builder
	for _, c := range s { // range yields invalid bytes as U+FFFD
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
