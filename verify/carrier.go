package verify

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/hookonce/hookonce/internal/locate"
)

// Limits on the signatures of a request.
const (
	maxSignatures = 16
	maxElements   = 64       // elements of a list, signatures or not
	maxJSON       = 16 << 10 // bytes of a header in the format json
)

// signatures holds the encoded signatures of a request.
type signatures struct {
	n    int // signatures in text and more
	seen int // signatures in the request, including those without the prefix
	text [maxSignatures]string
	// The signed time of each signature in the format groups; else "".
	time [maxSignatures]string
	more []string // signatures that do not fit in text; used if the scheme reads many headers
}

// at returns signature i.
func (s *signatures) at(i int) string {
	if i < maxSignatures {
		return s.text[i]
	}
	return s.more[i-maxSignatures]
}

func (s *signatures) all() []string {
	return append(s.text[:min(s.n, maxSignatures):maxSignatures], s.more...)
}

// carrier reads and writes the signatures, or the token, of a request.
type carrier struct {
	headers []string // canonical names; if there are several, the request must have at least one
	at      *place   // nil if the signatures are in headers

	prefix   string
	optional bool // Scheme.PrefixOptional
	format   string
	sep      string
	keys     []string // Scheme.SignatureKeys; for pairs, the value of the parameter
	timeKey  string   // the key of the time in the format kv; "" if the time is elsewhere
	timed    bool     // the first element of a list is the time
}

// read reads the signatures from req, and the time if it stands beside them, into s.
func (c *carrier) read(req *Request, s *signed) error {
	if c.at != nil {
		value, err := c.at.of(req).read(req, s.item)
		if err != nil {
			return err
		}
		return c.parse(value, s)
	}
	found := 0
	for _, name := range c.headers {
		if len(c.headers) > 1 && len(req.Header[name]) == 0 {
			continue
		}
		value, err := single(req.Header, name)
		if err != nil {
			return err
		}
		found++
		if err := c.parse(value, s); err != nil {
			return err
		}
	}
	if found == 0 {
		return fmt.Errorf("%w: header %s", ErrMissing, c.headers[0])
	}
	return nil
}

// parse reads the signatures of one header or field. Empty elements of a list are ignored (RFC 9110, section
// 5.6.1), but counted.
func (c *carrier) parse(value string, s *signed) error {
	switch c.format {
	case FormatKV:
		return c.parseKV(value, s)
	case FormatGroups:
		return c.parseGroups(value, s)
	case FormatList:
		return c.parseList(value, s)
	case FormatPairs:
		return c.parsePairs(value, s)
	case FormatJSON:
		return c.parseJSON(value, s)
	}
	return c.add(s, value)
}

// add counts one signature, and stores it unless it lacks the required prefix.
func (c *carrier) add(s *signed, text string) error {
	list := &s.signatures
	if most := max(maxSignatures, len(c.headers)); list.seen == most {
		return fmt.Errorf("%w: more than %d signatures", ErrMalformed, most)
	}
	list.seen++
	text, ok := c.cutPrefix(text)
	switch {
	case !ok && !c.optional:
		return nil
	case list.n < maxSignatures:
		list.text[list.n] = text
	default:
		list.more = append(list.more, text)
	}
	list.n++
	return nil
}

// cutPrefix cuts the prefix off text. In the header Authorization it is a scheme: its case does not matter, and further
// spaces may follow (RFC 9110, sections 11.1 and 11.4).
func (c *carrier) cutPrefix(text string) (rest string, found bool) {
	n := len(c.prefix)
	if strings.HasSuffix(c.prefix, " ") && slices.Contains(c.headers, basicHeader) && len(text) >= n && strings.EqualFold(text[:n], c.prefix) {
		return strings.TrimLeft(text[n:], " "), true
	}
	return strings.CutPrefix(text, c.prefix)
}

func (c *carrier) where() string {
	if c.at != nil {
		return c.at.ref.String()
	}
	return "header " + c.headers[0]
}

// parseKV reads pairs such as "t=1,v1=aa".
func (c *carrier) parseKV(value string, s *signed) error {
	elements, times := 0, 0
	for element := range strings.SplitSeq(value, c.sep) {
		element = locate.TrimBlanks(element)
		key, val, ok := locate.CutPair(element)
		if elements++; !ok && element != "" || elements > maxElements {
			return fmt.Errorf("%w: %s is not a list of at most %d key=value", ErrMalformed, c.where(), maxElements)
		}
		switch {
		case element == "":
		case key == c.timeKey:
			if times++; times > 1 {
				return fmt.Errorf("%w: key %s in %s", ErrRepeated, key, c.where())
			}
			s.time = val
		case slices.Contains(c.keys, key):
			if err := c.add(s, val); err != nil {
				return err
			}
		}
	}
	if c.timeKey != "" && s.time == "" {
		return fmt.Errorf("%w: key %s in %s", ErrMissing, c.timeKey, c.where())
	}
	return nil
}

