package verify

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// signed is what a request says for itself, before any of it is believed.
type signed struct {
	id, time   string
	signatures signatures
}

// Verify returns nil if a signature of req was made with one of keys over what
// the request is, and its signed time lies within the tolerance of req.Now.
// Else it returns an *Error. A Verifier of FamilyNone always returns nil.
func (v *Verifier) Verify(req *Request, keys []Key) error {
	if v.family == FamilyNone {
		return nil
	}
	if err := v.verify(req, keys); err != nil {
		return &Error{Scheme: v.name, Err: err}
	}
	return nil
}

func (v *Verifier) verify(req *Request, keys []Key) error {
	if err := v.usable(keys); err != nil {
		return err
	}
	var s signed
	if err := v.read(req, &s); err != nil {
		return err
	}
	if err := v.checkContent(req); err != nil {
		return err
	}
	var match int
	if v.hash == nil {
		match = v.matchEd25519(req, &s, keys)
	} else {
		match = v.matchHMAC(req, &s, keys)
	}
	if match != 1 {
		if s.signatures.n == 0 {
			return s.signatures.none()
		}
		return ErrMismatch
	}
	return v.checkTime(req.Now, s.time)
}

// usable reports whether keys are all of the kind that the scheme needs.
func (v *Verifier) usable(keys []Key) error {
	if len(keys) == 0 {
		return ErrNoKeys
	}
	for i := range keys {
		m := keys[i].material()
		if v.hash == nil && m.public == nil || v.hash != nil && m.hmac == nil {
			return fmt.Errorf("%w: key %d was not made by ParseKey for this scheme", ErrNoKeys, i+1)
		}
	}
	return nil
}

// matchHMAC returns 1 if a signature matches a key. It tries every key with
// every signature, in the same time whichever matches.
func (v *Verifier) matchHMAC(req *Request, s *signed, keys []Key) int {
	match := 0
	for i := range keys {
		var sum [maxSize]byte
		v.mac(sum[:0], req, s, keys[i].material().hmac)
		for n := range s.signatures.n {
			match |= subtle.ConstantTimeCompare(sum[:v.size], s.signatures.sig[n][:v.size])
		}
	}
	return match
}

// mac appends the HMAC of the signed content to dst.
func (v *Verifier) mac(dst []byte, req *Request, s *signed, key []byte) []byte {
	h := hmac.New(v.hash, key)
	var buf [256]byte
	pending := buf[:0]
	for i := range v.content {
		p := &v.content[i]
		if p.kind != partBody {
			pending = appendPart(pending, p, req, s)
			continue
		}
		_, _ = h.Write(pending) // a hash never fails
		pending = pending[:0]
		_, _ = h.Write(req.Body)
	}
	_, _ = h.Write(pending)
	return h.Sum(dst)
}

// message returns the signed content in one piece.
func (v *Verifier) message(req *Request, s *signed) []byte {
	msg := make([]byte, 0, len(req.Body)+len(s.id)+len(s.time)+64)
	for i := range v.content {
		msg = appendPart(msg, &v.content[i], req, s)
	}
	return msg
}

func appendPart(dst []byte, p *part, req *Request, s *signed) []byte {
	switch p.kind {
	case partLiteral:
		return append(dst, p.text...)
	case partBody:
		return append(dst, req.Body...)
	case partTimestamp:
		return append(dst, s.time...)
	case partID:
		return append(dst, s.id...)
	case partURL:
		return append(dst, req.URL...)
	case partMethod:
		return append(dst, req.Method...)
	default:
		return append(dst, req.Header[p.text][0]...) // checkContent saw exactly one
	}
}

// matchEd25519 returns 1 if a signature matches a key. Public keys need no
// constant time.
func (v *Verifier) matchEd25519(req *Request, s *signed, keys []Key) int {
	msg := v.message(req, s)
	for i := range keys {
		for n := range s.signatures.n {
			if ed25519.Verify(keys[i].material().public, msg, s.signatures.sig[n][:v.size]) {
				return 1
			}
		}
	}
	return 0
}

// checkContent checks what the content takes from the request beside the body,
// the id and the time.
func (v *Verifier) checkContent(req *Request) error {
	for i := range v.content {
		p := &v.content[i]
		switch p.kind {
		case partURL:
			if req.URL == "" {
				return ErrNoURL
			}
		case partHeader:
			value, err := single(req.Header, p.text)
			if err != nil {
				return err
			}
			if p.before != 0 && strings.IndexByte(value, p.before) >= 0 ||
				p.after != 0 && strings.IndexByte(value, p.after) >= 0 {
				return fmt.Errorf("%w: header %s holds the character that ends it in the signed content", ErrMalformed, p.text)
			}
		}
	}
	return nil
}

// single returns the value of a header that must occur exactly once and not be
// empty.
func single(h http.Header, name string) (string, error) {
	values := h[name]
	switch {
	case len(values) > 1:
		return "", fmt.Errorf("%w: header %s", ErrRepeated, name)
	case len(values) == 0:
		return "", fmt.Errorf("%w: header %s", ErrMissing, name)
	case strings.TrimSpace(values[0]) == "":
		return "", fmt.Errorf("%w: header %s is empty", ErrMissing, name)
	}
	return values[0], nil
}

// Sign sets on req.Header the signature headers that the sender would set, so
// that Verify with the same key accepts req at req.Now, which is also the
// signed time. Headers that the content of the scheme takes from the request
// must be set before; for Standard Webhooks that is webhook-id. An Ed25519 key
// must be a private one. A Verifier of FamilyNone does nothing.
func (v *Verifier) Sign(req *Request, key Key) error {
	if v.family == FamilyNone {
		return nil
	}
	if err := v.sign(req, key); err != nil {
		return fmt.Errorf("sign with scheme %s: %w", v.name, err)
	}
	return nil
}

func (v *Verifier) sign(req *Request, key Key) error {
	if err := v.usable([]Key{key}); err != nil {
		return err
	}
	if v.hash == nil && key.material().private == nil {
		return errors.New("the key is a public key, which cannot sign")
	}
	if req.Header == nil {
		req.Header = http.Header{}
	}
	var s signed
	if v.time != nil {
		s.time = v.time.text(req.Now)
		if v.time.header != "" && v.time.header != v.header {
			if err := v.time.set(req.Header, s.time); err != nil {
				return err
			}
		}
	}
	if v.family == FamilyStandardWebhooks {
		id, err := single(req.Header, trios[0].id)
		if err != nil {
			return err
		}
		if s.id, err = id, checkStandardID(id); err != nil {
			return err
		}
	}
	if err := v.checkContent(req); err != nil {
		return err
	}
	v.setSignature(req, &s, key)
	return nil
}

func (v *Verifier) setSignature(req *Request, s *signed, key Key) {
	var sig []byte
	if v.hash == nil {
		sig = ed25519.Sign(key.material().private, v.message(req, s))
	} else {
		sig = v.mac(nil, req, s, key.material().hmac)
	}
	value := v.prefix + v.codec.encode(sig)
	switch {
	case v.family == FamilyStandardWebhooks:
		setStandard(req.Header, s.time, v.tag+","+value)
	case !v.kv:
		req.Header.Set(v.header, value)
	case v.time != nil && v.time.header == v.header:
		req.Header.Set(v.header, v.time.key+"="+s.time+","+v.sigKeys[0]+"="+value)
	default:
		req.Header.Set(v.header, v.sigKeys[0]+"="+value)
	}
}
