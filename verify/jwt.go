package verify

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hookonce/hookonce/internal/locate"
)

// jwtLeeway is the leeway of a scheme without a Timestamp.
const jwtLeeway = time.Minute

// jwt is FamilyJWT.
type jwt struct {
	carrier
	whole      bool // the body is the token
	algorithms []string
	secret     string // Scheme.SecretEncoding of a shared secret
	claims     []claimRule
	expires    bool
	id         bool   // sign adds a jti
	kid        string // of a key without an id, for sign: verifiers fetch keys by it; "" where they do not
	timed      string // iat or exp, if Timestamp demands it; else ""
	leeway     time.Duration
	require    []requirement
}

// claimRule is a compiled Claim.
type claimRule struct {
	name     string
	equals   [][]part // alternatives: the claim must match one
	withBody bool
}

func (c *compiler) jwt(s *Scheme) {
	c.unused(s, "has no meaning for the family jwt: leave it out", "header", "at", "prefix", "prefix_optional", "partial",
		"secret_encoding", "timestamp", "require", "jwt", "keys")
	m := &jwt{leeway: jwtLeeway, whole: s.Header == "" && s.At == "body:"}
	c.v.method = m
	if m.whole {
		c.unset("prefix", s.Prefix != "", "the body itself is the token: leave it out")
	} else {
		m.carrier = c.carrier(s)
	}
	m.require = c.require(s)
	if s.Keys != nil {
		m.kid = anyKeyID
	}
	c.jwtTime(s, m)
	if s.JWT == nil {
		c.fault("jwt", "set the algorithms and claims of the token")
		return
	}
	m.algorithms = slices.Clone(s.JWT.Algorithms)
	m.expires, m.id = s.JWT.Expires, s.JWT.ID
	c.jwtAlgorithms(s, m)
	c.jwtClaims(s, m)
	if s.Partial == "" && !m.covers(locate.Ref{Kind: locate.Body}) {
		c.fault("jwt.claims", "no claim depends on the body, so the token fits any body: name the unsigned parts in partial")
	}
}

func (c *compiler) jwtTime(s *Scheme, m *jwt) {
	t := s.Timestamp
	if t == nil {
		return
	}
	m.leeway = c.tolerance(t)
	c.oneOf("timestamp.format", t.Format, TimeUnix)
	if m.timed = strings.TrimPrefix(t.At, "jwt:"); t.At != "jwt:iat" && t.At != "jwt:exp" {
		c.fault("timestamp.at", "%q is not a time of a token: use jwt:iat or jwt:exp", t.At)
	}
}

func (c *compiler) jwtAlgorithms(s *Scheme, m *jwt) {
	if len(m.algorithms) == 0 {
		c.fault("jwt.algorithms", "name at least one: the token must not choose")
		return
	}
	kind := algorithms[m.algorithms[0]].kind
	for _, name := range m.algorithms {
		switch alg, ok := algorithms[name]; {
		case !ok || strings.ToLower(name) == name: // a lower-case name belongs to another family
			c.fault("jwt.algorithms", "%q is unknown: use the names of RFC 7518, as HS256, RS256 or ES256", name)
		case alg.kind != kind:
			c.fault("jwt.algorithms", "%q takes another kind of key than %q", name, m.algorithms[0])
		}
	}
	switch {
	case kind == kindSecret:
		m.secret = c.oneOf("secret_encoding", s.SecretEncoding, SecretRaw, SecretBase64, SecretHex)
		c.unset("keys", s.Keys != nil, "the algorithms use a shared secret, not public keys: leave it out")
	default:
		c.unset("secret_encoding", s.SecretEncoding != "", "has no meaning for public keys: leave it out")
	}
}