// parseGroups reads several lists in the format kv, separated by spaces. Each has its own time.
func (c *carrier) parseGroups(value string, s *signed) error {
	groups := 0
	for group := range strings.SplitSeq(value, " ") {
		if groups++; groups > maxSignatures {
			return fmt.Errorf("%w: more than %d groups", ErrMalformed, maxSignatures)
		}
		if group == "" {
			continue
		}
		first := s.signatures.n
		s.time = ""
		if err := c.parseKV(group, s); err != nil {
			return err
		}
		for i := first; i < s.signatures.n; i++ {
			s.signatures.time[i] = s.time
		}
	}
	return nil
}

// parseList reads "aa,bb", or "1,aa,bb" if the first element is the time.
func (c *carrier) parseList(value string, s *signed) error {
	elements, timed := 0, c.timed
	for element := range strings.SplitSeq(value, c.sep) {
		element = locate.TrimBlanks(element)
		if elements++; elements > maxElements {
			return fmt.Errorf("%w: %s is not a list of at most %d elements", ErrMalformed, c.where(), maxElements)
		}
		if element == "" {
			continue
		}
		if timed {
			s.time, timed = element, false
			continue
		}
		if err := c.add(s, element); err != nil {
			return err
		}
	}
	return nil
}

// parsePairs reads "id|aa&id|bb".
func (c *carrier) parsePairs(value string, s *signed) error {
	elements := 0
	for element := range strings.SplitSeq(value, c.sep) {
		element = locate.TrimBlanks(element)
		id, sig, ok := strings.Cut(element, "|")
		if elements++; !ok && element != "" || elements > maxElements {
			return fmt.Errorf("%w: %s is not a list of at most %d id|signature", ErrMalformed, c.where(), maxElements)
		}
		if ok && slices.Contains(c.keys, id) {
			if err := c.add(s, sig); err != nil {
				return err
			}
		}
	}
	return nil
}

// parseJSON reads the base64 form of {"signature": "aa"}.
func (c *carrier) parseJSON(value string, s *signed) error {
	doc, err := decodeJSONHeader(value)
	if err != nil {
		return fmt.Errorf("%w: %s is not base64 of JSON", ErrMalformed, c.where())
	}
	path, err := locate.ParsePath(c.keys[0])
	if err != nil {
		return fmt.Errorf("%w: %s", ErrMalformed, c.where())
	}
	text, found, err := jsonText(doc, path)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %s is not base64 of JSON", ErrMalformed, c.where())
	case found == 0 || text == "":
		return fmt.Errorf("%w: member %s of %s", ErrMissing, c.keys[0], c.where())
	}
	return c.add(s, text)
}

// decodeJSONHeader decodes a header in the format json.
func decodeJSONHeader(value string) ([]byte, error) {
	if len(value) > maxJSON {
		return nil, ErrMalformed
	}
	if strings.ContainsAny(value, "\r\n") { // the decoder would skip line breaks
		return nil, ErrMalformed
	}
	return base64.StdEncoding.Strict().DecodeString(value)
}

// write puts one encoded signature, and the time if it stands beside it, into req or into s.item.
// It returns the item.
func (c *carrier) write(req *Request, s *signed, sig string) ([]byte, error) {
	value := c.prefix + sig
	switch c.format {
	case FormatKV, FormatGroups:
		value = c.keys[0] + "=" + value
		if c.timeKey != "" {
			value = c.timeKey + "=" + s.time + c.sep + value
		}
	case FormatList:
		if c.timed {
			value = s.time + c.sep + value
		}
	case FormatPairs:
		value = c.keys[0] + "|" + value
	case FormatJSON:
		doc := map[string]string{c.keys[0]: value}
		if s.kid != "" {
			doc["kid"] = s.kid
		}
		raw, err := json.Marshal(doc)
		if err != nil {
			return nil, err
		}
		value = base64.StdEncoding.EncodeToString(raw)
	}
	if c.at != nil {
		return c.at.of(req).write(req, s.item, value)
	}
	for _, name := range c.headers {
		req.Header.Del(name)
	}
	req.Header.Set(c.headers[0], value)
	return s.item, nil
}

// noSignature returns the error for a request without a signature to compare.
func (s *signatures) noSignature() error {
	if s.seen == 0 {
		return fmt.Errorf("%w: the request carries no signature of this scheme", ErrMissing)
	}
	return fmt.Errorf("%w: no signature has the prefix, encoding and length of the scheme", ErrMalformed)
}

// holds reports whether ref points into the header or field of the signatures.
func (c *carrier) holds(ref locate.Ref) bool {
	if c.at != nil {
		return c.at.ref.Kind == ref.Kind && c.at.ref.Name == ref.Name
	}
	return ref.Kind == locate.Header && slices.Contains(c.headers, ref.Name)
}
