package verify

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/hookonce/hookonce/internal/locate"
)

// maxTolerance bounds Timestamp.Tolerance. It is small enough that adding or removing one digit of
// a timestamp always leaves the tolerance.
const maxTolerance = 366 * 24 * time.Hour

// maxHeaders bounds the number of headers that may carry signatures.
const maxHeaders = 100

// Compile checks a scheme and returns its Verifier. It reports all faults at once, joined by
// errors.Join; each is a *FieldError. The Verifier keeps a copy of s.
func Compile(s Scheme) (*Verifier, error) {
	c := compiler{v: &Verifier{}}
	c.setParams(&s)
	c.v.name, c.v.family, c.v.partial = s.ID, s.Family, s.Partial
	if c.v.name == "" {
		c.v.name = string(s.Family)
	}
	switch s.Family {
	case FamilyHMAC, FamilyDigest, FamilySignature:
		c.content(&s)
	case FamilyStandardWebhooks:
		c.standardWebhooks(&s)
	case FamilyToken:
		c.token(&s)
	case FamilyBasic:
		c.unused(&s, "has no meaning for the family basic: leave it out", "require")
		c.v.method = basic{c.require(&s)}
	case FamilyJWT:
		c.jwt(&s)
		c.keySource(&s)
	case FamilyJWS:
		c.jws(&s)
		c.keySource(&s)
	case FamilyNone:
		c.unused(&s, "has no meaning for the family none: leave it out")
		c.v.method = none{}
	default:
		c.fault("family", "%q is unknown: use hmac, digest, signature, standard-webhooks, token, basic, jwt, jws or none", s.Family)
	}
	if len(c.faults) > 0 {
		return nil, errors.Join(c.faults...)
	}
	return c.v, nil
}

type compiler struct {
	v      *Verifier
	faults []error
	params []Param
	values map[string]string
	place  *place // the location of the signature, if in a form or query; else nil
}

func (c *compiler) fault(field, format string, args ...any) {
	c.faults = append(c.faults, &FieldError{Field: field, Problem: fmt.Sprintf(format, args...)})
}

// oneOf returns value, or the first of known if value is "". It reports an unknown value.
func (c *compiler) oneOf(field, value string, known ...string) string {
	if value == "" {
		return known[0]
	}
	if !slices.Contains(known, value) {
		c.fault(field, "%q is unknown: use %s", value, strings.Join(known, ", "))
	}
	return value
}

func (c *compiler) unset(field string, isSet bool, problem string) {
	if isSet {
		c.fault(field, "%s", problem)
	}
}

// unused reports every field that is set but not listed in used.
func (c *compiler) unused(s *Scheme, problem string, used ...string) {
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"header", s.Header != ""},
		{"at", s.At != ""},
		{"more_headers", len(s.MoreHeaders) > 0},
		{"document", s.Document != ""},
		{"each", s.Each != ""},
		{"encoding", s.Encoding != ""},
		{"prefix", s.Prefix != ""},
		{"prefix_optional", s.PrefixOptional},
		{"format", s.Format != ""},
		{"separator", s.Separator != ""},
		{"signature_keys", len(s.SignatureKeys) > 0},
		{"content", s.Content != ""},
		{"partial", s.Partial != ""},
		{"any_port", s.AnyPort},
		{"algorithm", s.Algorithm != ""},
		{"secret_encoding", s.SecretEncoding != ""},
		{"timestamp", s.Timestamp != nil},
		{"require", len(s.Require) > 0},
		{"jwt", s.JWT != nil},
		{"key_id", s.KeyID != ""},
		{"keys", s.Keys != nil},
	} {
		c.unset(f.name, f.set && !slices.Contains(used, f.name), problem)
	}
}

func (c *compiler) standardWebhooks(s *Scheme) {
	c.unused(s, "is fixed for standard-webhooks: leave it out", "algorithm", "secret_encoding", "timestamp")
	f := &standard{time: &timeRule{format: TimeUnix, tolerance: DefaultTolerance}, trio: trios[0]}
	f.arithmetic.content, f.codec = standardContent, EncodingBase64
	c.v.method = f
	if t := s.Timestamp; t != nil {
		f.time.tolerance = c.tolerance(t)
		c.oneOf("timestamp.format", t.Format, TimeUnix)
		c.standardTimestampAt(t.At, f)
	}
	if c.oneOf("algorithm", s.Algorithm, AlgorithmHMACSHA256, AlgorithmEd25519) == AlgorithmEd25519 {
		f.tag, f.public = "v1a", AlgorithmEd25519
		c.unset("secret_encoding", s.SecretEncoding != "", "ed25519 keys have an encoding of their own: leave it out")
		return
	}
	f.tag, f.keyed = "v1", true
	f.setHash(AlgorithmSHA256)
	f.secret = c.oneOf("secret_encoding", s.SecretEncoding, SecretWhsec, SecretRaw, SecretBase64, SecretHex)
}

