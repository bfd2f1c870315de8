package verify

import (
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"errors"
	"fmt"
	"hash"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/hookonce/hookonce/internal/locate"
)

// maxTolerance keeps a tolerance so small that a timestamp with a digit more
// or less never lies within it.
const maxTolerance = 366 * 24 * time.Hour

// Verifier checks and makes the signatures of one scheme. It is immutable and
// safe for concurrent use.
type Verifier struct {
	name    string // of the scheme, for errors
	family  Family
	header  string // FamilyHMAC: canonical name of the signature's header
	tag     string // FamilyStandardWebhooks: "v1" or "v1a"
	prefix  string
	kv      bool
	sigKeys []string
	content []part
	codec   codec
	hash    func() hash.Hash // nil for Ed25519
	size    int              // of a decoded signature
	secret  string           // SecretEncoding
	time    *timeRule        // nil if the scheme has no signed time
}

// timeRule is a compiled Timestamp.
type timeRule struct {
	header, key string
	format      string
	tolerance   time.Duration
}

// maxSize is the size of the largest signature, of SHA-512 and of Ed25519.
const maxSize = sha512.Size

var hashes = map[string]struct {
	new  func() hash.Hash
	size int
}{
	AlgorithmSHA1:   {sha1.New, sha1.Size},
	AlgorithmSHA256: {sha256.New, sha256.Size},
	AlgorithmSHA384: {sha512.New384, sha512.Size384},
	AlgorithmSHA512: {sha512.New, sha512.Size},
}

// Compile checks a scheme. All its faults are reported at once, joined; each
// is a *FieldError. Later changes of s do not reach the Verifier.
func Compile(s Scheme) (*Verifier, error) {
	c := compiler{v: &Verifier{name: s.ID, family: s.Family}}
	if c.v.name == "" {
		c.v.name = string(s.Family)
	}
	switch s.Family {
	case FamilyHMAC:
		c.hmac(&s)
	case FamilyStandardWebhooks:
		c.standardWebhooks(&s)
	case FamilyNone:
		c.none(&s)
	default:
		c.fault("family", "%q is unknown: use hmac, standard-webhooks or none", s.Family)
	}
	if len(c.faults) > 0 {
		return nil, errors.Join(c.faults...)
	}
	return c.v, nil
}

type compiler struct {
	v      *Verifier
	faults []error
}

func (c *compiler) fault(field, format string, args ...any) {
	c.faults = append(c.faults, &FieldError{Field: field, Problem: fmt.Sprintf(format, args...)})
}

// oneOf returns value, or the first of known for "".
func (c *compiler) oneOf(field, value string, known ...string) string {
	if value == "" {
		return known[0]
	}
	if !slices.Contains(known, value) {
		c.fault(field, "%q is unknown: use %s", value, strings.Join(known, ", "))
	}
	return value
}

func (c *compiler) hmac(s *Scheme) {
	v := c.v
	switch {
	case s.Header == "":
		c.fault("header", "name the header that carries the signature")
	case !locate.ValidHeaderName(s.Header):
		c.fault("header", "%q is not a header name", s.Header)
	}
	v.header = http.CanonicalHeaderKey(s.Header)
	algorithm := c.oneOf("algorithm", s.Algorithm, AlgorithmSHA256, AlgorithmSHA1, AlgorithmSHA384, AlgorithmSHA512)
	v.hash, v.size = hashes[algorithm].new, hashes[algorithm].size
	v.codec = newCodec(c.oneOf("encoding", s.Encoding, EncodingHex, EncodingBase64, EncodingBase64URL))
	v.secret = c.oneOf("secret_encoding", s.SecretEncoding, SecretRaw, SecretBase64, SecretHex, SecretWhsec)
	v.prefix = s.Prefix
	c.format(s)
	c.content(s)
	c.timestamp(s)
}

func (c *compiler) format(s *Scheme) {
	v := c.v
	v.kv = c.oneOf("format", s.Format, FormatPlain, FormatKV) == FormatKV
	v.sigKeys = slices.Clone(s.SignatureKeys)
	switch {
	case v.kv && len(v.sigKeys) == 0:
		c.fault("signature_keys", "name at least one key that holds a signature, as the format is kv")
	case !v.kv && len(v.sigKeys) > 0:
		c.fault("signature_keys", "only the format kv has keys")
	}
	for _, key := range v.sigKeys {
		if _, _, ok := locate.CutPair(key + "="); !ok || strings.ContainsAny(key, ",=") {
			c.fault("signature_keys", "%q cannot be a key of a list key=value,key=value", key)
		}
	}
	for _, char := range []byte(s.Prefix) {
		if char < ' ' || char > '~' || v.kv && char == ',' {
			c.fault("prefix", "it holds a character that cannot stand in such a header")
			break
		}
	}
}

func (c *compiler) content(s *Scheme) {
	template := s.Content
	if template == "" {
		template = "{body}"
	}
	parts, err := parseTemplate(template)
	if err != nil {
		c.fault("content", "%s", err)
		return
	}
	c.v.content = parts
	if !has(parts, partBody) {
		c.fault("content", "it must hold {body}: a signature that does not cover the body fits any body")
	}
	if has(parts, partID) {
		c.fault("content", "{id} is known to standard-webhooks only: write {header:Name}")
	}
	if has(parts, partTimestamp) && s.Timestamp == nil {
		c.fault("content", "it holds {timestamp}, and no timestamp.at says where that stands")
	}
}

