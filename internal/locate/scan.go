package locate

import (
	"bytes"
	"errors"
	"unicode/utf8"
)

// maxDepth bounds the nesting of a document, like encoding/json. The scanner needs one bit per
// level, so depth costs no stack.
const maxDepth = 10_000

type tokenKind uint8

const (
	tokenAbsent tokenKind = iota
	tokenString
	tokenNumber
	tokenBool
	tokenNull
	tokenObject
	tokenArray
)

// hit is the value at a path.
type hit struct {
	path  []segment
	kind  tokenKind
	start int    // of the raw value
	end   int    // 0 while the value is an open container
	bad   string // why the path is ambiguous, or ""

	// State of the scan: how many of the open containers lie on the path, whether the next value
	// does, which of its keys were seen (one bit per level), and the depth of the value if it is a
	// container.
	level     int
	next      bool
	seen      uint64
	openDepth int
}

// scanner reads one document from start to end, without recursion, and records the values at some
// paths.
type scanner struct {
	doc    []byte
	pos    int
	depth  int                  // open containers
	arrays [2]uint64            // bit n: the container at depth n+1 is an array
	deeper []uint64             // further bits; few documents are this deep, and this keeps scanner small on the stack
	index  [maxSegments + 1]int // of the current element, by depth
	hits   []hit
	armed  bool // the next value belongs to a hit
	reach  int  // length of the longest path: deeper keys match nothing
	// The document cannot be skipped in part, because it has a fault or is nested deeply.
	unskipped bool
}

// Unmarked returns doc without a byte order mark in front, which a reader may ignore (RFC 8259, section
// 8.1). encoding/json refuses it.
func Unmarked(doc []byte) []byte { return bytes.TrimPrefix(doc, []byte("\ufeff")) }

// scan checks that doc is exactly one JSON value in valid UTF-8, perhaps after a byte order mark, and
// fills in hits. The hits must have a path and be zero otherwise.
func scan(doc []byte, hits []hit) error {
	s := scanner{doc: doc}
	return s.scan(hits)
}

func (s *scanner) scan(hits []hit) error {
	if !utf8.Valid(s.doc) {
		return errors.New("not valid UTF-8")
	}
	s.hits, s.armed = hits, true
	for i := range hits {
		hits[i].next = true
		s.reach = max(s.reach, len(hits[i].path))
	}
	s.pos = len(s.doc) - len(Unmarked(s.doc))
	s.space()
	for {
		open, err := s.value()
		if err != nil {
			return err
		}
		if open {
			continue
		}
		more, err := s.afterValue()
		if err != nil || !more {
			return err
		}
	}
}

func (s *scanner) space() { s.pos = skipSpace(s.doc, s.pos) }

func (s *scanner) at(c byte) bool { return s.pos < len(s.doc) && s.doc[s.pos] == c }

func (s *scanner) inArray() bool {
	word, bit := s.level(s.depth - 1)
	return *word&bit != 0
}

// level returns the word and the bit of a level.
func (s *scanner) level(n int) (word *uint64, bit uint64) {
	i := n / 64
	if i < len(s.arrays) {
		return &s.arrays[i], 1 << (n % 64)
	}
	if i -= len(s.arrays); i == len(s.deeper) {
		s.deeper = append(s.deeper, 0)
	}
	return &s.deeper[i], 1 << (n % 64)
}

// value reads the value at pos. For a container that is not empty, it stops at the first inner
// value and reports true.
func (s *scanner) value() (open bool, err error) {
	isObject := s.at('{')
	if !isObject && !s.at('[') {
		kind, end, err := scanScalar(s.doc, s.pos)
		if err != nil {
			return false, err
		}
		s.note(kind, s.pos, end)
		s.pos = end
		return false, nil
	}
	if s.depth == maxDepth {
		return false, syntaxError(s.pos, "nested more than 10,000 levels deep")
	}
	s.open(isObject)
	s.pos++
	s.space()
	if isObject && s.at('}') || !isObject && s.at(']') {
		s.close()
		return false, nil
	}
	if s.depth > s.reach && s.skip(!isObject) {
		return false, nil
	}
	if isObject {
		return true, s.key()
	}
	s.matchIndex()
	return true, nil
}

