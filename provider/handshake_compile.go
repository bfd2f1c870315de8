package provider

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/hookonce/hookonce/internal/locate"
)

// MaxHandshakeBody is the largest body, in bytes, that can be a handshake. A larger one is a
// delivery.
const MaxHandshakeBody = 16 << 10

// defaultToken is the default of Handshake.Pattern.
const defaultToken = `[ -~]{1,512}`

// Limits, in bytes, on values read from a request before its signature is checked.
const (
	maxToken = 512
	maxJSON  = 2048 // a value of {json:path}
)

// Handshakes is the compiled list of a provider's handshakes. It is immutable and safe for
// concurrent use.
type Handshakes struct {
	list    []*handshake
	methods []string
}

// handshake is a compiled Handshake.
type handshake struct {
	id       string
	method   string
	signed   string
	when     []condition
	check    []condition
	token    *place // nil for none
	pattern  *regexp.Regexp
	digest   *digest // nil for none
	delivers bool
	confirm  template
	host     *regexp.Regexp
	answer   answer
	bare     bool
	needs    needs
}

// condition is a compiled Condition.
type condition struct {
	at      place
	equals  template
	matches *regexp.Regexp
	absent  bool
}

// place is a location of a request. If expr is nil it is the raw body.
type place struct {
	text string
	expr *locate.Expr
}

type digest struct {
	Digest
	content template
	signs   place
}

// keyed reports whether the secret is the key of the digest.
func (d *digest) keyed() bool { return d.Algorithm != DigestSHA256 }

// answer is a compiled Answer.
type answer struct {
	status      int
	contentType string
	header      map[string]template
	body        template
	json        map[string]any // texts are templates
}

// needs lists the settings of a source that a handshake requires.
type needs struct {
	params      []string
	url, secret bool
}

// Values of Digest.Algorithm and Digest.SecretEncoding.
const (
	DigestHMACSHA256 = "hmac-sha256"
	DigestHMACSHA1   = "hmac-sha1"
	DigestSHA256     = "sha256"
)

// CompileHandshakes checks handshakes and compiles them. It reports all faults at once, joined by
// errors.Join. An empty list gives a Handshakes that matches nothing.
func CompileHandshakes(list []Handshake) (*Handshakes, error) {
	all := &Handshakes{}
	var faults []error
	ids := map[string]bool{}
	for i := range list {
		h := &list[i]
		c := &handshakeCompiler{}
		ready := c.compile(h)
		if ids[h.ID] {
			c.fault("id: another handshake has the same")
		}
		ids[h.ID] = true
		for _, err := range c.faults {
			faults = append(faults, fmt.Errorf("handshake %q: %w", h.ID, err))
		}
		all.list = append(all.list, ready)
		if !slices.Contains(all.methods, ready.method) {
			all.methods = append(all.methods, ready.method)
		}
	}
	slices.Sort(all.methods)
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return all, nil
}

// handshakeCompiler collects the faults of one handshake, and its needs.
type handshakeCompiler struct {
	faults []error
	needs  needs
	token  bool // the handshake has a token
	digest bool // the handshake has a digest
}

func (c *handshakeCompiler) fault(format string, args ...any) {
	c.faults = append(c.faults, fmt.Errorf(format, args...))
}

var handshakeMethods = []string{http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPost}

func (c *handshakeCompiler) compile(h *Handshake) *handshake {
	ready := &handshake{
		id: h.ID, method: cmp.Or(h.Method, http.MethodPost), signed: h.Signed,
		delivers: h.Delivers != "", bare: h.Bare,
	}
	if h.ID == "" {
		c.fault("id: it is empty")
	}
	if !slices.Contains(handshakeMethods, ready.method) {
		c.fault("method: %q is not one of %s", h.Method, strings.Join(handshakeMethods, ", "))
	}
	switch {
	case h.Signed != "" && h.Signed != SignedAlways && h.Signed != SignedIfPresent:
		c.fault("signed: %q is neither %s nor %s", h.Signed, SignedAlways, SignedIfPresent)
	case h.Signed != "" && ready.method != http.MethodPost:
		c.fault("signed: only a POST can be verified like a delivery")
	}
	c.compileToken(h, ready)
	if h.Digest != nil {
		ready.digest = c.compileDigest(h)
		c.digest = true
	}
	for i := range h.When {
		ready.when = append(ready.when, c.condition(fmt.Sprintf("when[%d]", i), &h.When[i], false))
	}
	for i := range h.Check {
		ready.check = append(ready.check, c.condition(fmt.Sprintf("check[%d]", i), &h.Check[i], true))
	}
	if h.Confirm != "" {
		if h.Signed != SignedAlways {
			c.fault("confirm: signed must be always")
		}
		ready.confirm = c.template("confirm", h.Confirm)
		ready.host = c.regexp("host", h.Host)
	}
	ready.answer = c.compileAnswer(&h.Answer)
	ready.needs = c.needs
	return ready
}

func (c *handshakeCompiler) compileToken(h *Handshake, ready *handshake) {
	if h.Delivers != "" && h.Delivers != h.Token {
		c.fault("delivers: it must equal the token, %q, so that the pattern applies", h.Token)
	}
	if h.Token == "" {
		if h.Pattern != "" {
			c.fault("pattern: there is no token")
		}
		return
	}
	c.token = true
	at := c.place("token", h.Token)
	ready.token = &at
	ready.pattern = c.regexp("pattern", cmp.Or(h.Pattern, defaultToken))
}

