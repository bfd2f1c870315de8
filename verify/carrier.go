package verify

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/hookonce/hookonce/internal/locate"
)

// Limits of what carries the signatures.
const (
	maxSignatures = 16
	maxElements   = 64       // pairs of a list, signatures or not
	maxJSON       = 16 << 10 // bytes of the format json
)

// signatures are the encoded signatures of a request.
type signatures struct {
	n    int // how many there are
	seen int // how many there were, with those that lack the prefix
	text [maxSignatures]string
	// The signed time of each, if every group has its own; else "".
	time [maxSignatures]string
	more []string // what is beyond text: of senders with a header for each of many keys
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

// carrier is where and how the signatures, or a token, stand in a request.
type carrier struct {
	headers []string // canonical; of several, at least one must be there
	at      *place   // nil: in headers

	prefix   string
	optional bool // PrefixOptional
	format   string
	sep      string
	trim     bool     // blanks around an element are cut off
	keys     []string // Scheme.SignatureKeys; of pairs the value of the parameter
	timeKey  string   // the key of the time, if it stands among the signatures
	timed    bool     // the first element of a list is the time
}

// read takes the signatures, and the time if it stands among them, from req.
func (c *carrier) read(req *Request, s *signed) error {
	if c.at != nil {
		value, err := c.at.read(req, s.item)
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

// add takes one signature. One without the prefix matches nothing.
func (c *carrier) add(s *signed, text string) error {
	list := &s.signatures
	if most := max(maxSignatures, len(c.headers)); list.seen == most {
		return fmt.Errorf("%w: more than %d signatures", ErrMalformed, most)
	}
	list.seen++
	text, ok := strings.CutPrefix(text, c.prefix)
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

func (c *carrier) where() string {
	if c.at != nil {
		return c.at.ref.String()
	}
	return "header " + c.headers[0]
}

// parseKV reads "t=1,v1=aa".
func (c *carrier) parseKV(value string, s *signed) error {
	elements, times := 0, 0
	for element := range strings.SplitSeq(value, c.sep) {
		if c.trim {
			element = strings.Trim(element, " ")
		}
		key, val, ok := locate.CutPair(element)
		if elements++; !ok || elements > maxElements {
			return fmt.Errorf("%w: %s is not a list of at most %d key=value", ErrMalformed, c.where(), maxElements)
		}
		switch {
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

// parseGroups reads several of parseKV, split by single spaces, each of which has its own time.
func (c *carrier) parseGroups(value string, s *signed) error {
	groups := 0
	for group := range strings.SplitSeq(value, " ") {
		if groups++; groups > maxSignatures {
			return fmt.Errorf("%w: more than %d groups", ErrMalformed, maxSignatures)
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

// parseList reads "aa,bb", or with the time "1,aa,bb".
func (c *carrier) parseList(value string, s *signed) error {
	elements := 0
	for element := range strings.SplitSeq(value, c.sep) {
		if c.trim {
			element = strings.Trim(element, " ")
		}
		if elements++; element == "" || elements > maxElements {
			return fmt.Errorf("%w: %s is not a list of at most %d elements", ErrMalformed, c.where(), maxElements)
		}
		if c.timed && elements == 1 {
			s.time = element
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
		id, sig, ok := strings.Cut(element, "|")
		if elements++; !ok || elements > maxElements {
			return fmt.Errorf("%w: %s is not a list of at most %d id|signature", ErrMalformed, c.where(), maxElements)
		}
		if slices.Contains(c.keys, id) {
			if err := c.add(s, sig); err != nil {
				return err
			}
		}
	}
	return nil
}

// parseJSON reads base64 of {"signature": "aa"}.
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

// decodeJSONHeader decodes a header of the format json.
func decodeJSONHeader(value string) ([]byte, error) {
	if len(value) > maxJSON {
		return nil, ErrMalformed
	}
	if strings.ContainsAny(value, "\r\n") { // the decoder would skip them
		return nil, ErrMalformed
	}
	return base64.StdEncoding.Strict().DecodeString(value)
}

// write puts one encoded signature, and the time if it stands beside it, into
// req or into an item, which it returns.
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
		return c.at.write(req, s.item, value)
	}
	for _, name := range c.headers {
		req.Header.Del(name)
	}
	req.Header.Set(c.headers[0], value)
	return s.item, nil
}

// noSignature says why there is no signature to compare.
func (s *signatures) noSignature() error {
	if s.seen == 0 {
		return fmt.Errorf("%w: no signature of this scheme in what carries it", ErrMissing)
	}
	return fmt.Errorf("%w: a signature has another length or encoding than the scheme's", ErrMalformed)
}

// holds reports whether ref is within what carries the signatures.
func (c *carrier) holds(ref locate.Ref) bool {
	if c.at != nil {
		return c.at.ref.Kind == ref.Kind && c.at.ref.Name == ref.Name
	}
	return ref.Kind == locate.Header && slices.Contains(c.headers, ref.Name)
}
