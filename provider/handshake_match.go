package provider

import (
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/hookonce/hookonce/internal/locate"
)

// rawBody is the location of the raw body.
const rawBody = "body:"

var (
	// ErrHandshakeToken means that a value of a handshake, such as its token, is missing or
	// malformed: answer 400.
	ErrHandshakeToken = errors.New("the handshake is malformed")
	// ErrHandshakeCheck means that a shared secret of a handshake is wrong: answer 403.
	ErrHandshakeCheck = errors.New("the handshake's check failed")
	// ErrHandshakeSetup means that the source lacks a setting for this handshake: answer 403. The
	// error's text names the setting.
	ErrHandshakeSetup = errors.New("the source is not set up for this handshake")
)

// HandshakeRequest is a request that may be a handshake. It need not be verified.
type HandshakeRequest struct {
	Method   string
	RawQuery string
	Header   http.Header // canonical names, as net/http makes them
	Body     []byte      // as received
}

func (r *HandshakeRequest) input() *locate.Input {
	return &locate.Input{Header: r.Header, Body: r.Body, RawQuery: r.RawQuery}
}

// HandshakeSetup holds the settings of a source that handshakes use.
type HandshakeSetup struct {
	Params map[string]string
	URL    string // the source's public URL; "" if unknown
	Secret string // the source's first secret; "" if there is none
}

// HandshakeReply is the answer to a handshake.
type HandshakeReply struct {
	Status      int
	ContentType string
	Header      map[string]string
	Body        []byte
	// Delivered is the secret that the provider sent; "" for none. Store it before sending the
	// answer.
	Delivered string
	// ConfirmURL is a URL to fetch by GET; "" for none.
	ConfirmURL string
}

// Shake is a request that Match recognised as a handshake.
type Shake struct {
	h   *handshake
	req *HandshakeRequest
}

// Methods returns the HTTP methods of the handshakes, sorted.
func (hs *Handshakes) Methods() []string { return slices.Clone(hs.methods) }

// Deliver reports whether one of the handshakes delivers a secret.
func (hs *Handshakes) Deliver() bool {
	return slices.ContainsFunc(hs.list, func(h *handshake) bool { return h.delivers })
}

// Match returns the first handshake that matches r, or nil. A nil Handshakes matches nothing.
func (hs *Handshakes) Match(r *HandshakeRequest) *Shake {
	if hs == nil {
		return nil
	}
	for _, h := range hs.list {
		if h.method == r.Method && h.matches(r) {
			return &Shake{h, r}
		}
	}
	return nil
}

// Signable reports whether anyone could obtain the signature of r, which is not a handshake, from
// the answer to a handshake. Refuse such a request even if its signature is right. Providers send
// none: their bodies are documents, and tokens are words.
func (hs *Handshakes) Signable(r *HandshakeRequest) bool {
	if hs == nil {
		return false
	}
	in := r.input()
	return slices.ContainsFunc(hs.list, func(h *handshake) bool {
		if h.digest == nil || !h.digest.keyed() {
			return false
		}
		text, err := h.digest.signs.find(in, maxToken)
		return err == nil && h.pattern.MatchString(text)
	})
}

func (h *handshake) matches(r *HandshakeRequest) bool {
	in := r.input()
	for i := range h.when {
		if !h.when[i].holds(in) {
			return false
		}
	}
	return true
}

// holds reports whether the request meets a condition of Handshake.When.
func (c *condition) holds(in *locate.Input) bool {
	text, err := c.at.find(in, MaxHandshakeBody)
	switch {
	case c.absent:
		return errors.Is(err, locate.ErrAbsent)
	case err != nil:
		return false
	case c.matches != nil:
		return c.matches.MatchString(text)
	case c.equals != nil:
		want, err := c.equals.fill(&filling{setup: &HandshakeSetup{}, in: in})
		return err == nil && text == want
	}
	return true
}

func (p *place) find(in *locate.Input, limit int) (string, error) {
	if p.expr != nil {
		if (p.expr.Uses(locate.Body) || p.expr.Uses(locate.Form)) && len(in.Body) > MaxHandshakeBody {
			return "", fmt.Errorf("%s: %w: the body has more than %d bytes", p.text, locate.ErrMalformed, MaxHandshakeBody)
		}
		return p.expr.Single(in, limit)
	}
	if len(in.Body) > limit {
		return "", fmt.Errorf("%s: %w: it is longer than %d bytes", p.text, locate.ErrMalformed, limit)
	}
	return string(in.Body), nil
}

// ID returns the id of the handshake.
func (s *Shake) ID() string { return s.h.id }

// Signed returns Handshake.Signed.
func (s *Shake) Signed() string { return s.h.signed }

