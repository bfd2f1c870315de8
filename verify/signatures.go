package verify

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/hookonce/hookonce/internal/locate"
)

// Limits of one signature header.
const (
	maxSignatures = 16
	maxElements   = 64 // pairs of a list, signatures or not
)

// signatures are the decoded signatures of a request.
type signatures struct {
	n    int // how many are in sig
	seen int // how many there were, with those that could not be decoded
	sig  [maxSignatures][maxSize]byte
}

// add decodes one signature. One that cannot be decoded matches nothing.
func (s *signatures) add(v *Verifier, text string) error {
	if s.seen++; s.seen > maxSignatures {
		return fmt.Errorf("%w: more than %d signatures", ErrMalformed, maxSignatures)
	}
	text, ok := strings.CutPrefix(text, v.prefix)
	if ok && v.codec.decode(s.sig[s.n][:v.size], text) {
		s.n++
	}
	return nil
}

// none says why there is no signature to compare.
func (s *signatures) none() error {
	if s.seen == 0 {
		return fmt.Errorf("%w: no signature of this scheme in the header", ErrMissing)
	}
	return fmt.Errorf("%w: a signature has another length or encoding than the scheme's", ErrMalformed)
}

// read takes from the request what the scheme signs with and by.
func (v *Verifier) read(req *Request, s *signed) error {
	if v.family == FamilyStandardWebhooks {
		return v.readStandard(req.Header, s)
	}
	value, err := single(req.Header, v.header)
	if err != nil {
		return err
	}
	if !v.kv {
		err = s.signatures.add(v, value)
	} else {
		err = v.readPairs(value, s)
	}
	if err != nil || v.time == nil || v.time.header == v.header {
		return err
	}
	s.time, err = v.time.read(req.Header)
	return err
}

// readPairs reads a signature header of the format kv.
func (v *Verifier) readPairs(value string, s *signed) error {
	timeKey := ""
	if v.time != nil && v.time.header == v.header {
		timeKey = v.time.key
	}
	elements, times := 0, 0
	for element := range strings.SplitSeq(value, ",") {
		key, val, ok := locate.CutPair(element)
		if elements++; !ok || elements > maxElements {
			return fmt.Errorf("%w: header %s is not a list of at most %d key=value", ErrMalformed, v.header, maxElements)
		}
		switch {
		case key == timeKey:
			if times++; times > 1 {
				return fmt.Errorf("%w: key %s in header %s", ErrRepeated, key, v.header)
			}
			s.time = val
		case slices.Contains(v.sigKeys, key):
			if err := s.signatures.add(v, val); err != nil {
				return err
			}
		}
	}
	if timeKey != "" && s.time == "" {
		return fmt.Errorf("%w: key %s in header %s", ErrMissing, timeKey, v.header)
	}
	return nil
}

// trio is the three headers of Standard Webhooks, in canonical form.
type trio struct{ id, timestamp, signature string }

// trios has the names of the specification first, then those of its forerunner.
var trios = [...]trio{
	{"Webhook-Id", "Webhook-Timestamp", "Webhook-Signature"},
	{"Svix-Id", "Svix-Timestamp", "Svix-Signature"},
}

// in reports whether h has any header of the trio.
func (t trio) in(h http.Header) bool {
	return len(h[t.id]) > 0 || len(h[t.timestamp]) > 0 || len(h[t.signature]) > 0
}

func (v *Verifier) readStandard(h http.Header, s *signed) error {
	t := trios[0]
	if trios[1].in(h) {
		if t.in(h) {
			return fmt.Errorf("%w: webhook- and svix- headers are mixed", ErrMalformed)
		}
		t = trios[1]
	}
	list, err := single(h, t.signature)
	if err != nil {
		return err
	}
	if s.id, err = single(h, t.id); err != nil {
		return err
	}
	if s.time, err = single(h, t.timestamp); err != nil {
		return err
	}
	if err := checkStandardID(s.id); err != nil {
		return err
	}
	elements := 0
	for element := range strings.SplitSeq(list, " ") {
		// An element without a comma is of no version that is known.
		version, sig, _ := strings.Cut(element, ",")
		if elements++; elements > maxSignatures || element == "" {
			return fmt.Errorf("%w: header %s is not a list of at most %d signatures", ErrMalformed, t.signature, maxSignatures)
		}
		if version == v.tag {
			if err := s.signatures.add(v, sig); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkStandardID refuses an id with a '.', which could move bytes between the
// id, the timestamp and the body without changing what is signed.
func checkStandardID(id string) error {
	if strings.Contains(id, ".") {
		return fmt.Errorf("%w: the id holds a '.'", ErrMalformed)
	}
	return nil
}

// setStandard sets the headers that Sign makes. Those of the other trio are
// removed: with both, the request would be malformed.
func setStandard(h http.Header, time, signature string) {
	for _, name := range []string{trios[1].id, trios[1].timestamp, trios[1].signature} {
		h.Del(name)
	}
	h.Set(trios[0].timestamp, time)
	h.Set(trios[0].signature, signature)
}
