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

// Verifier checks and makes the signatures of one scheme. It is immutable and
// safe for concurrent use.
type Verifier struct {
	name    string // of the scheme, for errors
	family  Family
	method  method
	params  []Param
	missing []Param
	partial string
	keys    *keySource // nil if nothing is fetched
}

// Verify returns nil if a signature of req was made with one of keys over what
// the request is, what the scheme requires of it holds, and its signed time
// lies within the tolerance of req.Now. Else it returns an *Error. A Verifier
// of FamilyNone always returns nil.
func (v *Verifier) Verify(req *Request, keys []Key) error {
	if v.family == FamilyNone {
		return nil
	}
	err := ErrNoKeys
	if len(keys) > 0 {
		err = v.method.verify(req, keys)
	}
	if err != nil {
		return &Error{Scheme: v.name, Err: err}
	}
	return nil
}

// Sign changes req as the sender would sign it, so that Verify with the same
// key accepts it at req.Now, which is also the signed time. It sets headers,
// and where the scheme has its signature or time elsewhere, the query or the
// body. What the signed content takes from the request must be there before;
// for Standard Webhooks that is webhook-id. A key of a key pair must be the
// private one. A Verifier of FamilyNone does nothing.
func (v *Verifier) Sign(req *Request, key Key) error {
	if v.family == FamilyNone {
		return nil
	}
	if req.Header == nil {
		req.Header = http.Header{}
	}
	if err := v.method.sign(req, key); err != nil {
		return fmt.Errorf("sign with scheme %s: %w", v.name, err)
	}
	return nil
}

// ParseKey decodes a secret as Scheme.SecretEncoding says, or a public key: PEM
// (also of a certificate), the base64 of its DER, a JWK or JWKS, and for
// Ed25519 also whpk_ and base64, or base64 or hexadecimal digits of the 32
// bytes. Private keys, as PEM, JWK or whsk_ and base64, can sign too.
//
// A secret that is empty, blank, only a prefix, has a line break at an end, or
// is not in the encoding is an error. Errors never hold the secret.
func (v *Verifier) ParseKey(secret string) (Key, error) {
	if strings.TrimSpace(secret) == "" {
		return Key{}, errors.New("the secret is empty")
	}
	return v.method.parseKey(secret)
}

// ParsePrivateKey is ParseKey for who signs with a key pair: the private half, as PEM
// (PKCS #8, or PKCS #1 of RSA), the base64 of its DER, a JWK, or for Ed25519 whsk_ and
// base64. A public key is an error, and so is one that is encrypted. Errors never hold
// the key.
func (v *Verifier) ParsePrivateKey(text string) (Key, error) {
	switch {
	case !v.PublicKey():
		return Key{}, errors.New("this scheme signs with a shared secret, and has no private key")
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

// BodySum returns the SHA-256 of what the scheme signs of body: of body itself, but for
// schemes that sign the fields of a form, which may be sent in several spellings and
// with others beside them. Two bodies with one signature have one sum.
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
			return sha256.Sum256(body) // which does not verify
		}
		_ = binary.Write(h, binary.BigEndian, uint64(len(text))) // a hash never fails
		_, _ = h.Write(text)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// ReadsForm reports whether the scheme signs fields of a form, or has its signature in
// one, so that the body must be a form as it was sent.
func (v *Verifier) ReadsForm() bool {
	f, ok := v.method.(*content)
	return ok && (f.at != nil && f.at.ref.Kind == locate.Form || anyPart(f.arithmetic.content, (*part).respelled))
}

// NeedsURL reports whether the scheme signs the public URL, so that
// Request.URL must be set.
func (v *Verifier) NeedsURL() bool { return v.method.needsURL() }

// NeedsKeys reports whether Verify needs a key: always, but for FamilyNone.
func (v *Verifier) NeedsKeys() bool { return v.family != FamilyNone }

// Params returns Scheme.Params.
func (v *Verifier) Params() []Param { return slices.Clone(v.params) }

// Missing returns those of Params that a source must set and that have no
// value (NeedSource). Without them a request can be verified, but says too
// little.
func (v *Verifier) Missing() []Param { return slices.Clone(v.missing) }

// Partial says what of a request is not signed, for people; "" if all of its
// body is, or if the family signs nothing.
func (v *Verifier) Partial() string { return v.partial }

// Covers reports whether the signature covers all that e can point at: the
// body, where it is signed, those of its fields that are, and those headers and
// query parameters that are signed in such a way that a value cannot be
// lengthened or shortened at the expense of what stands beside it. What is not
// covered can be changed by whoever has seen one signed request. A shared token
// and basic authentication cover nothing.
func (v *Verifier) Covers(e *locate.Expr) bool {
	for _, ref := range e.Refs() {
		if !v.method.covers(ref) {
			return false
		}
	}
	return true
}