func (c *handshakeCompiler) compileDigest(h *Handshake) *digest {
	d := &digest{Digest: *h.Digest}
	d.Encoding = cmp.Or(d.Encoding, "hex")
	if !slices.Contains([]string{DigestHMACSHA256, DigestHMACSHA1, DigestSHA256}, d.Algorithm) {
		c.fault("digest.algorithm: %q is not one of %s, %s, %s", d.Algorithm, DigestHMACSHA256, DigestHMACSHA1, DigestSHA256)
	}
	if d.Encoding != "hex" && d.Encoding != "base64" {
		c.fault("digest.encoding: %q is neither hex nor base64", d.Encoding)
	}
	if d.SecretEncoding != "" && d.SecretEncoding != "raw" && d.SecretEncoding != "sha1" {
		c.fault("digest.secret_encoding: %q is neither raw nor sha1", d.SecretEncoding)
	}
	if h.Token == "" || h.Pattern == "" {
		c.fault("pattern: a digest needs a token with a pattern that excludes signed deliveries")
	}
	if d.keyed() {
		// Signable can only compare a delivery with the token itself.
		if d.Content != "{token}" {
			c.fault("digest.content: a keyed digest may sign only {token}")
		}
		c.needs.secret = true
	}
	d.content = c.template("digest.content", d.Content)
	d.signs = c.place("digest.signs", cmp.Or(d.Signs, rawBody))
	return d
}

func (c *handshakeCompiler) condition(field string, of *Condition, secret bool) condition {
	ready := condition{at: c.place(field+".at", of.At), absent: of.Absent}
	given := 0
	for _, is := range []bool{of.Equals != "", of.Matches != "", of.Absent} {
		if is {
			given++
		}
	}
	switch {
	case secret && (of.Equals == "" || given > 1):
		c.fault("%s: a check needs equals, and only that", field)
	case given > 1:
		c.fault("%s: only one of equals, matches and absent can be set", field)
	}
	if of.Matches != "" {
		ready.matches = c.regexp(field+".matches", of.Matches)
	}
	if of.Equals != "" {
		token, digest, before := c.token, c.digest, c.needs
		c.token, c.digest = false, false // the expected value must not come from the request
		ready.equals = c.template(field+".equals", of.Equals)
		c.token, c.digest = token, digest
		if !secret && len(c.needs.params) != len(before.params) {
			c.fault("%s.equals: parameters may be compared only in a check", field)
		}
	}
	return ready
}

func (c *handshakeCompiler) place(field, at string) place {
	if at == rawBody {
		return place{text: at}
	}
	expr, err := locate.Parse(at)
	if err != nil {
		c.fault("%s: %w", field, err)
		return place{text: at}
	}
	if !expr.IsSingle() || expr.Uses(locate.Item) || expr.Uses(locate.Outer) {
		c.fault("%s: %q is not a single header:, query:, form: or body: location", field, at)
	}
	return place{text: at, expr: expr}
}

// regexp compiles a pattern that must match the whole text.
func (c *handshakeCompiler) regexp(field, pattern string) *regexp.Regexp {
	if pattern == "" {
		c.fault("%s: it is empty", field)
	}
	re, err := regexp.Compile(`^(?:` + pattern + `)$`)
	if err == nil {
		_, err = regexp.Compile(pattern) // alone, so that a ')' cannot close the group
	}
	if err != nil {
		c.fault("%s: %w", field, err)
		return regexp.MustCompile(`[^\x00-\x{10FFFF}]`)
	}
	return re
}

func (c *handshakeCompiler) compileAnswer(a *Answer) answer {
	ready := answer{
		status:      cmp.Or(a.Status, http.StatusOK),
		contentType: a.ContentType,
		header:      make(map[string]template, len(a.Header)),
	}
	if ready.status < 200 || ready.status > 299 {
		c.fault("answer.status: it must be 2xx, not %d", ready.status)
	}
	if a.Body != "" && a.JSON != nil {
		c.fault("answer: body and json cannot both be set")
	}
	for name, text := range a.Header {
		if !locate.ValidHeaderName(name) {
			c.fault("answer.header: %q is not a header name", name)
		}
		ready.header[name] = c.template("answer.header."+name, text)
	}
	ready.body = c.template("answer.body", a.Body)
	if a.JSON != nil {
		ready.json, _ = c.json("answer.json", a.JSON).(map[string]any)
	}
	if ready.contentType == "" {
		ready.contentType = "text/plain; charset=utf-8"
		if a.JSON != nil {
			ready.contentType = "application/json"
		}
	}
	return ready
}

// json returns v with its texts compiled to templates.
func (c *handshakeCompiler) json(field string, v any) any {
	switch v := v.(type) {
	case string:
		return c.template(field, v)
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = c.json(fmt.Sprintf("%s[%d]", field, i), v[i])
		}
		return list
	case map[string]any:
		object := make(map[string]any, len(v))
		for name := range v {
			object[name] = c.json(field+"."+name, v[name])
		}
		return object
	default:
		return v
	}
}
