package driver

import (
	"bytes"
	"context"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"
)

// ErrorGroups are groups of dead letters with the same kind of error, for the operator.
type ErrorGroups interface {
	// ErrorGroups lists the groups of dead letters: of dead messages by destination and signature, of
	// events that are dead themselves by source and signature. The order is that of GroupCursor. The
	// time of a call depends on the number of groups that it returns, not on the number of dead
	// letters: it counts at most MaxGroupCount of a group, and at most LaterGroupCount of each group
	// after it has counted GroupBudget.
	ErrorGroups(ctx context.Context, f *GroupFilter) (*GroupPage, error)
}

// Bounds of error groups.
const (
	MaxGroupCount    = 10_000 // dead letters that are counted in a group
	LaterGroupCount  = 1000   // the same, once a page has counted GroupBudget
	GroupBudget      = 20_000 // dead letters
	MaxGroupsVisited = 2000   // groups that a page looks at
	MaxSignature     = 200    // bytes of a signature
	maxSignatureText = 1000   // characters of an error that make its signature
)

// NoErrorSignature is the signature of a dead letter without an error text.
const NoErrorSignature = "(no error)"

// answered precedes the status in the error of an answer outside 2xx.
const answered = "answered "

// variable matches the parts of an error that differ between failures of the same kind: UUIDs, words
// with a digit (numbers, ids, hashes), and longer hexadecimal words. Its first alternative keeps the
// HTTP status of a destination's answer, behind the word "answered". The function error_signature of
// the PostgreSQL schema has the same expression.
var variable = regexp.MustCompile(
	`\b` + answered + `[0-9]{3}\b` +
		`|[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}` +
		`|[A-Za-z]*[0-9][0-9A-Za-z]*` +
		`|[0-9A-Fa-f]{8,}`)

func init() { variable.Longest() } // as PostgreSQL matches

// control matches control characters, so that a signature is one line and can be a parameter.
var control = regexp.MustCompile(`[\x00-\x1f\x7f-\x{9f}]+`)

// ErrorSignature returns the signature of an error text: the text with "#" for each UUID, each word
// with a digit and each hexadecimal word of 8 letters or more, and a space for control characters. It
// keeps an HTTP status behind the word "answered". Errors with the same signature belong
// to the same group. The result is valid UTF-8 without control characters, of 1 to MaxSignature bytes. It depends
// on the first 1,000 characters of text.
func ErrorSignature(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if text == "" {
		return NoErrorSignature
	}
	characters := 0
	for i := range text {
		if characters++; characters > maxSignatureText {
			text = text[:i]
			break
		}
	}
	signature := variable.ReplaceAllStringFunc(control.ReplaceAllLiteralString(text, " "), func(part string) string {
		if strings.HasPrefix(part, answered) {
			return part
		}
		return "#"
	})
	if len(signature) <= MaxSignature {
		return signature
	}
	end := MaxSignature
	for !utf8.RuneStart(signature[end]) {
		end--
	}
	return signature[:end]
}

// GroupFilter selects error groups. Zero fields select all.
type GroupFilter struct {
	// Source selects the groups of the events of a source that are dead themselves; Destination those
	// of messages. No group has both.
	Source      string
	Destination string
	Signature   string    // exact
	Since       time.Time // of failures at or after; older ones are not counted
	Until       time.Time // of failures before; later ones are not counted
	Limit       int       // 1 to 200; 0 means 50
	After       GroupCursor
}

// ErrorGroup is a group of dead letters.
type ErrorGroup struct {
	Source      string // "" for messages
	Destination string // "" for events that are dead themselves
	Signature   string // see ErrorSignature
	Count       int
	More        bool // there are more than Count
	FirstAt     time.Time
	LastAt      time.Time
	Sample      string // the error of the letter that failed last
}

// Cursor returns the place of the group in the listing.
func (g *ErrorGroup) Cursor() GroupCursor {
	return GroupCursor{Events: g.Destination == "", Name: g.Source + g.Destination, Signature: g.Signature}
}

// GroupPage is one page of error groups. With GroupFilter.Signature, Since or Until it may hold fewer
// groups than the limit, even none, although there are more.
type GroupPage struct {
	Groups []ErrorGroup
	Next   GroupCursor // zero on the last page
}

// GroupCursor is a place in a listing of error groups. Groups of messages come first, by destination
// and signature; then those of events, by source and signature; all by their bytes.
type GroupCursor struct {
	Events    bool   // among the groups of events
	Name      string // of the destination or source
	Signature string // never empty, except in the zero value and at the beginning of the groups of events
}

// IsZero reports whether c is before the first group.
func (c GroupCursor) IsZero() bool { return c == GroupCursor{} }

// String returns an opaque form for ParseGroupCursor; "" for the zero value.
func (c GroupCursor) String() string {
	if c.IsZero() {
		return ""
	}
	kind := "m"
	if c.Events {
		kind = "e"
	}
	return cursorText([]byte(kind + c.Name + "\x00" + c.Signature))
}

// maxGroupCursor limits the result of GroupCursor.String, in bytes.
const maxGroupCursor = 2048

// ParseGroupCursor reads the result of String.
func ParseGroupCursor(s string) (GroupCursor, error) {
	if s == "" {
		return GroupCursor{}, nil
	}
	buf, err := cursorBytes(s)
	if err != nil || len(s) > maxGroupCursor || !utf8.Valid(buf) || bytes.Count(buf, []byte{0}) != 1 || buf[0] != 'm' && buf[0] != 'e' {
		return GroupCursor{}, errCursor
	}
	name, signature, _ := strings.Cut(string(buf[1:]), "\x00")
	c := GroupCursor{Events: buf[0] == 'e', Name: name, Signature: signature}
	if c.IsZero() {
		return GroupCursor{}, errCursor
	}
	return c, nil
}
