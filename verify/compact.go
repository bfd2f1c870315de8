package verify

import (
	"cmp"
	"crypto/hmac"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Limits on a token, in bytes of its text.
const (
	maxToken          = 1 << 20
	maxTokenHeader    = 8 << 10
	maxTokenSignature = (maxPublicSignature*8 + 5) / 6
	maxKeyID          = 256
)

// compact is a parsed JWS in compact form (RFC 7515). Nothing in it is verified yet.
type compact struct {
	header, payload string // still encoded
	algorithm, kid  string
	claims          []byte // the decoded payload
	signature       []byte
}

// parseCompact parses a token. Its alg must be one of algorithms: the token does not choose how it
// is verified. A header with crit is refused, because crit demands that the receiver acts on other
// members, and only alg and kid are read.
func parseCompact(text string, algorithms []string) (*compact, error) {
	malformed := func(why string) (*compact, error) { return nil, fmt.Errorf("%w: the token %s", ErrMalformed, why) }
	if len(text) > maxToken {
		return malformed(fmt.Sprintf("is longer than %d bytes", maxToken))
	}
	segments := strings.SplitN(text, ".", 4)
	if len(segments) != 3 {
		return malformed("does not consist of three parts with dots between")
	}
	t := &compact{header: segments[0], payload: segments[1]}
	if len(t.header) > maxTokenHeader || len(segments[2]) > maxTokenSignature {
		return malformed("has a header or signature that is too long")
	}
	header, err := decodeSegment(t.header)
	if err == nil {
		t.claims, err = decodeSegment(t.payload)
	}
	if err == nil {
		t.signature, err = decodeSegment(segments[2])
	}
	if err != nil {
		return malformed("is not base64url without padding")
	}
	members, err := object(header)
	if err != nil {
		return malformed("has a header that cannot be read: " + err.Error())
	}
	if _, critical := members["crit"]; critical {
		return malformed("has a header with crit, which is not supported")
	}
	var ok bool
	if t.algorithm, ok = memberText(members, "alg"); !ok || !slices.Contains(algorithms, t.algorithm) {
		return malformed("names an algorithm other than " + strings.Join(algorithms, ", "))
	}
	if t.kid, ok = memberText(members, "kid"); !ok || len(t.kid) > maxKeyID {
		return malformed("has a malformed kid")
	}
	return t, nil
}

var segmentEncoding = base64.RawURLEncoding.Strict()

// decodeSegment decodes base64url without padding, and accepts one spelling only.
func decodeSegment(s string) ([]byte, error) {
	raw, err := segmentEncoding.DecodeString(s)
	// The decoder skips line breaks; the length shows them.
	if err == nil && segmentEncoding.EncodedLen(len(raw)) != len(s) {
		err = errors.New("a line break")
	}
	return raw, err
}

// signedBy returns nil if one of keys signed payload, which is still encoded.
func (t *compact) signedBy(keys []Key, payload string) error {
	alg := algorithms[t.algorithm]
	input := []byte(t.header + "." + payload)
	match := 0
	for i := range keys {
		m := keys[i].material()
		if alg.kind != kindSecret {
			if len(m.public) == 0 {
				return errKeyOf(i)
			}
			if publicVerify(t.algorithm, m, t.kid, input, t.signature) {
				match = 1
			}
			continue
		}
		if len(m.hmac) == 0 {
			return errKeyOf(i)
		}
		match |= subtle.ConstantTimeCompare(alg.mac(m.hmac, input), t.signature)
	}
	if match != 1 {
		return ErrMismatch
	}
	return nil
}

func errKeyOf(i int) error {
	return fmt.Errorf("%w: key %d was not made by ParseKey for this scheme", ErrNoKeys, i+1)
}

func (a algorithm) mac(key, input []byte) []byte {
	h := hmac.New(a.hash.New, key)
	_, _ = h.Write(input) // a hash never fails
	return h.Sum(nil)
}

// anyKeyID names a key that has no id: Verify accepts any name for it.
const anyKeyID = "1"

// signCompact returns the encoded header and signature of an encoded payload. It uses the first of
// the algorithms in names that key can sign with. kid names a public key without an id, "" leaves it
// unnamed.
func signCompact(names []string, typ, kid, payload string, key Key) (header, signature string, err error) {
	m := key.material()
	for _, name := range names {
		alg := algorithms[name]
		head := struct {
			Algorithm string `json:"alg"`
			Type      string `json:"typ,omitempty"`
			KeyID     string `json:"kid,omitempty"`
		}{Algorithm: name, Type: typ}
		switch k := m.signer(name); {
		case alg.kind == kindSecret && len(m.hmac) == 0, alg.kind != kindSecret && k == nil:
			continue
		case k != nil:
			head.KeyID = cmp.Or(k.id, kid)
		}
		raw, err := json.Marshal(head)
		if err != nil {
			return "", "", err
		}
		header = segmentEncoding.EncodeToString(raw)
		input := []byte(header + "." + payload)
		var sig []byte
		if alg.kind == kindSecret {
			sig = alg.mac(m.hmac, input)
		} else if sig, err = publicSign(name, m, input); err != nil {
			return "", "", err
		}
		return header, segmentEncoding.EncodeToString(sig), nil
	}
	if len(m.public) == 0 && len(m.hmac) == 0 {
		return "", "", errKeyOf(0)
	}
	return "", "", errCannotSign
}
