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

// keyNamer is a method whose requests name the key that they were signed with.
type keyNamer interface {
	// namedKey returns the id; "" if the request names none.
	namedKey(req *Request) (string, error)
	// plausible returns the error that verify would return though the signature were
	// right, as far as that can be told without a key.
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
	host, path *regexp.Regexp // path is nil if any will do
	kid        *regexp.Regexp
	needsKID   bool // an id stands in what is sent
	method     string
	body       []keyPiece
	header     map[string][]keyPiece
	format     string
	member     []string
	chain      string
	roots      *x509.CertPool // nil: those of the system
	maxAge     time.Duration
	unset      string // a parameter that is needed and has no value; "" if none
	algorithm  string
}

// keyPiece is one piece of a template of a KeySource.
type keyPiece struct {
	text  string // a literal, or the value of a parameter
	kid   bool   // it is the key's id
	param bool   // text is the value of a parameter
}

var keyPlaceholder = regexp.MustCompile(`\{(kid|param:[A-Za-z0-9_.-]+)\}`)

// keySource compiles Scheme.Keys. The algorithm of the scheme must be known.
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
		c.fault("keys.host", "say which hosts keys are got from")
	}
	if k.Path != "" {
		ks.path = c.whole("keys.path", k.Path)
	}
	if k.KID != "" {
		ks.kid = c.whole("keys.kid", k.KID)
	}
	if k.Format == "" {
		c.fault("keys.format", "say what is found there: jwks, jwk, pem, certificate or spki")
	}
	c.unset("keys.chain", k.Chain != "" && k.Format != KeysCertificate, "has a meaning for the format certificate only: leave it out")
	c.keyWhere(k, ks)
	c.keyRequest(k, ks)
	c.keyAge(k, ks)
	if p := k.Unset(&Scheme{Params: c.params, Values: c.values}); p != nil {
		ks.unset = p.Name
	}
}

// whole compiles a pattern that must match from beginning to end.
func (c *compiler) whole(field, pattern string) *regexp.Regexp {
	// By itself first: "a)|(b" would undo the anchors.
	if _, err := regexp.Compile(pattern); err != nil {
		c.fault(field, "it is not a regular expression: %s", err)
		return nil
	}
	return regexp.MustCompile(`\A(?:` + pattern + `)\z`)
}

func (c *compiler) keyWhere(k *KeySource, ks *keySource) {
	switch {
	case k.URL != "" && k.URLAt != "":
		c.fault("keys.url_at", "keys.url says where keys are: leave one of the two out")
	case k.URL == "" && k.URLAt == "":
		c.fault("keys.url", "say where keys are got, or with keys.url_at where the request says it")
		return
	case k.URLAt != "":
		at, err := parsePlace(k.URLAt, locate.Header, locate.Body)
		switch {
		case err != nil:
			c.fault("keys.url_at", "%s", err)
		case at.ref.Name == "":
			c.fault("keys.url_at", "the body itself is no address")
		}
		ks.urlAt = at
		c.keyBase(k)
		return
	}
	c.unset("keys.base", k.Base != "", "has a meaning beside keys.url_at only: leave it out")
	ks.url = c.keyTemplate("keys.url", k.URL, ks)
	// A key's id behind a host that is written down cannot change the host.
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
		c.fault("keys.base", "it must be https:// and a host: the path is what the request says")
	}
	if k.Path == "" {
		c.fault("keys.path", "say which paths the request may name")
	}
}

func (c *compiler) keyRequest(k *KeySource, ks *keySource) {
	if k.Body != "" {
		c.unset("keys.body", ks.method != http.MethodPost, "has a meaning for the method POST only: leave it out")
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

// keyTemplate reads a template of {kid} and {param:name}. All else in it is text,
// other braces too: they are those of a JSON document.
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

// FetchesKeys reports whether public keys can be got from where KeyRef says.
// It is false where the scheme does not say where they are, or where a parameter
// that this needs has no value: then keys must be given.
func (v *Verifier) FetchesKeys() bool { return v.keys != nil && v.keys.unset == "" }

// PublicKey reports whether the sender signs with a private key, so that ParseKey
// takes its public half. If not, what ParseKey takes must not be known to anybody else.
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

// Unset returns the first of s.Params without a value that k, the scheme's Keys,
// needs, so that keys must be given; nil if there is none.
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

// Plausible returns the error that Verify would return though the signature were right,
// as far as that can be told without a key: nobody's key need be got for what cannot
// pass with any. It does no I/O. What it lets pass is not verified.
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

// KeyRef returns the key that a request says it was signed with, and where that is
// got: nil, and no error, if the scheme does not say where keys are. It
// does no I/O. A reference that is absent, malformed or points to where no key of
// the scheme is is an *Error; one that cannot be followed because a
// parameter is not set matches ErrNoKeys.
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
		return nil, fmt.Errorf("%w: the parameter %s, which says where keys are got, is not set", ErrNoKeys, ks.unset)
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
		return nil, fmt.Errorf("%w: the id of the key has another form than this sender's", ErrMalformed)
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

// fill writes a template, with its values through escape.
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
	quoted, _ := json.Marshal(s) // a string always can be
	return string(quoted)
}

// where returns the URL, which has passed the patterns.
func (ks *keySource) where(req *Request, kid string) (string, error) {
	if ks.urlAt == nil {
		return ks.fixedURL(kid)
	}
	text, err := ks.urlAt.read(req, nil)
	if err != nil {
		return "", err
	}
	refused := fmt.Errorf("%w: %s is not a place where this sender keeps its keys", ErrMalformed, ks.urlAt.ref)
	if ks.base != "" && !strings.HasPrefix(text, "/") || ks.base == "" && !strings.HasPrefix(text, "https://") {
		return "", refused
	}
	u, err := url.Parse(ks.base + text)
	// What is written in a second way is refused, not made into the first one.
	if err != nil || u.String() != ks.base+text || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || u.RawPath != "" || !ks.allows(u) {
		return "", refused
	}
	return u.String(), nil
}

// fixedURL returns the URL of the scheme, with the key's id in it. A parameter at its
// beginning is an address by itself; anything else is escaped.
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
		return "", fmt.Errorf("%w: the address that the scheme's parameters and the key's id give is not one of this sender", ErrMalformed)
	}
	return u.String(), nil
}

var plainHost = regexp.MustCompile(`\A[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+\z`)

func (ks *keySource) allowsID(id string) bool {
	odd := func(r rune) bool { return r <= ' ' || r >= 0x7f }
	return len(id) <= maxKeyID && !strings.Contains(id, "..") && !strings.ContainsFunc(id, odd) && ks.kid.MatchString(id)
}

// allows reports whether keys are got from u.
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