// Bare returns Handshake.Bare.
func (s *Shake) Bare() bool { return s.h.bare }

// NeedsSecret reports whether the answer depends on the source's secret.
func (s *Shake) NeedsSecret() bool { return s.h.needs.secret }

// Reply makes the answer. An error matches ErrHandshakeToken, ErrHandshakeCheck or
// ErrHandshakeSetup; its text holds no value of the request and no secret.
func (s *Shake) Reply(setup *HandshakeSetup) (*HandshakeReply, error) {
	h := s.h
	if err := h.needs.check(setup); err != nil {
		return nil, err
	}
	f := &filling{setup: setup, in: s.req.input()}
	if err := h.checks(f); err != nil {
		return nil, err
	}
	if h.token != nil {
		token, err := h.token.find(f.in, maxToken)
		if err != nil || !h.pattern.MatchString(token) {
			return nil, fmt.Errorf("%w: %s does not have the provider's form", ErrHandshakeToken, h.token.text)
		}
		f.token = token
	}
	if h.digest != nil {
		if err := h.digest.sum(f); err != nil {
			return nil, err
		}
	}
	reply, err := h.answer.fill(f)
	if err != nil {
		return nil, err
	}
	if h.delivers {
		reply.Delivered = f.token
	}
	if h.confirm != nil {
		reply.ConfirmURL, err = h.confirmURL(f)
	}
	return reply, err
}

func (n *needs) check(setup *HandshakeSetup) error {
	for _, name := range n.params {
		if setup.Params[name] == "" {
			return fmt.Errorf("%w: set params.%s", ErrHandshakeSetup, name)
		}
	}
	if n.url && setup.URL == "" {
		return fmt.Errorf("%w: set url to the public URL of this source", ErrHandshakeSetup)
	}
	if n.secret && setup.Secret == "" {
		return fmt.Errorf("%w: set secrets", ErrHandshakeSetup)
	}
	return nil
}

// checks compares the shared secrets in constant time.
func (h *handshake) checks(f *filling) error {
	match := 1
	for i := range h.check {
		c := &h.check[i]
		text, err := c.at.find(f.in, maxToken)
		if err != nil {
			return fmt.Errorf("%w: %s is missing or malformed", ErrHandshakeCheck, c.at.text)
		}
		want, err := c.equals.fill(f)
		if err != nil {
			return err
		}
		got, wanted := sha256.Sum256([]byte(text)), sha256.Sum256([]byte(want))
		match &= subtle.ConstantTimeCompare(got[:], wanted[:])
	}
	if match != 1 {
		return fmt.Errorf("%w: a secret differs from the settings of the source", ErrHandshakeCheck)
	}
	return nil
}

// sum sets f.digest.
func (d *digest) sum(f *filling) error {
	content, err := d.content.fill(f)
	if err != nil {
		return err
	}
	key := []byte(f.setup.Secret)
	if d.SecretEncoding == "sha1" {
		hashed := sha1.Sum(key)
		key = hashed[:]
	}
	hash := sha256.New()
	switch d.Algorithm {
	case DigestHMACSHA256:
		hash = hmac.New(sha256.New, key)
	case DigestHMACSHA1:
		hash = hmac.New(sha1.New, key)
	}
	hash.Write([]byte(content))
	sum := hash.Sum(nil)
	if d.Encoding == "base64" {
		f.digest = base64.StdEncoding.EncodeToString(sum)
	} else {
		f.digest = hex.EncodeToString(sum)
	}
	return nil
}

func (a *answer) fill(f *filling) (*HandshakeReply, error) {
	reply := &HandshakeReply{Status: a.status, ContentType: a.contentType, Header: make(map[string]string, len(a.header))}
	for name, t := range a.header {
		text, err := t.fill(f)
		if err != nil {
			return nil, err
		}
		reply.Header[name] = text
	}
	if a.json != nil {
		v, err := fillJSON(a.json, f)
		if err == nil {
			reply.Body, err = json.Marshal(v)
		}
		return reply, err
	}
	text, err := a.body.fill(f)
	reply.Body = []byte(text)
	return reply, err
}

// confirmURL returns the URL to fetch. It must use https and a host that Handshake.Host allows.
func (h *handshake) confirmURL(f *filling) (string, error) {
	text, err := h.confirm.fill(f)
	if err != nil {
		return "", err
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" || u.User != nil || u.Fragment != "" || u.Opaque != "" ||
		u.Host != u.Hostname() || !h.host.MatchString(u.Host) {
		return "", fmt.Errorf("%w: the URL to confirm is not one of the provider's", ErrHandshakeToken)
	}
	return text, nil
}