func (c *compiler) jwtClaims(s *Scheme, m *jwt) {
	for i, claim := range s.JWT.Claims {
		field := fmt.Sprintf("jwt.claims[%d]", i)
		if claim.Name == "" {
			c.fault(field+".name", "name the claim")
		}
		rule := claimRule{name: claim.Name, withBody: claim.WithBody}
		for j, text := range append([]string{claim.Equals}, claim.Or...) {
			if text == "" {
				c.fault(field+".equals", "set the value that the claim must have")
			}
			if c.lacks(text) {
				if j == 0 { // otherwise only the alternatives in Or would count
					break
				}
				continue
			}
			rule.equals = append(rule.equals, c.template(field+".equals", text))
		}
		if len(rule.equals) > 0 {
			m.claims = append(m.claims, rule)
		}
	}
}

func (m *jwt) needsURL() bool {
	return requireURL(m.require) || slices.ContainsFunc(m.claims, func(r claimRule) bool {
		return slices.ContainsFunc(r.equals, func(parts []part) bool { return anyPart(parts, (*part).needsURL) })
	})
}

// covers reports whether some claim depends on the value at ref, in every one of its alternatives.
func (m *jwt) covers(ref locate.Ref) bool {
	if ref.Kind == locate.Const || m.whole && (ref.Kind == locate.Body || ref.Kind == locate.Item || ref.Kind == locate.Outer || ref.Kind == locate.SHA256) {
		return true
	}
	return slices.ContainsFunc(m.claims, func(r claimRule) bool {
		return !slices.ContainsFunc(r.equals, func(parts []part) bool { return !covers(parts, ref) })
	})
}

func (m *jwt) parseKey(text string) (Key, error) {
	if algorithms[m.algorithms[0]].kind == kindSecret {
		return parseSecret(m.secret, text)
	}
	return parsePublicKey(m.algorithms[0], text)
}

// token returns the token of a request, parsed but not verified.
func (m *jwt) token(req *Request) (*compact, error) {
	if m.whole {
		return parseCompact(string(req.Body), m.algorithms)
	}
	return m.compact(req, &signed{}, m.algorithms)
}

// compact returns the one token, or detached signature, of req.
func (c *carrier) compact(req *Request, s *signed, algorithms []string) (*compact, error) {
	if err := c.read(req, s); err != nil {
		return nil, err
	}
	if s.signatures.n != 1 {
		return nil, fmt.Errorf("%w: %s does not begin with %q", ErrMalformed, c.where(), c.prefix)
	}
	return parseCompact(s.signatures.text[0], algorithms)
}

func (m *jwt) namedKey(req *Request) (string, error) {
	t, err := m.token(req)
	if err != nil {
		return "", err
	}
	return t.kid, nil
}

func (m *jwt) verify(req *Request, keys []Key) error {
	t, err := m.token(req)
	if err != nil {
		return err
	}
	if err := t.signedBy(keys, t.payload); err != nil {
		return err
	}
	return m.holds(t, req)
}

// plausible implements keyNamer.
func (m *jwt) plausible(req *Request) error {
	t, err := m.token(req)
	if err != nil {
		return err
	}
	return m.holds(t, req)
}

// holds checks the claims of a token, and Scheme.Require.
func (m *jwt) holds(t *compact, req *Request) error {
	claims, err := object(t.claims)
	if err != nil {
		return fmt.Errorf("%w: the token's claims cannot be read: %w", ErrMalformed, err)
	}
	for i := range m.claims {
		if err := m.claims[i].check(claims, req); err != nil {
			return err
		}
	}
	if err := required(m.require, req, &signed{}); err != nil {
		return err
	}
	return m.checkTimes(claims, req.Now)
}

func (r *claimRule) check(claims map[string]json.RawMessage, req *Request) error {
	raw, there := claims[r.name]
	if !there {
		if r.withBody && len(req.Body) == 0 {
			return nil
		}
		return fmt.Errorf("%w: claim %s", ErrMissing, r.name)
	}
	for _, parts := range r.equals {
		want, err := render(parts, req, &signed{})
		if err != nil {
			return err
		}
		if claimIs(raw, string(want)) {
			return nil
		}
	}
	return fmt.Errorf("%w: claim %s has the wrong value", ErrMismatch, r.name)
}