func (c *compiler) timestamp(s *Scheme) {
	t := s.Timestamp
	if t == nil {
		return
	}
	rule := &timeRule{format: c.oneOf("timestamp.format", t.Format, TimeUnix, TimeUnixMS, TimeRFC3339)}
	rule.tolerance = c.tolerance(t)
	c.v.time = rule
	at, err := locate.Parse(t.At)
	if err != nil {
		c.fault("timestamp.at", "%s", err)
		return
	}
	refs := at.Refs()
	if len(refs) != 1 || refs[0].Kind != locate.Header {
		c.fault("timestamp.at", "%q is not one header: use header:Name or header:Name#key", t.At)
		return
	}
	rule.header, rule.key = refs[0].Name, refs[0].Key
	signed := has(c.v.content, partTimestamp) ||
		slices.ContainsFunc(c.v.content, func(p part) bool { return p.kind == partHeader && p.text == rule.header })
	switch {
	case c.v.content != nil && !signed:
		c.fault("timestamp.at", "the content holds no {timestamp}: a time that is not signed protects nothing")
	case rule.header == c.v.header && !c.v.kv:
		c.fault("timestamp.at", "%q is the signature's header, whose format is not kv", t.At)
	case rule.header == c.v.header && (rule.key == "" || slices.Contains(c.v.sigKeys, rule.key)):
		c.fault("timestamp.at", "%q is where the signature stands", t.At)
	}
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

func (c *compiler) standardWebhooks(s *Scheme) {
	v := c.v
	c.unused(s, "is fixed for standard-webhooks: leave it out")
	v.codec = newCodec(EncodingBase64)
	v.content, _ = parseTemplate("{id}.{timestamp}.{body}")
	v.time = &timeRule{format: TimeUnix, tolerance: DefaultTolerance}
	if t := s.Timestamp; t != nil {
		v.time.tolerance = c.tolerance(t)
		c.oneOf("timestamp.format", t.Format, TimeUnix)
		c.standardTimestampAt(t.At)
	}
	if c.oneOf("algorithm", s.Algorithm, AlgorithmHMACSHA256, AlgorithmEd25519) == AlgorithmEd25519 {
		v.tag, v.size = "v1a", maxSize
		if s.SecretEncoding != "" {
			c.fault("secret_encoding", "ed25519 keys have an encoding of their own: leave it out")
		}
		return
	}
	v.tag = "v1"
	v.hash, v.size = sha256.New, sha256.Size
	v.secret = c.oneOf("secret_encoding", s.SecretEncoding, SecretWhsec, SecretRaw, SecretBase64, SecretHex)
}

// standardTimestampAt accepts the one place that the time can have, written
// down for people.
func (c *compiler) standardTimestampAt(at string) {
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
	}
	if err != nil {
		c.fault("timestamp.at", "%s", err)
	}
}

func (c *compiler) none(s *Scheme) {
	const problem = "has no meaning for the family none: leave it out"
	c.unused(s, problem)
	c.unset("algorithm", s.Algorithm != "", problem)
	c.unset("secret_encoding", s.SecretEncoding != "", problem)
	c.unset("timestamp", s.Timestamp != nil, problem)
}

// unused reports the fields that only FamilyHMAC reads.
func (c *compiler) unused(s *Scheme, problem string) {
	c.unset("header", s.Header != "", problem)
	c.unset("encoding", s.Encoding != "", problem)
	c.unset("prefix", s.Prefix != "", problem)
	c.unset("format", s.Format != "", problem)
	c.unset("signature_keys", len(s.SignatureKeys) > 0, problem)
	c.unset("content", s.Content != "", problem)
}

func (c *compiler) unset(field string, isSet bool, problem string) {
	if isSet {
		c.fault(field, "%s", problem)
	}
}

// NeedsURL reports whether the scheme signs the public URL, so that
// Request.URL must be set.
func (v *Verifier) NeedsURL() bool { return has(v.content, partURL) }

// NeedsKeys reports whether Verify needs a key: always, but for FamilyNone.
func (v *Verifier) NeedsKeys() bool { return v.family != FamilyNone }

// Covers reports whether the signature covers all that e can point at: the
// body, where it is signed, and those headers that are signed in such a way
// that a value cannot be lengthened or shortened at the expense of what stands
// beside it. What is not covered can be changed by whoever has seen one signed
// request.
func (v *Verifier) Covers(e *locate.Expr) bool {
	if v.family == FamilyNone {
		return false
	}
	for _, ref := range e.Refs() {
		switch ref.Kind {
		case locate.Body, locate.Item, locate.Form: // every content has {body}
		case locate.Header:
			if !v.coversHeader(ref) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

func (v *Verifier) coversHeader(ref locate.Ref) bool {
	if v.family == FamilyStandardWebhooks {
		return slices.ContainsFunc(trios[:], func(t trio) bool { return ref.Name == t.id || ref.Name == t.timestamp })
	}
	if t := v.time; t != nil && ref.Name == t.header && ref.Key == t.key && has(v.content, partTimestamp) {
		return true
	}
	return slices.ContainsFunc(v.content, func(p part) bool {
		return p.kind == partHeader && p.text == ref.Name && !p.loose
	})
}
