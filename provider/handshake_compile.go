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

// MaxHandshakeBody is the most bytes of a body that a handshake is looked for in:
// what is larger is a delivery.
const MaxHandshakeBody = 16 << 10

// defaultToken is the default of Handshake.Pattern.
const defaultToken = `[ -~]{1,512}`

// Limits of what is read out of a request before its signature is known to be right.
const (
	maxToken = 512
	maxJSON  = 2048 // what {json:path} stands for
)

// Handshakes are the handshakes of a provider, made ready. They do not change and
// are safe for concurrent use.
type Handshakes struct {
	list    []*handshake
	methods []string
}

// handshake is a Handshake made ready.
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

// condition is a Condition made ready.
type condition struct {
	at      place
	equals  template
	matches *regexp.Regexp
	absent  bool
}

// place is where something stands: in the raw body, if expr is nil.
type place struct {
	text string
	expr *locate.Expr
}

type digest struct {
	Digest
	content template
	signs   place
}

// keyed reports whether the digest is made with the secret.
func (d *digest) keyed() bool { return d.Algorithm != DigestSHA256 }

// answer is an Answer made ready.
type answer struct {
	status      int
	contentType string
	header      map[string]template
	body        template
	json        map[string]any // texts are templates
}

// needs is what a handshake cannot be answered without.
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

// CompileHandshakes checks handshakes and makes them ready. All faults are reported
// at once. None of them make a Handshakes that matches nothing.
func CompileHandshakes(list []Handshake) (*Handshakes, error) {
	all := &Handshakes{}
	var faults []error
	ids := map[string]bool{}
	for i := range list {
		h := &list[i]
		c := &handshakeCompiler{}
		ready := c.compile(h)
		if ids[h.ID] {
			c.fault("id: another handshake has it")
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

// handshakeCompiler gathers the faults of one handshake, and what it needs.
type handshakeCompiler struct {
	faults []error
	needs  needs
	token  bool // there is one
	digest bool // likewise
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
		c.fault("id: it has none")
	}
	if !slices.Contains(handshakeMethods, ready.method) {
		c.fault("method: %q is none of %s", h.Method, strings.Join(handshakeMethods, ", "))
	}
	switch {
	case h.Signed != "" && h.Signed != SignedAlways && h.Signed != SignedIfPresent:
		c.fault("signed: %q is neither %s nor %s", h.Signed, SignedAlways, SignedIfPresent)
	case h.Signed != "" && ready.method != http.MethodPost:
		c.fault("signed: only a POST can be verified as a delivery is")
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
			c.fault("confirm: only what is signed always may be confirmed")
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
		c.fault("delivers: it must be the token, %q, so that the pattern holds for it", h.Token)
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
		c.fault("digest.algorithm: %q is none of %s, %s, %s", d.Algorithm, DigestHMACSHA256, DigestHMACSHA1, DigestSHA256)
	}
	if d.Encoding != "hex" && d.Encoding != "base64" {
		c.fault("digest.encoding: %q is neither hex nor base64", d.Encoding)
	}
	if d.SecretEncoding != "" && d.SecretEncoding != "raw" && d.SecretEncoding != "sha1" {
		c.fault("digest.secret_encoding: %q is neither raw nor sha1", d.SecretEncoding)
	}
	if h.Token == "" || h.Pattern == "" {
		c.fault("pattern: a digest needs a token with a pattern, which excludes all that is signed otherwise")
	}
	if d.keyed() {
		// Only of the token itself is it known what a delivery must not be.
		if d.Content != "{token}" {
			c.fault("digest.content: with the secret as key only {token} is signed")
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
		c.fault("%s: a check has equals, and nothing besides", field)
	case given > 1:
		c.fault("%s: only one of equals, matches and absent can be asked for", field)
	}
	if of.Matches != "" {
		ready.matches = c.regexp(field+".matches", of.Matches)
	}
	if of.Equals != "" {
		token, digest, before := c.token, c.digest, c.needs
		c.token, c.digest = false, false // what is compared with must not come from the request
		ready.equals = c.template(field+".equals", of.Equals)
		c.token, c.digest = token, digest
		if !secret && len(c.needs.params) != len(before.params) {
			c.fault("%s.equals: parameters are compared in a check only", field)
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
		c.fault("%s: %q is not one single header, query, form or body", field, at)
	}
	return place{text: at, expr: expr}
}

// regexp compiles a pattern that has to match as a whole.
func (c *handshakeCompiler) regexp(field, pattern string) *regexp.Regexp {
	if pattern == "" {
		c.fault("%s: it is empty", field)
	}
	re, err := regexp.Compile(`^(?:` + pattern + `)$`)
	if err == nil {
		_, err = regexp.Compile(pattern) // no ')' that closes ours
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
			c.fault("answer.header: %q is no name of a header", name)
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

// json returns v with a template for each of its texts.
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