// standardTimestampAt accepts the headers that the specification fixes. The first one says which
// headers sign sets.
func (c *compiler) standardTimestampAt(at string, f *standard) {
	if at == "" {
		return
	}
	e, err := locate.Parse(at)
	if err == nil {
		for _, r := range e.Refs() {
			if r.Kind != locate.Header || r.Key != "" || r.Name != trios[0].timestamp && r.Name != trios[1].timestamp {
				err = fmt.Errorf("%q is fixed for standard-webhooks: leave it out", at)
			}
		}
		if e.Refs()[0].Name == trios[1].timestamp {
			f.trio = trios[1]
		}
	}
	if err != nil {
		c.fault("timestamp.at", "%s", err)
	}
}

func (c *compiler) token(s *Scheme) {
	c.unused(s, "has no meaning for the family token: leave it out",
		"header", "at", "more_headers", "each", "prefix", "prefix_optional", "require", "partial")
	f := &token{each: c.each(s)}
	f.carrier = c.carrier(s)
	f.format = FormatPlain
	f.require = c.require(s)
	c.v.method = f
}

// carrier compiles the location and the prefix of the signatures.
func (c *compiler) carrier(s *Scheme) carrier {
	car := carrier{prefix: s.Prefix, optional: s.PrefixOptional}
	names := append([]string{s.Header}, s.MoreHeaders...)
	switch {
	case s.Header == "" && s.At != "":
		c.unset("more_headers", len(s.MoreHeaders) > 0, "the signature is not in a header: leave it out")
		names = nil
		car.at = c.signatureAt(s)
	case s.Header == "":
		c.fault("header", "name the header that carries the signature")
	case s.At != "":
		c.fault("at", "header says where the signature is: leave one of the two out")
	}
	if len(names) > maxHeaders {
		c.fault("more_headers", "more than %d headers", maxHeaders)
		names = names[:maxHeaders]
	}
	for i, name := range names {
		field := "header"
		if i > 0 {
			field = fmt.Sprintf("more_headers[%d]", i-1)
		}
		canonical := http.CanonicalHeaderKey(name)
		switch {
		case name != "" && !locate.ValidHeaderName(name) || name == "" && i > 0:
			c.fault(field, "%q is not a header name", name)
		case slices.Contains(car.headers, canonical):
			c.fault(field, "%q is named twice", name)
		}
		car.headers = append(car.headers, canonical)
	}
	c.unset("prefix_optional", s.PrefixOptional && s.Prefix == "", "there is no prefix")
	for _, char := range []byte(s.Prefix) {
		if char < ' ' || char > '~' {
			c.fault("prefix", "it holds a character that cannot stand in such a header")
			break
		}
	}
	return car
}

func (c *compiler) signatureAt(s *Scheme) *place {
	kinds := []locate.Kind{locate.Body, locate.Form, locate.Query}
	if s.Each != "" {
		kinds = append(kinds, locate.Item)
	}
	first, second, or := strings.Cut(s.At, " | ")
	at, err := parsePlace(first, kinds...)
	if err == nil && or {
		at.json, err = parsePlace(second, locate.Body)
	}
	switch {
	case err != nil:
		c.fault("at", "%s", err)
		return nil
	case s.Each != "" && at.ref.Kind != locate.Item:
		c.fault("at", "with each, it must be an item:path")
	case at.ref.Kind == locate.Body && at.ref.Name == "":
		c.fault("at", "the body itself cannot carry the signature")
	case or && (at.ref.Kind != locate.Form || at.json.ref.Name == "" || s.Content != "{vonage_params}" && s.Content != "{vonage_params}{secret}"):
		c.fault("at", "only form:field | body:path can be used, and only with {vonage_params}")
	case at.ref.Kind == locate.Form || at.ref.Kind == locate.Query:
		c.place = at
	}
	return at
}

func (c *compiler) each(s *Scheme) *place {
	if s.Each == "" {
		return nil
	}
	each, err := parsePlace(s.Each, locate.Body)
	if err != nil {
		c.fault("each", "%s", err)
		return nil
	}
	c.unset("header", s.Header != "", "with each, the signature stands in every item: use at")
	return each
}

func (c *compiler) require(s *Scheme) []requirement {
	var list []requirement
	for i, r := range s.Require {
		field := fmt.Sprintf("require[%d]", i)
		at, err := parsePlace(r.At, locate.Header, locate.Body, locate.Query, locate.Form, locate.Item)
		if err != nil {
			c.fault(field+".at", "%s", err)
		}
		if r.Equals == "" {
			c.fault(field+".equals", "set the value that it must have")
		}
		if parts := c.template(field+".equals", r.Equals); !c.lacks(r.Equals) {
			list = append(list, requirement{at, parts, c.requiredEach(field, &r)})
		}
	}
	return list
}

func (c *compiler) requiredEach(field string, r *Requirement) *locate.Batch {
	if r.Each == "" {
		return nil
	}
	each, err := locate.ParseBatch(r.Each)
	if err != nil {
		c.fault(field+".each", "%s", err)
	}
	if !strings.HasPrefix(r.At, "item:") {
		c.fault(field+".at", "%q is not in an item: use item:path", r.At)
	}
	return each
}

func (c *compiler) tolerance(t *Timestamp) time.Duration {
	switch {
	case t.Tolerance < 0:
		c.fault("timestamp.tolerance", "it is negative")
	case t.Tolerance > maxTolerance:
		c.fault("timestamp.tolerance", "it is longer than 366 days")
	case t.Tolerance > 0:
		return t.Tolerance
	}
	return DefaultTolerance
}
