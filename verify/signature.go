package verify

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/hookonce/hookonce/internal/locate"
)

// content is a family that signs Scheme.Content: FamilyHMAC, FamilyDigest or FamilySignature.
type content struct {
	arithmetic
	carrier
	secret  string    // Scheme.SecretEncoding, if hash is set
	time    *timeRule // nil if the scheme has no signed time
	require []requirement
	each    *place // nil if the request has one signature
	anyPort bool
	keyID   *keyName // nil if the request does not name its key
}

func (f *content) verify(req *Request, keys []Key) error {
	if err := f.usable(keys); err != nil {
		return err
	}
	if f.each == nil {
		return f.verifyOne(req, keys, nil)
	}
	return eachItem(req, f.each, func(item []byte) error { return f.verifyOne(req, keys, item) })
}

// eachItem calls do with every item of a batch. An empty batch is an error, because it carries no
// signature.
func eachItem(req *Request, each *place, do func(item []byte) error) error {
	items, err := locate.Items(req.Body, each.path)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %s is not a batch", ErrMalformed, each.ref)
	case len(items) == 0:
		return fmt.Errorf("%w: the batch %s is empty", ErrMalformed, each.ref)
	}
	for i, item := range items {
		if err := do(item); err != nil {
			return fmt.Errorf("item %d: %w", i, err)
		}
	}
	return nil
}

func (f *content) verifyOne(req *Request, keys []Key, item []byte) error {
	s := signed{item: item}
	if err := f.begin(req, &s); err != nil {
		return err
	}
	if f.format == FormatGroups {
		return f.verifyGroups(req, keys, &s)
	}
	match, decoded, err := f.matchForms(req, &s, keys, 0, s.signatures.n)
	if err := verdict(&s, match, decoded, err); err != nil {
		return err
	}
	if err := f.required(req, &s); err != nil {
		return err
	}
	return f.time.check(req.Now, s.time)
}

// begin reads the signatures, the key id and the time of the request into s.
func (f *content) begin(req *Request, s *signed) (err error) {
	if err := f.read(req, s); err != nil {
		return err
	}
	if f.keyID != nil {
		if s.kid, err = f.keyID.read(req.Header); err != nil {
			return err
		}
	}
	if f.time != nil && f.time.at != nil {
		s.time, err = f.time.at.read(req, s.item)
	}
	return err
}

// plausible implements keyNamer.
func (f *content) plausible(req *Request) error {
	var s signed
	if err := f.begin(req, &s); err != nil {
		return err
	}
	if err := f.required(req, &s); err != nil {
		return err
	}
	return f.time.check(req.Now, s.time)
}

func verdict(s *signed, match, decoded int, err error) error {
	switch {
	case err != nil:
		return err
	case match == 1:
		return nil
	case decoded == 0:
		return s.signatures.noSignature()
	}
	return ErrMismatch
}

// verifyGroups checks every group with its own time. One right group is enough.
func (f *content) verifyGroups(req *Request, keys []Key, s *signed) error {
	var passed, matched bool
	var late error
	decoded := 0
	list := &s.signatures
	for first := 0; first < list.n; {
		last := first + 1
		for last < list.n && list.time[last] == list.time[first] {
			last++
		}
		s.time = list.time[first]
		match, n, err := f.matchForms(req, s, keys, first, last)
		if err != nil {
			return err
		}
		decoded += n
		if match == 1 {
			matched = true
			if err := f.time.check(req.Now, s.time); err == nil {
				passed = true
			} else {
				late = err
			}
		}
		first = last
	}
	switch {
	case passed:
		return f.required(req, s)
	case matched:
		return late
	}
	return verdict(s, 0, decoded, nil)
}

// matchForms is match for each form of the signed content. With Scheme.AnyPort that is the public URL with and
// without its port; for {mercado_pago} and {url_unescaped} the form of the provider's SDK, which takes the
// text as it is sent, and the one of its documentation.
func (f *content) matchForms(req *Request, s *signed, keys []Key, first, last int) (match, decoded int, err error) {
	urls, documented := []string{s.url}, []bool{false}
	if f.anyPort {
		u, err := publicURL(req)
		if err != nil {
			return 0, 0, err
		}
		urls = []string{u, otherPort(u)}
	}
	if has(f.arithmetic.content, partMercadoPago, partURLUnescaped) {
		documented = []bool{false, true}
	}
	for _, s.url = range urls {
		for _, s.documented = range documented {
			m, n, err := f.match(req, s, keys, first, last)
			if err != nil {
				return 0, 0, err
			}
			match, decoded = match|m, n
		}
	}
	return match, decoded, nil
}

