package sdk

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hookonce/hookonce/internal/test/sdk/providers"
	"github.com/hookonce/hookonce/verify"
)

// change is a request after one change.
type change struct {
	kind    string // body, header, time, secret or age
	where   string
	request *providers.Request
}

func (c *change) String() string { return strings.TrimSpace("changed " + c.kind + " " + c.where) }

// changes returns copies of a signed request, each with one change that both sides must refuse. The
// error matches errNoTime if the change of the time is missing.
func (g *guard) changes(r *providers.Request) ([]change, error) {
	list := []change{{"secret", "", r}}
	list = append(list, g.headerChanges(r)...)
	list = append(list, g.queryChanges(r)...)
	if !g.bodyFree() {
		places, err := g.bodyPlaces(r.Body)
		if err != nil {
			return nil, err
		}
		for _, at := range places {
			changed := copied(r)
			changed.Body = changeByte(r.Body, at)
			list = append(list, change{"body", fmt.Sprintf("at byte %d", at), changed})
		}
	}
	changed, err := g.timeChange(r)
	if changed != nil {
		list = append(list, change{"time", "", changed})
	}
	return list, err
}

func copied(r *providers.Request) *providers.Request {
	c := *r
	c.Header = maps.Clone(r.Header)
	return &c
}

// derSequence begins an ECDSA signature in DER and base64. Its middle holds a length, which some SDKs ignore.
const derSequence = "ME"

// headerChanges changes one byte of each header of signedHeaders.
func (g *guard) headerChanges(r *providers.Request) []change {
	names := g.signedHeaders(r)
	list := make([]change, 0, len(names))
	for _, name := range names {
		changed, value := copied(r), r.Header[name]
		at := middle(value)
		if strings.HasPrefix(value, derSequence) {
			at = middle(value[:len(value)/2])
		}
		changed.Header[name] = changeByte(value, at)
		list = append(list, change{"header", name, changed})
	}
	return list
}

// queryChanges changes one byte of a signature in the query.
func (g *guard) queryChanges(r *providers.Request) []change {
	name, ok := strings.CutPrefix(g.sender.Scheme.At, "query:")
	before, rest, found := strings.Cut(r.Query, name+"=")
	if !ok || !found {
		return nil
	}
	changed := copied(r)
	value, _, _ := strings.Cut(rest, "&")
	changed.Query = before + name + "=" + changeByte(value, middle(value)) + rest[len(value):]
	return []change{{"header", "query parameter " + name, changed}}
}

// signedHeaders returns the names of the signature's header, and of those that the subject names.
func (g *guard) signedHeaders(r *providers.Request) []string {
	var names []string
	for name, value := range r.Header {
		signature := name == strings.ToLower(g.sender.Scheme.Header) || strings.HasSuffix(name, "-signature")
		if value != "" && (signature || slices.Contains(g.subject.Signed, name)) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// bodyFree reports whether the signature covers nothing of the body.
func (g *guard) bodyFree() bool {
	family := g.sender.Scheme.Family
	return family == verify.FamilyToken || family == verify.FamilyBasic
}

// bodyPlaces returns the places in the body to change, see Subject.Covered.
func (g *guard) bodyPlaces(body string) ([]int, error) {
	places := []int{firstPlain(body), middle(body), lastPlain(body)}
	covered := g.subject.Covered
	if g.sender.Verifier.Partial() != "" && covered == nil {
		return nil, errors.New("the signature covers only a part of the body: name texts in it by covered")
	}
	if covered != nil {
		places = nil
		if g.sender.Scheme.Header == "" {
			places = []int{middle(body)} // the signature: it has the longest run of letters and digits
		}
	}
	for _, text := range covered {
		at := strings.Index(body, text)
		if at < 0 {
			return nil, fmt.Errorf("the body does not hold %q of covered:\n%s", text, body)
		}
		places = append(places, at+middle(text))
	}
	places = slices.DeleteFunc(places, func(at int) bool { return at < 0 })
	slices.Sort(places)
	return slices.Compact(places), nil
}

// timeChange changes the last digit of the signed time. It returns nil if the scheme signs none, or
// signs it in a token, where every byte is a byte of a header.
func (g *guard) timeChange(r *providers.Request) (*providers.Request, error) {
	t := g.sender.Scheme.Timestamp
	if t == nil || strings.HasPrefix(t.At, "jwt:") {
		return nil, nil
	}
	now := time.UnixMilli(r.Now).UTC()
	for _, text := range []string{
		strconv.FormatInt(now.UnixMilli(), 10), strconv.FormatInt(now.Unix(), 10),
		now.Format("2006-01-02T15:04:05"), now.Format(http.TimeFormat), now.Format("15:04:05"),
	} {
		changed := copied(r)
		at := lastPlain(strings.TrimSuffix(text, "GMT"))
		other := changeByte(text, at)
		for name, value := range r.Header {
			changed.Header[name] = strings.Replace(value, text, other, 1)
		}
		if changed.Query = strings.Replace(r.Query, text, other, 1); strings.HasPrefix(t.At, "body:") || strings.HasPrefix(t.At, "form:") {
			changed.Body = strings.Replace(r.Body, text, other, 1)
		}
		if changed.Body != r.Body || changed.Query != r.Query || !maps.Equal(changed.Header, r.Header) {
			return changed, nil
		}
	}
	return nil, errNoTime
}

// errNoTime means that the signed time is not the time of the request.
var errNoTime = errors.New("the signed time is not found in the request")

func isPlain(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// changeByte returns the text with another letter or digit at a place. Digits and the letters of
// hexadecimal numbers stay such. A place outside the text changes nothing.
func changeByte(text string, at int) string {
	for at < len(text) && at >= 0 && !isPlain(text[at]) {
		at++
	}
	if at < 0 || at >= len(text) {
		return text
	}
	b := []byte(text)
	switch c := b[at]; c {
	case '9', 'f', 'F', 'z', 'Z':
		b[at] = map[byte]byte{'9': '8', 'f': 'e', 'F': 'E', 'z': 'y', 'Z': 'Y'}[c]
	default:
		b[at]++
	}
	return string(b)
}

// middle returns the middle of the longest run of letters and digits; -1 if there is none.
func middle(text string) int {
	best, length := -1, 0
	for i := 0; i < len(text); i++ {
		start := i
		for i < len(text) && isPlain(text[i]) {
			i++
		}
		if i-start > length {
			best, length = start+(i-start)/2, i-start
		}
	}
	return best
}

func firstPlain(text string) int {
	return strings.IndexFunc(text, func(r rune) bool { return r < 0x80 && isPlain(byte(r)) })
}

func lastPlain(text string) int {
	return strings.LastIndexFunc(text, func(r rune) bool { return r < 0x80 && isPlain(byte(r)) })
}
