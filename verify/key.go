package verify

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"strings"
)

// weakKey is how many bytes an HMAC key should have at least.
const weakKey = 16

// Key is a secret or public key that a Verifier can use. It prints as
// "<secret>". The zero Key matches nothing. It is safe for concurrent use.
type Key struct {
	// Behind a function, because fmt prints the unexported fields of a struct
	// that holds a Key without asking Key's methods, and follows pointers.
	get func() *material
}

func newKey(m *material) Key { return Key{get: func() *material { return m }} }

// material returns what is in the key; all of it is nil for the zero Key.
func (k Key) material() *material {
	if k.get == nil {
		return &material{}
	}
	return k.get()
}

type material struct {
	hmac    []byte
	public  ed25519.PublicKey
	private ed25519.PrivateKey // nil if only the public half is known
}

const redacted = "<secret>"

// String returns "<secret>".
func (Key) String() string { return redacted }

// GoString returns "<secret>".
func (Key) GoString() string { return redacted }

// Format writes "<secret>", whatever the verb.
func (Key) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(redacted)) }

// LogValue returns "<secret>".
func (Key) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText returns "<secret>".
func (Key) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// Weak reports whether the key is an HMAC key of less than 16 bytes, which
// can be found by trying.
func (k Key) Weak() bool { return k.material().hmac != nil && len(k.material().hmac) < weakKey }

// ParseKey decodes a secret as Scheme.SecretEncoding says, or, for Ed25519, a
// public key: whpk_ and base64, base64 or hexadecimal digits of the 32 bytes,
// or PEM. Ed25519 also takes a private key, which can sign: whsk_ and base64
// of the 32 bytes of seed or of all 64, or PEM (PKCS #8).
//
// A secret that is empty, blank, only a prefix, has a line break at an end, or
// is not in the encoding is an error. Errors never hold the secret.
func (v *Verifier) ParseKey(secret string) (Key, error) {
	if strings.TrimSpace(secret) == "" {
		return Key{}, errors.New("the secret is empty")
	}
	switch {
	case v.family == FamilyNone:
		return Key{}, nil
	case v.hash == nil:
		return parseEd25519(secret)
	}
	if strings.Trim(secret, "\r\n") != secret {
		return Key{}, errors.New("the secret begins or ends with a line break: remove it")
	}
	if strings.TrimPrefix(strings.TrimSpace(secret), "whsec_") == "" {
		return Key{}, errors.New("the secret is the prefix whsec_ and nothing behind it")
	}
	key, err := decodeSecret(v.secret, secret)
	if err != nil {
		return Key{}, err
	}
	if len(key) == 0 {
		return Key{}, errors.New("the secret decodes to nothing")
	}
	return newKey(&material{hmac: key}), nil
}

func decodeSecret(encoding, secret string) ([]byte, error) {
	switch encoding {
	case SecretHex:
		key, err := hex.DecodeString(secret)
		if err != nil {
			return nil, errors.New("the secret is not hexadecimal digits, two for each byte")
		}
		return key, nil
	case SecretBase64, SecretWhsec:
		if encoding == SecretWhsec {
			secret = strings.TrimPrefix(secret, "whsec_")
		}
		key, err := decodeBase64(secret)
		if err != nil && encoding == SecretWhsec {
			return nil, errors.New("the secret is not base64, with or without the prefix whsec_")
		}
		if err != nil {
			return nil, errors.New("the secret is not base64")
		}
		return key, nil
	}
	return []byte(secret), nil
}

// decodeBase64 decodes base64 with or without padding. Its errors must not be
// shown: they are about the place in the secret.
func decodeBase64(s string) ([]byte, error) {
	if strings.ContainsAny(s, "\r\n") { // the decoder would skip them
		return nil, errors.New("a line break")
	}
	if strings.HasSuffix(s, "=") {
		return base64.StdEncoding.Strict().DecodeString(s)
	}
	return base64.RawStdEncoding.Strict().DecodeString(s)
}

var errEd25519 = errors.New("the key is not an Ed25519 key: expected whpk_ and base64 of 32 bytes, " +
	"those 32 bytes in base64 or hexadecimal digits, or PEM")

func parseEd25519(text string) (Key, error) {
	text = strings.TrimSpace(text)
	if strings.HasPrefix(text, "-----BEGIN ") {
		return parsePEM(text)
	}
	if rest, ok := strings.CutPrefix(text, "whsk_"); ok {
		raw, err := decodeBase64(rest)
		if err != nil {
			return Key{}, errEd25519
		}
		return privateKey(raw)
	}
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != ed25519.PublicKeySize {
		raw, err = decodeBase64(strings.TrimPrefix(text, "whpk_"))
	}
	if err != nil || len(raw) != ed25519.PublicKeySize {
		return Key{}, errEd25519
	}
	return newKey(&material{public: raw}), nil
}

func privateKey(raw []byte) (Key, error) {
	if len(raw) != ed25519.SeedSize && len(raw) != ed25519.PrivateKeySize {
		return Key{}, errors.New("the private key has neither 32 nor 64 bytes behind whsk_")
	}
	private := ed25519.NewKeyFromSeed(raw[:ed25519.SeedSize])
	if len(raw) == ed25519.PrivateKeySize && string(private) != string(raw) {
		return Key{}, errors.New("the two halves of the private key do not belong together")
	}
	return newKey(&material{private: private, public: private.Public().(ed25519.PublicKey)}), nil
}

func parsePEM(text string) (Key, error) {
	block, rest := pem.Decode([]byte(text))
	if block == nil || strings.TrimSpace(string(rest)) != "" {
		return Key{}, errEd25519
	}
	switch block.Type {
	case "PUBLIC KEY":
		key, err := x509.ParsePKIXPublicKey(block.Bytes)
		if public, ok := key.(ed25519.PublicKey); ok && err == nil {
			return newKey(&material{public: public}), nil
		}
	case "PRIVATE KEY":
		key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if private, ok := key.(ed25519.PrivateKey); ok && err == nil {
			return privateKey(private)
		}
	}
	return Key{}, errEd25519
}
