package verify

import (
	"crypto/sha1"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"html"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// weakKey is the least number of bytes of an HMAC key that is not weak.
const weakKey = 16

// Key is a secret or public key that a Verifier can use. It prints as "<secret>". The zero Key
// matches nothing. A Key is safe for concurrent use.
type Key struct {
	// A function hides the material: fmt prints the unexported fields of a struct that holds a Key
	// without calling Key's methods, and follows pointers.
	get func() *material
}

func newKey(m *material) Key { return Key{get: func() *material { return m }} }

// material returns the contents of the key; empty for the zero Key.
func (k Key) material() *material {
	if k.get == nil {
		return &material{}
	}
	return k.get()
}

type material struct {
	hmac   []byte
	short  bool // see Key.Weak
	public []publicKey

	also    *material // another key of the same secret, which may match as well; nil for most
	hashers sync.Pool // of *hasher: HMACs of this key
}

const redacted = "<secret>"

// String returns "<secret>".
func (Key) String() string { return redacted }

// GoString returns "<secret>".
func (Key) GoString() string { return redacted }

// Format writes "<secret>" for every verb.
func (Key) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(redacted)) }

// LogValue returns "<secret>".
func (Key) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText returns "<secret>".
func (Key) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// Weak reports whether the key comes from a shared secret of fewer than 16 bytes, which can be
// guessed by trial. Of user:password, only the password counts.
func (k Key) Weak() bool { return k.material().short }

// Private reports whether the key holds the private half of a key pair. A receiver needs only the
// public half.
func (k Key) Private() bool {
	return slices.ContainsFunc(k.material().public, func(p publicKey) bool { return p.private != nil })
}

// parseSecret decodes a shared secret by Scheme.SecretEncoding. Its errors reveal nothing of it.
func parseSecret(encoding, secret string) (Key, error) {
	switch {
	case strings.TrimSpace(secret) == "":
		return Key{}, errors.New("the secret is empty")
	case strings.Trim(secret, "\r\n") != secret:
		return Key{}, errors.New("the secret begins or ends with a line break: remove it")
	case trimWhsec(strings.TrimSpace(secret)) == "":
		return Key{}, errors.New("the secret is only the prefix whsec_")
	case isPublicPEM(secret):
		return Key{}, errors.New("the secret is a public key, which anyone can sign with: use the shared secret, or the scheme for this key")
	}
	key, err := decodeSecret(encoding, secret)
	if err != nil {
		return Key{}, err
	}
	switch {
	case len(key) == 0:
		return Key{}, errors.New("the secret decodes to nothing")
	case onlyZeros([]byte(secret)) || onlyZeros(key):
		// HMAC pads a short key with zeros, so this one equals the empty key, which anyone can use.
		return Key{}, ErrZeroSecret
	}
	short := len(key) < weakKey || encoding == SecretSHA1 && len(secret) < weakKey
	m := &material{hmac: key, short: short}
	if string(key) != secret && encoding == SecretHTML {
		m.also = &material{hmac: []byte(secret)}
	}
	return newKey(m), nil
}

// isPublicPEM reports whether text begins like a public key or a certificate in PEM. As a shared
// secret it would let everyone sign who knows the public key: the confusion of algorithms in JWTs.
func isPublicPEM(text string) bool {
	kind, ok := strings.CutPrefix(strings.TrimSpace(text), "-----BEGIN ")
	kind, _, closed := strings.Cut(kind, "-----")
	return ok && closed && (strings.HasSuffix(kind, "PUBLIC KEY") || strings.HasSuffix(kind, "CERTIFICATE"))
}

func onlyZeros(key []byte) bool {
	return !slices.ContainsFunc(key, func(b byte) bool { return b != 0 })
}

// htmlEntity is what wp_specialchars_decode of WordPress decodes with ENT_QUOTES.
var htmlEntity = regexp.MustCompile(`&(?:quot|lt|gt|amp|#0*(?:34|39|60|62|38)|#[xX]0*(?:22|27|26));`)

func decodeSecret(encoding, secret string) ([]byte, error) {
	switch encoding {
	case SecretHex:
		key, err := hex.DecodeString(secret)
		if err != nil {
			return nil, secretFormError("hexadecimal digits, two for each byte")
		}
		return key, nil
	case SecretBase64, SecretWhsec:
		if encoding == SecretWhsec {
			secret = trimWhsec(secret)
		}
		key, err := decodeBase64(secret)
		if err != nil && encoding == SecretWhsec {
			return nil, secretFormError("base64, with or without the prefix whsec_")
		}
		if err != nil {
			return nil, secretFormError("base64")
		}
		return key, nil
	case SecretSHA1:
		sum := sha1.Sum([]byte(secret))
		return sum[:], nil
	case SecretHTML:
		return []byte(htmlEntity.ReplaceAllStringFunc(secret, html.UnescapeString)), nil
	case SecretNFKD:
		// NFKD leaves ASCII as it is; other characters would need Unicode tables.
		for i := range len(secret) {
			if secret[i] >= 0x80 {
				return nil, errors.New("the secret has a character outside of ASCII, which this scheme cannot use: make a new secret")
			}
		}
	}
	return []byte(secret), nil
}

// trimWhsec removes the prefix whsec_, or v1,whsec_ as Supabase shows it.
func trimWhsec(secret string) string {
	if text, ok := strings.CutPrefix(secret, "v1,whsec_"); ok {
		return text
	}
	return strings.TrimPrefix(secret, "whsec_")
}

// decodeBase64 decodes base64 with or without padding. Never show its errors: they name a position
// in the secret.
func decodeBase64(s string) ([]byte, error) {
	if strings.ContainsAny(s, "\r\n") { // the decoder would skip line breaks
		return nil, errors.New("a line break")
	}
	if strings.HasSuffix(s, "=") {
		return base64.StdEncoding.Strict().DecodeString(s)
	}
	return base64.RawStdEncoding.Strict().DecodeString(s)
}