func (f *content) required(req *Request, s *signed) error { return required(f.require, req, s) }

func (f *content) sign(req *Request, key Key) error {
	if err := f.usable([]Key{key}); err != nil {
		return err
	}
	if f.each == nil {
		_, err := f.signOne(req, key, nil)
		return err
	}
	return signItems(req, f.each, func(item []byte) ([]byte, error) { return f.signOne(req, key, item) })
}

// signItems replaces every item of a batch with the result of do.
func signItems(req *Request, each *place, do func(item []byte) ([]byte, error)) error {
	var items [][]byte
	err := eachItem(req, each, func(item []byte) error {
		made, err := do(item)
		items = append(items, made)
		return err
	})
	if err != nil {
		return err
	}
	raw := append(append([]byte{'['}, bytes.Join(items, []byte{','})...), ']')
	req.Body, err = locate.SetRaw(req.Body, each.path, raw)
	return err
}

func (f *content) signOne(req *Request, key Key, item []byte) ([]byte, error) {
	s := signed{item: item}
	if f.time != nil {
		s.time = f.time.text(req.Now)
		if f.time.at != nil {
			var err error
			if s.item, err = f.time.write(req, s.item, s.time); err != nil {
				return nil, err
			}
		}
	}
	if f.keyID != nil {
		s.kid = anyKeyID
		if k := key.material().signer(f.public); k != nil && k.id != "" {
			s.kid = k.id
		} else if given, err := f.keyID.read(req.Header); err == nil {
			s.kid = given
		}
		f.keyID.write(req.Header, s.kid)
	}
	if err := fulfil(f.require, req, &s); err != nil {
		return nil, err
	}
	if has(f.arithmetic.content, partSignedHeaders) && len(req.Header[contentfulList]) == 0 {
		req.Header.Set(contentfulList, strings.ToLower(contentfulList+","+contentfulTime)) // in this case Contentful's verifier finds them
	}
	sig, err := f.make(req, &s, key)
	if err != nil {
		return nil, err
	}
	return f.write(req, &s, sig)
}

func (f *content) parseKey(text string) (Key, error) {
	if f.hash == nil {
		return parsePublicKey(f.public, text)
	}
	return parseSecret(f.secret, text)
}

func (f *content) needsURL() bool {
	return f.anyPort || anyPart(f.arithmetic.content, (*part).needsURL) || requireURL(f.require)
}

func (f *content) covers(ref locate.Ref) bool {
	if f.time != nil && samePlace(ref, f.time.ref) {
		return true // Compile has checked this
	}
	if f.holds(ref) && ref.Kind != locate.Body && ref.Kind != locate.Item {
		return false
	}
	return covers(f.arithmetic.content, ref) || bodyHashed(f.arithmetic.content, f.require, ref)
}

// bodyHashed reports whether ref is part of the body, and the scheme requires a signed value to
// equal the body's hash.
func bodyHashed(parts []part, list []requirement, ref locate.Ref) bool {
	switch ref.Kind {
	case locate.Body, locate.Item, locate.Outer, locate.Form, locate.SHA256:
	default:
		return false
	}
	return slices.ContainsFunc(list, func(r requirement) bool {
		return has(r.equals, partSHA256Body, partSHA256Base64Body) && covers(parts, r.at.ref)
	})
}

// keyName locates the key's id in a request.
type keyName struct {
	header string
	member *locate.Path // of a JSON header; nil: the header itself
}

func (k *keyName) read(h http.Header) (string, error) {
	value, err := single(h, k.header)
	if err != nil || k.member == nil {
		return value, err
	}
	doc, err := decodeJSONHeader(value)
	if err != nil {
		return "", fmt.Errorf("%w: header %s is not base64 of JSON", ErrMalformed, k.header)
	}
	id, _, err := jsonText(doc, *k.member)
	switch {
	case err != nil:
		return "", fmt.Errorf("%w: header %s is not base64 of JSON", ErrMalformed, k.header)
	case id == "":
		return "", fmt.Errorf("%w: member %s of header %s", ErrMissing, k.member, k.header)
	}
	return id, nil
}

// write sets the id in a header of its own. carrier.write writes an id that shares the signature's
// header.
func (k *keyName) write(h http.Header, id string) {
	if k.member == nil {
		h.Set(k.header, id)
	}
}
