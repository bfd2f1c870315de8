package verify

import (
	"crypto/x509"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/hookonce/hookonce/internal/locate"
)

const (
	maxKeyURL      = 2048
	defaultMaxAge  = time.Hour
	longestMaxAge  = 7 * 24 * time.Hour
	defaultKIDForm = `[A-Za-z0-9_=+./-]{1,128}`
)

// keyNamer is a method whose requests can name their key.
type keyNamer interface {
	// namedKey returns the key's id; "" if the request names none.
	namedKey(req *Request) (string, error)
	// plausible returns the error that verify would return if the signature matched, as far as it
	// can be told without a key.
	plausible(req *Request) error
}

func (f *content) namedKey(req *Request) (string, error) {
	if f.keyID == nil {
		return "", nil
	}
	return f.keyID.read(req.Header)
}

// keySource is a compiled KeySource.
type keySource struct {
	url        []keyPiece
	urlAt      *place
	base       string
	host, path *regexp.Regexp // path is nil if any path is allowed
	kid        *regexp.Regexp
	needsKID   bool // the address or the body holds {kid}
	method     string
	body       []keyPiece
	header     map[string][]keyPiece
	format     string
	member     []string
	chain      string
	roots      *x509.CertPool // nil means the roots of the system
	maxAge     time.Duration
	unset      string // the name of a needed parameter that has no value; "" if none
	algorithm  string
}

// keyPiece is one piece of a template of a KeySource.
type keyPiece struct {
	text  string // a literal, or the value of a parameter
	kid   bool   // {kid}: text is ""
	param bool   // text is the value of a parameter
}

var keyPlaceholder = regexp.MustCompile(`\{(kid|param:[A-Za-z0-9_.-]+)\}`)

// keySource compiles Scheme.Keys. Call it after the scheme's algorithm is set.
func (c *compiler) keySource(s *Scheme) {
	k := s.Keys
	if k == nil {
		return
	}
	ks := &keySource{
		base: k.Base, chain: k.Chain, maxAge: k.MaxAge, algorithm: s.Algorithm,
		method: c.oneOf("keys.method", k.Method, http.MethodGet, http.MethodPost),
		format: c.oneOf("keys.format", k.Format, KeysJWKS, KeysJWK, KeysPEM, KeysCertificate, KeysSPKI),
		host:   c.whole("keys.host", k.Host),
		kid:    c.whole("keys.kid", defaultKIDForm),
		header: map[string][]keyPiece{},
	}
	c.v.keys = ks
	if s.JWT != nil && len(s.JWT.Algorithms) > 0 {
		ks.algorithm = s.JWT.Algorithms[0]
	}
	if k.Host == "" {
		c.fault("keys.host", "set the hosts that keys may be fetched from")
	}
	if k.Path != "" {
		ks.path = c.whole("keys.path", k.Path)
	}
	if k.KID != "" {
		ks.kid = c.whole("keys.kid", k.KID)
	}
	if k.Format == "" {
		c.fault("keys.format", "name the format of the keys: jwks, jwk, pem, certificate or spki")
	}
	c.unset("keys.chain", k.Chain != "" && k.Format != KeysCertificate, "applies only to the format certificate: leave it out")
	c.keyWhere(k, ks)
	c.keyRequest(k, ks)
	c.keyAge(k, ks)
	if p := k.Unset(&Scheme{Params: c.params, Values: c.values}); p != nil {
		ks.unset = p.Name
	}
}

// whole compiles a pattern that must match the whole text.
func (c *compiler) whole(field, pattern string) *regexp.Regexp {
	// Compile the pattern alone first: "a)|(b" would undo the anchors.
	if _, err := regexp.Compile(pattern); err != nil {
		c.fault(field, "it is not a regular expression: %s", err)
		return nil
	}
	return regexp.MustCompile(`\A(?:` + pattern + `)\z`)
}

func (c *compiler) keyWhere(k *KeySource, ks *keySource) {
	switch {
	case k.URL != "" && k.URLAt != "":
		c.fault("keys.url_at", "keys.url is set too: leave one of the two out")
	case k.URL == "" && k.URLAt == "":
		c.fault("keys.url", "set the address of the keys, or keys.url_at if the request names it")
		return
	case k.URLAt != "":
		at, err := parsePlace(k.URLAt, locate.Header, locate.Body)
		switch {
		case err != nil:
			c.fault("keys.url_at", "%s", err)
		case at.ref.Name == "":
			c.fault("keys.url_at", "the body itself cannot be an address")
		}
		ks.urlAt = at
		c.keyBase(k)
		return
	}
	c.unset("keys.base", k.Base != "", "applies only with keys.url_at: leave it out")
	ks.url = c.keyTemplate("keys.url", k.URL, ks)
	// A {kid} after a fixed host cannot change the host.
	authority, _, hasPath := strings.Cut(strings.TrimPrefix(k.URL, "https://"), "/")
	if strings.Contains(authority, "{kid}") || strings.Contains(k.URL, "{kid}") && !hasPath {
		c.fault("keys.url", "{kid} may stand in the path and query only")
	}
	if !strings.HasPrefix(k.URL, "https://") && !strings.HasPrefix(k.URL, "{param:") {
		c.fault("keys.url", "it must begin with https://")
	}
}