// claimIs reports whether the claim, or an element of it if it is a list, equals want.
func claimIs(raw json.RawMessage, want string) bool {
	switch raw[0] {
	case '"':
		var text string
		return json.Unmarshal(raw, &text) == nil && text == want
	case '[':
		var list []json.RawMessage
		return json.Unmarshal(raw, &list) == nil && slices.ContainsFunc(list, func(element json.RawMessage) bool {
			return element[0] != '[' && claimIs(element, want)
		})
	case '{', 'n':
		return false
	}
	return string(raw) == want
}

// checkTimes checks exp, nbf and iat against now, cut to the second.
func (m *jwt) checkTimes(claims map[string]json.RawMessage, now time.Time) error {
	now = time.Unix(now.Unix(), 0)
	for _, name := range []string{"exp", "nbf", "iat"} {
		raw, there := claims[name]
		if !there {
			if name == m.timed || name == "exp" && m.expires {
				return fmt.Errorf("%w: claim %s", ErrMissing, name)
			}
			continue
		}
		at, ok := numericDate(raw)
		if !ok {
			return fmt.Errorf("%w: claim %s is not a time in seconds", ErrMalformed, name)
		}
		late, early := now.Sub(at) > m.leeway, at.Sub(now) > m.leeway
		switch {
		case late && (name == "exp" || name == "iat" && m.timed == "iat"):
			return fmt.Errorf("%w: by claim %s; the tolerance is %s", ErrTooOld, name, m.leeway)
		case early && (name == "nbf" || name == "iat" && m.timed == "iat"):
			return fmt.Errorf("%w: by claim %s; the tolerance is %s", ErrTooNew, name, m.leeway)
		}
	}
	return nil
}

// numericDate reads a NumericDate of RFC 7519, which may have a fraction.
func numericDate(raw json.RawMessage) (time.Time, bool) {
	seconds, err := strconv.ParseFloat(string(raw), 64)
	// Today is 1.7e9; a number above the limit is in milliseconds.
	if err != nil || seconds < 0 || seconds > 99_999_999_999 {
		return time.Time{}, false
	}
	return time.UnixMilli(int64(seconds * 1000)), true
}

// sign makes a token with the claims that verify demands. If the body is the token, req.Body must
// be empty or a JSON object with further claims; the token replaces it.
func (m *jwt) sign(req *Request, key Key) error {
	if err := fulfil(m.require, req, &signed{}); err != nil {
		return err
	}
	claims := map[string]json.RawMessage{}
	if m.whole && len(req.Body) > 0 {
		var err error
		if claims, err = object(req.Body); err != nil {
			return fmt.Errorf("the body must be the claims of the token: %w", err)
		}
	}
	for i := range m.claims {
		r := &m.claims[i]
		value, err := render(r.equals[0], req, &signed{})
		if err != nil {
			return err
		}
		if r.withBody && len(req.Body) == 0 {
			continue
		}
		if text := string(value); text == "true" || text == "false" {
			claims[r.name] = value
		} else if claims[r.name], err = json.Marshal(text); err != nil {
			return err
		}
	}
	if m.id {
		claims["jti"] = []byte(`"` + rand.Text() + `"`)
	}
	claims["iat"] = strconv.AppendInt(nil, req.Now.Unix(), 10)
	if m.expires || m.timed == "exp" {
		claims["exp"] = strconv.AppendInt(nil, req.Now.Add(DefaultTolerance).Unix(), 10)
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		return err
	}
	encoded := segmentEncoding.EncodeToString(payload)
	header, signature, err := signCompact(m.algorithms, "JWT", m.kid, encoded, key)
	if err != nil {
		return err
	}
	text := header + "." + encoded + "." + signature
	if m.whole {
		req.Body = []byte(text)
		return nil
	}
	_, err = m.write(req, &signed{}, text)
	return err
}