// skip reads the rest of the innermost container, which no path enters. It reports false, and reads
// nothing, if it cannot: then the rest of the document is read value by value, to find the fault.
func (s *scanner) skip(array bool) bool {
	if s.unskipped || s.depth > maxDepth-maxSkipped {
		return false
	}
	end, ok := skip(s.doc, s.pos, array)
	if !ok {
		s.unskipped = true // otherwise each level of a faulty document would be read again
		return false
	}
	s.pos = end - 1
	s.close()
	return true
}

// afterValue reads from the end of a value to the next value. It reports false at the end of the
// document.
func (s *scanner) afterValue() (more bool, err error) {
	for {
		s.space()
		if s.depth == 0 {
			if s.pos != len(s.doc) {
				return false, syntaxError(s.pos, "expected the end of the document")
			}
			return false, nil
		}
		array := s.inArray()
		switch {
		case s.at(',') && array:
			s.pos++
			s.space()
			if s.depth <= maxSegments {
				s.index[s.depth]++
			}
			s.matchIndex()
			return true, nil
		case s.at(','):
			s.pos++
			s.space()
			return true, s.key()
		case s.at(']') && array, s.at('}') && !array:
			s.close()
		default:
			return false, syntaxError(s.pos, "expected a comma or a closing bracket")
		}
	}
}

// open records the container that starts at pos.
func (s *scanner) open(isObject bool) {
	kind := tokenArray
	if isObject {
		kind = tokenObject
	}
	s.note(kind, s.pos, 0)
	word, bit := s.level(s.depth)
	if isObject {
		*word &^= bit
	} else {
		*word |= bit
	}
	s.depth++
	if s.depth <= maxSegments {
		s.index[s.depth] = 0
	}
}

// close ends the innermost container, whose closing bracket is at pos.
func (s *scanner) close() {
	s.pos++
	if s.depth <= s.reach+1 {
		for i := range s.hits {
			h := &s.hits[i]
			if h.level == s.depth {
				h.level--
			}
			if h.openDepth == s.depth {
				h.end, h.openDepth = s.pos, 0
			}
		}
	}
	s.depth--
}

// note records a value for its hits. end is 0 for a container.
func (s *scanner) note(kind tokenKind, start, end int) {
	if !s.armed {
		return
	}
	s.armed = false
	for i := range s.hits {
		h := &s.hits[i]
		if !h.next {
			continue
		}
		h.next = false
		switch {
		case len(h.path) == s.depth:
			h.kind, h.start, h.end = kind, start, end
			if end == 0 {
				h.openDepth = s.depth + 1
			}
		case end == 0:
			h.level = s.depth + 1
		}
	}
}

// key reads an object's key and the colon after it.
func (s *scanner) key() error {
	if !s.at('"') {
		return syntaxError(s.pos, "expected a key in double quotes")
	}
	start := s.pos
	end, escaped, err := scanString(s.doc, start)
	if err != nil {
		return err
	}
	if s.depth <= s.reach {
		s.matchKey(s.doc[start+1:end-1], escaped)
	}
	s.pos = end
	s.space()
	if !s.at(':') {
		return syntaxError(s.pos, "expected a colon after the key")
	}
	s.pos++
	s.space()
	return nil
}

// live returns the segment that h expects in the innermost container, or nil.
func (s *scanner) live(h *hit) *segment {
	if h.level != s.depth || len(h.path) < s.depth {
		return nil
	}
	return &h.path[s.depth-1]
}

func (s *scanner) matchKey(raw []byte, escaped bool) {
	for i := range s.hits {
		h := &s.hits[i]
		seg := s.live(h)
		if seg == nil {
			continue
		}
		equal := string(raw) == seg.key
		if escaped {
			key, err := unquote(raw, len(seg.key))
			if equal = key == seg.key; equal && err != nil {
				h.bad = "a key on its path has half of a surrogate pair"
			}
		}
		if !equal {
			continue
		}
		bit := uint64(1) << (s.depth - 1)
		if h.seen&bit != 0 {
			h.bad = "a key on its path occurs twice"
			continue
		}
		h.seen |= bit
		h.next, s.armed = true, true
	}
}

func (s *scanner) matchIndex() {
	if s.depth > s.reach {
		return
	}
	for i := range s.hits {
		h := &s.hits[i]
		if seg := s.live(h); seg != nil && seg.index == s.index[s.depth] {
			h.next, s.armed = true, true
		}
	}
}