func (c *compiler) keyBase(k *KeySource) {
	if k.Base == "" {
		return
	}
	u, err := url.Parse(k.Base)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.Path != "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		c.fault("keys.base", "it must be https:// and a host: the request names the path")
	}
	if k.Path == "" {
		c.fault("keys.path", "say which paths the request may name")
	}
}

func (c *compiler) keyRequest(k *KeySource, ks *keySource) {
	if k.Body != "" {
		c.unset("keys.body", ks.method != http.MethodPost, "applies only to the method POST: leave it out")
		ks.body = c.keyTemplate("keys.body", k.Body, ks)
	}
	for _, name := range slices.Sorted(maps.Keys(k.Header)) {
		if !locate.ValidHeaderName(name) {
			c.fault("keys.header", "%q is not a header name", name)
		}
		pieces := c.keyTemplate("keys.header", k.Header[name], ks)
		for _, p := range pieces {
			if strings.ContainsFunc(p.text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
				c.fault("keys.header", "the value of %s has a control character", name)
			}
		}
		ks.header[http.CanonicalHeaderKey(name)] = pieces
	}
	if k.Member != "" {
		ks.member = strings.Split(k.Member, ".")
		if slices.Contains(ks.member, "") {
			c.fault("keys.member", "%q is not a path of members", k.Member)
		}
	}
}

func (c *compiler) keyAge(k *KeySource, ks *keySource) {
	switch {
	case k.MaxAge < 0 || k.MaxAge > longestMaxAge:
		c.fault("keys.max_age", "it must lie between 0 and %s", longestMaxAge)
	case k.MaxAge == 0:
		ks.maxAge = defaultMaxAge
	}
}

// keyTemplate parses a template of {kid} and {param:name}. Everything else is text, including other
// braces, which belong to a JSON document.
func (c *compiler) keyTemplate(field, text string, ks *keySource) []keyPiece {
	var pieces []keyPiece
	for text != "" {
		at := keyPlaceholder.FindStringIndex(text)
		if at == nil {
			return append(pieces, keyPiece{text: text})
		}
		if at[0] > 0 {
			pieces = append(pieces, keyPiece{text: text[:at[0]]})
		}
		word, name, _ := strings.Cut(text[at[0]+1:at[1]-1], ":")
		text = text[at[1]:]
		if word == "kid" {
			pieces = append(pieces, keyPiece{kid: true})
			ks.needsKID = true
			continue
		}
		if !slices.ContainsFunc(c.params, func(p Param) bool { return p.Name == name }) {
			c.fault(field, "{param:%s} is not one of the scheme's params", name)
		}
		pieces = append(pieces, keyPiece{text: c.values[name], param: true})
	}
	return pieces
}

// FetchesKeys reports whether KeyRef can tell where to fetch public keys. If not, keys must be
// given: the scheme has no Keys, or a parameter that they need has no value.
func (v *Verifier) FetchesKeys() bool { return v.keys != nil && v.keys.unset == "" }

// PublicKey reports whether the sender signs with a private key, so that ParseKey takes the public
// half. If not, ParseKey takes a shared secret.
func (v *Verifier) PublicKey() bool {
	switch m := v.method.(type) {
	case *content:
		return m.public != ""
	case *standard:
		return m.public != ""
	case *jwt:
		return algorithms[m.algorithms[0]].kind != kindSecret
	case *jws:
		return true
	}
	return false
}

// Unset returns the first parameter in s.Params that k needs and that has no value; nil if there is
// none. With one, keys cannot be fetched and must be given. k is s.Keys.
func (k *KeySource) Unset(s *Scheme) *Param {
	texts := []string{k.URL, k.Body}
	for _, name := range slices.Sorted(maps.Keys(k.Header)) {
		texts = append(texts, k.Header[name])
	}
	for i := range s.Params {
		p := &s.Params[i]
		needs := func(text string) bool { return strings.Contains(text, "{param:"+p.Name+"}") }
		if s.Values[p.Name] == "" && slices.ContainsFunc(texts, needs) {
			return p
		}
	}
	return nil
}

// Plausible returns the error that Verify would return if the signature matched, as far as it can
// be told without a key. Call it before fetching a key, to avoid a fetch for a request that cannot
// pass. It does no I/O. A nil result does not mean that the request is verified.
func (v *Verifier) Plausible(req *Request) error {
	m, ok := v.method.(keyNamer)
	if !ok {
		return nil
	}
	if err := m.plausible(req); err != nil {
		return &Error{Scheme: v.name, Err: err}
	}
	return nil
}

