package verify

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/hookonce/hookonce/internal/locate"
)

// Verifier checks and makes the signatures of one scheme. It is immutable and safe for concurrent
// use.
type Verifier struct {
	name    string // of the scheme, for errors
	family  Family
	method  method
	params  []Param
	missing []Param
	partial string
	// document is the form field that holds the body of the signed request; nil for most schemes.
	document *place
	keys     *keySource // nil if the scheme fetches no keys
}

// Verify returns nil if one of keys signed req, req meets all requirements of the scheme, and its
// signed time lies within the tolerance of req.Now. Otherwise it returns an *Error. For FamilyNone
// it always returns nil.
func (v *Verifier) Verify(req *Request, keys []Key) error {
	if v.family == FamilyNone {
		return nil
	}
	err := ErrNoKeys
	if len(keys) > 0 {
		if req, err = v.inDocument(req); err == nil {
			err = v.method.verify(req, keys)
		}
	}
	if err != nil {
		return &Error{Scheme: v.name, Err: err}
	}
	return nil
}

// Sign signs req as the sender would, so that Verify with the same key accepts it at req.Now, which
// becomes the signed time. It sets headers, or the query or body if the scheme has its signature or
// time there. Set everything else that the scheme signs before; for Standard Webhooks that is
// webhook-id or svix-id. For a key pair, key must be the private half. For FamilyNone it does nothing.
func (v *Verifier) Sign(req *Request, key Key) error {
	if v.family == FamilyNone {
		return nil
	}
	if req.Header == nil {
		req.Header = http.Header{}
	}
	inner, err := v.inDocument(req)
	if err == nil {
		err = v.method.sign(inner, key)
	}
	if err == nil && v.document != nil {
		body := req.Body
		*req = *inner
		req.Body = body
		_, err = v.document.write(req, nil, string(inner.Body))
	}
	if err != nil {
		return fmt.Errorf("sign with scheme %s: %w", v.name, err)
	}
	return nil
}

// inDocument returns the request with the document of Scheme.Document as its body.
func (v *Verifier) inDocument(req *Request) (*Request, error) {
	if v.document == nil {
		return req, nil
	}
	text, err := v.document.read(req, nil)
	if err != nil {
		return nil, err
	}
	inner := *req
	inner.Body = []byte(text)
	return &inner, nil
}

// ParseKey reads a secret in the encoding Scheme.SecretEncoding, or a public key: PEM (also of a
// certificate), base64 of DER, a JWK or a JWK set. Ed25519 keys may also be whpk_ and base64, or 32
// bytes in base64 or hexadecimal digits. A private key (PEM, base64 of DER, JWK, or whsk_ and
// base64) can sign too.
//
// It is an error if the secret is empty, blank, only a prefix, only zero bytes, not in the encoding,
// or begins or ends with a line break. Errors never hold the secret.
func (v *Verifier) ParseKey(secret string) (Key, error) {
	if strings.TrimSpace(secret) == "" {
		return Key{}, errors.New("the secret is empty")
	}
	return v.method.parseKey(secret)
}

// ParsePrivateKey reads the private half of a key pair, to sign with: PEM (PKCS #8, or PKCS #1 for
// RSA), base64 of DER, a JWK, or whsk_ and base64 for Ed25519. A public key or an encrypted one is
// an error. Errors never hold the key.
func (v *Verifier) ParsePrivateKey(text string) (Key, error) {
	switch {
	case !v.PublicKey():
		return Key{}, errors.New("this scheme signs with a shared secret and has no private key")
	case strings.TrimSpace(text) == "":
		return Key{}, errors.New("the key is empty")
	}
	key, err := v.ParseKey(text)
	var none *notKeyError
	switch {
	case errors.As(err, &none):
		return Key{}, fmt.Errorf("the key is not %s: expected PEM of a private key, base64 of the same in DER, or a JWK", none.kind)
	case err != nil:
		return Key{}, err
	case !key.Private():
		return Key{}, errors.New("this is a public key, which cannot sign: give the private one")
	}
	return key, nil
}

// BodySum returns the SHA-256 of the signed part of body, so that two bodies with one signature
// have one sum. The signed part is the whole body, except for schemes that sign the fields of a
// form: there unsigned fields may be added, and the same fields can be spelled in several ways.
func (v *Verifier) BodySum(body []byte) [sha256.Size]byte {
	f, ok := v.method.(*content)
	if !ok || !anyPart(f.arithmetic.content, (*part).respelled) {
		return sha256.Sum256(body)
	}
	h, req := sha256.New(), &Request{Body: body, Header: http.Header{}}
	for i := range f.arithmetic.content {
		p := &f.arithmetic.content[i]
		if !p.respelled() {
			continue
		}
		text, err := p.append(nil, req, &signed{})
		if err != nil {
			return sha256.Sum256(body) // such a body does not verify
		}
		_ = binary.Write(h, binary.BigEndian, uint64(len(text))) // a hash never fails
		_, _ = h.Write(text)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// ReadsForm reports whether the scheme signs fields of a form, or has its signature in one. Its
// requests must then have a form as body.
func (v *Verifier) ReadsForm() bool {
	f, ok := v.method.(*content)
	return ok && (v.document != nil || f.at != nil && f.at.ref.Kind == locate.Form || anyPart(f.arithmetic.content, (*part).respelled))
}

// NeedsURL reports whether the scheme signs the public URL, so that Request.URL must be set.
func (v *Verifier) NeedsURL() bool { return v.method.needsURL() }

// NeedsKeys reports whether Verify needs a key. Only FamilyNone does not.
func (v *Verifier) NeedsKeys() bool { return v.family != FamilyNone }

// Params returns a copy of Scheme.Params.
func (v *Verifier) Params() []Param { return slices.Clone(v.params) }

// Missing returns the parameters with Need source that have no value. Verify works without them,
// but proves too little.
func (v *Verifier) Missing() []Param { return slices.Clone(v.missing) }

// Partial names the unsigned parts of a request, for users. It is "" if the whole body is signed,
// or if the family signs nothing.
func (v *Verifier) Partial() string { return v.partial }

// Covers reports whether the signature covers all locations of e. If it does not, anyone can change
// the value after seeing one signed request.
//
// A header or query parameter counts as covered only if the signature fixes where it begins and
// ends, so that no byte can move to or from its neighbours. A shared token and basic authentication
// cover nothing.
func (v *Verifier) Covers(e *locate.Expr) bool {
	for _, ref := range e.Refs() {
		if !v.method.covers(ref) {
			return false
		}
	}
	return true
}
