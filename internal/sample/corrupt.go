package sample

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/hookonce/hookonce/verify"
)

// maxTries is how many bytes Corrupt tries, of each of the body, a header and
// the query.
const maxTries = 128

// Tolerance is how far the signed time may lie from now by the provider's own
// scheme; 0 where no time is signed.
func (s *Sender) Tolerance() time.Duration {
	switch t := s.Scheme.Timestamp; {
	case t != nil && t.Tolerance > 0:
		return t.Tolerance
	case t != nil || s.Scheme.Family == verify.FamilyStandardWebhooks:
		return verify.DefaultTolerance
	}
	return 0
}

// Corrupt changes one byte of a request that was signed with key, so that the
// signature no longer fits: a byte of the body, or where no change of that
// breaks the signature, of a header or of the query.
func (s *Sender) Corrupt(req *verify.Request, key verify.Key) error {
	broken := func(changed *verify.Request) bool {
		return s.Verifier.Verify(changed, []verify.Key{key}) != nil
	}
	if body, ok := change(string(req.Body), func(text string) bool {
		changed := *req
		changed.Body = []byte(text)
		return broken(&changed)
	}); ok {
		req.Body = []byte(body)
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(req.Header)) {
		if value, ok := change(req.Header[name][0], func(text string) bool {
			changed := *req
			changed.Header = req.Header.Clone()
			changed.Header.Set(name, text)
			return broken(&changed)
		}); ok {
			req.Header.Set(name, value)
			return nil
		}
	}
	if query, ok := change(req.RawQuery, func(text string) bool {
		changed := *req
		changed.RawQuery = text
		return broken(&changed)
	}); ok {
		req.RawQuery = query
		return nil
	}
	return errors.New("no change of a byte breaks its signature")
}

// change replaces one letter or digit of text by another, such that broken says
// so of the result; what surrounds it stays readable.
func change(text string, broken func(string) bool) (string, bool) {
	data := []byte(text)
	tries := 0
	// From the middle, where a JSON document has its values.
	for i := range data {
		at := (len(data)/2 + i) % len(data)
		other, ok := another(data[at])
		if !ok {
			continue
		}
		if tries++; tries > maxTries {
			break
		}
		changed := bytes.Clone(data)
		changed[at] = other
		if broken(string(changed)) {
			return string(changed), true
		}
	}
	return text, false
}

func another(c byte) (byte, bool) {
	switch {
	case c == 'z' || c == 'Z' || c == '9':
		return c - 1, true
	case c >= 'a' && c < 'z', c >= 'A' && c < 'Z', c >= '0' && c < '9':
		return c + 1, true
	}
	return c, false
}