// KeyRef returns the address of the key that the request names. It returns nil and no error if the
// scheme has no Keys. It does no I/O. The error is an *Error: it matches ErrNoKeys if a parameter
// of the address is not set, and otherwise says that the reference is absent, malformed, or outside
// the addresses that the scheme allows.
func (v *Verifier) KeyRef(req *Request) (*KeyRef, error) {
	if v.keys == nil {
		return nil, nil
	}
	ref, err := v.keyRef(req)
	if err != nil {
		return nil, &Error{Scheme: v.name, Err: err}
	}
	return ref, nil
}

func (v *Verifier) keyRef(req *Request) (*KeyRef, error) {
	ks := v.keys
	if ks.unset != "" {
		return nil, fmt.Errorf("%w: the parameter %s is not set: the address of the keys needs it", ErrNoKeys, ks.unset)
	}
	ref := &KeyRef{Method: ks.method, MaxAge: ks.maxAge, Named: ks.needsKID || ks.urlAt != nil, now: req.Now}
	if namer, ok := v.method.(keyNamer); ok {
		var err error
		if ref.ID, err = namer.namedKey(req); err != nil {
			return nil, err
		}
	}
	switch {
	case ref.ID == "" && ks.needsKID:
		return nil, fmt.Errorf("%w: the id of the key", ErrMissing)
	case ref.ID != "" && !ks.allowsID(ref.ID):
		return nil, fmt.Errorf("%w: the id of the key does not have this sender's form", ErrMalformed)
	}
	var err error
	if ref.URL, err = ks.where(req, ref.ID); err != nil {
		return nil, err
	}
	ref.Header = http.Header{}
	for name, pieces := range ks.header {
		ref.Header.Set(name, fill(pieces, ref.ID, func(s string) string { return s }))
	}
	if ks.body != nil {
		ref.Body = []byte(fill(ks.body, ref.ID, quoteJSON))
		if ref.Header.Get("Content-Type") == "" {
			ref.Header.Set("Content-Type", "application/json")
		}
	}
	return ref, nil
}

// fill renders a template, and passes inserted values through escape.
func fill(pieces []keyPiece, kid string, escape func(string) string) string {
	var b strings.Builder
	for _, p := range pieces {
		switch {
		case p.kid:
			b.WriteString(escape(kid))
		case p.param:
			b.WriteString(escape(p.text))
		default:
			b.WriteString(p.text)
		}
	}
	return b.String()
}

func quoteJSON(s string) string {
	quoted, _ := json.Marshal(s) // a string always marshals
	return string(quoted)
}

// where returns the address of the keys, checked against the patterns of the scheme.
func (ks *keySource) where(req *Request, kid string) (string, error) {
	if ks.urlAt == nil {
		return ks.fixedURL(kid)
	}
	text, err := ks.urlAt.read(req, nil)
	if err != nil {
		return "", err
	}
	refused := fmt.Errorf("%w: %s is not an address where this sender publishes keys", ErrMalformed, ks.urlAt.ref)
	if ks.base != "" && !strings.HasPrefix(text, "/") || ks.base == "" && !strings.HasPrefix(text, "https://") {
		return "", refused
	}
	u, err := url.Parse(ks.base + text)
	// A URL in another than the canonical spelling is refused, not normalized.
	if err != nil || u.String() != ks.base+text || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || u.RawPath != "" || !ks.allows(u) {
		return "", refused
	}
	return u.String(), nil
}

// fixedURL returns the address that the scheme gives. A parameter at its beginning is an address by
// itself; all other values are escaped.
func (ks *keySource) fixedURL(kid string) (string, error) {
	var b strings.Builder
	for i, p := range ks.url {
		escape := url.PathEscape
		if strings.Contains(b.String(), "?") {
			escape = url.QueryEscape
		}
		switch {
		case p.kid:
			b.WriteString(escape(kid))
		case p.param && i == 0:
			b.WriteString(strings.TrimSuffix(p.text, "/"))
		case p.param:
			b.WriteString(escape(p.text))
		default:
			b.WriteString(p.text)
		}
	}
	u, err := url.Parse(b.String())
	if err != nil || u.Fragment != "" || !ks.allows(u) {
		return "", fmt.Errorf("%w: the address made of the scheme's parameters and the key's id is not one of this sender", ErrMalformed)
	}
	return u.String(), nil
}

var plainHost = regexp.MustCompile(`\A[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+\z`)

func (ks *keySource) allowsID(id string) bool {
	odd := func(r rune) bool { return r <= ' ' || r >= 0x7f }
	return len(id) <= maxKeyID && !strings.Contains(id, "..") && !strings.ContainsFunc(id, odd) && ks.kid.MatchString(id)
}

// allows reports whether keys may be fetched from u.
func (ks *keySource) allows(u *url.URL) bool {
	for segment := range strings.SplitSeq(u.Path, "/") {
		if segment == "." || segment == ".." {
			return false
		}
	}
	return u.Scheme == "https" && u.User == nil && u.Opaque == "" && len(u.String()) <= maxKeyURL &&
		plainHost.MatchString(u.Host) && ks.host.MatchString(u.Host) &&
		(ks.path == nil || ks.path.MatchString(u.Path))
}
