package sample

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/hookonce/hookonce/verify"
)

// maxTries is the maximum number of bytes that Corrupt tries in the body, in each header, and in
// the query.
const maxTries = 4096

// Tolerance returns the maximum distance of the signed time from now in the provider's own scheme;
// 0 if no time is signed.
func (s *Sender) Tolerance() time.Duration {
	switch t := s.Scheme.Timestamp; {
	case t != nil && t.Tolerance > 0:
		return t.Tolerance
	case t != nil || s.Scheme.Family == verify.FamilyStandardWebhooks:
		return verify.DefaultTolerance
	}
	return 0
}

// Corrupt changes one byte of a request that was signed with key, so that the signature no longer
// fits. It changes a byte of the body if any such change breaks the signature, otherwise a byte of
// a header or of the query.
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
	return errors.New("no change of a single byte breaks the signature")
}

// change replaces one letter or digit of text by another, so that broken accepts the result. The
// other bytes stay readable.
func change(text string, broken func(string) bool) (string, bool) {
	data := []byte(text)
	tries := 0
	// Start in the middle, where a JSON document has its values.
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
