package verify

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

// maxKeyText bounds the size of a key, or of a fetched document, in bytes.
const maxKeyText = 256 << 10

// parsePublicKey reads one or more keys for the algorithm: PEM (a public or private key, or a
// certificate), base64 of the same in DER, a JWK or a JWK set, and for Ed25519 also whpk_, whsk_ or
// the bare 32 bytes. Its errors reveal nothing of text.
func parsePublicKey(name, text string) (Key, error) {
	alg, ok := algorithms[name]
	if !ok || alg.kind == kindSecret {
		return Key{}, fmt.Errorf("the algorithm %q has no public keys", name)
	}
	text = strings.TrimSpace(text)
	var keys []publicKey
	var err error
	switch {
	case text == "":
		return Key{}, errors.New("the key is empty")
	case len(text) > maxKeyText:
		return Key{}, fmt.Errorf("the key is longer than %d bytes", maxKeyText)
	case strings.HasPrefix(text, "-----BEGIN "):
		keys, err = parsePEM(text, alg.kind)
	case text[0] == '{':
		keys, err = parseJWKs([]byte(text), alg)
	case alg.kind == kindEd25519:
		keys, err = parseEd25519(text)
	default:
		keys, err = parseBase64DER(text, alg.kind)
	}
	if err != nil {
		return Key{}, err
	}
	m, err := usableKeys(keys, alg)
	if err != nil {
		return Key{}, err
	}
	return newKey(m), nil
}

// usableKeys returns the keys that alg can use. If there are none, it returns the first problem.
func usableKeys(keys []publicKey, alg algorithm) (*material, error) {
	m := &material{}
	var first error
	for _, k := range keys {
		err := k.problem()
		if err == nil && !k.fits(alg) {
			err = k.misfit(alg)
		}
		if err == nil {
			m.public = append(m.public, k)
		} else if first == nil {
			first = err
		}
	}
	if len(m.public) == 0 {
		if first == nil {
			first = errNotKey(alg.kind)
		}
		return nil, first
	}
	return m, nil
}

// misfit returns the reason why alg cannot use the key.
func (k *publicKey) misfit(alg algorithm) error {
	if kind, _ := k.kind(); kind == alg.kind {
		return errors.New("the JWK is for an algorithm other than the scheme's")
	}
	return fmt.Errorf("the scheme needs another key: this is not %s", alg.kind)
}

// String names the kind for error messages.
func (k keyKind) String() string {
	switch k {
	case kindEd25519:
		return "an Ed25519 key"
	case kindRSA:
		return "an RSA key"
	case kindP256:
		return "an ECDSA key of the curve P-256"
	case kindP384:
		return "an ECDSA key of the curve P-384"
	case kindP521:
		return "an ECDSA key of the curve P-521"
	default:
		return "a shared secret"
	}
}

// notKeyError says that a text is not a key of the kind.
type notKeyError struct{ kind keyKind }

func errNotKey(kind keyKind) error { return &notKeyError{kind} }

func (e *notKeyError) Error() string {
	if e.kind == kindEd25519 {
		return "the key is not an Ed25519 key: expected whpk_ and base64 of 32 bytes, " +
			"those 32 bytes in base64 or hexadecimal digits, PEM, or a JWK"
	}
	return fmt.Sprintf("the key is not %s: expected PEM (a public key or a certificate), base64 of the same in DER, or a JWK", e.kind)
}

var errEncrypted = errors.New("the private key is encrypted: decrypt it first")

// problem returns the reason why the key is unsafe or invalid; nil if it is fine.
func (k *publicKey) problem() error {
	switch key := k.public.(type) {
	case *rsa.PublicKey:
		switch bits := key.N.BitLen(); {
		case bits < minRSABits:
			return fmt.Errorf("the RSA key has %d bits, which can be broken: use at least %d", bits, minRSABits)
		case bits > maxRSABits:
			return fmt.Errorf("the RSA key has %d bits: use at most %d", bits, maxRSABits)
		case key.N.Bit(0) == 0, key.E < 3, key.E&1 == 0:
			return errors.New("the RSA key is invalid: its modulus is even, or its exponent is even or below 3")
		}
	case ed25519.PublicKey:
		if smallOrder(key) {
			return errors.New("the Ed25519 key is a point of small order: its signatures can be forged")
		}
	}
	return nil
}

// smallOrder reports whether key is a point whose order divides 8. Signatures for such a key can be
// made without a private key. The list has the encodings of all these points, without the sign bit.
func smallOrder(key ed25519.PublicKey) bool {
	y := bytes.Clone(key)
	y[len(y)-1] &= 0x7f
	switch hex.EncodeToString(y) {
	case "0000000000000000000000000000000000000000000000000000000000000000",
		"0100000000000000000000000000000000000000000000000000000000000000",
		"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
		"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
		"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f":
		return true
	}
	return false
}

// parseEd25519 reads the forms that only Ed25519 keys have, and base64 of DER.
func parseEd25519(text string) ([]publicKey, error) {
	if rest, ok := strings.CutPrefix(text, "whsk_"); ok {
		raw, err := decodeBase64(rest)
		if err != nil {
			return nil, errNotKey(kindEd25519)
		}
		return edPrivate(raw)
	}
	if raw, err := hex.DecodeString(text); err == nil && len(raw) == ed25519.PublicKeySize {
		return edPublic(raw)
	}
	bare := strings.TrimPrefix(text, "whpk_")
	raw, err := decodeBase64(bare)
	if err != nil && bare == text {
		raw, err = base64.RawURLEncoding.Strict().DecodeString(strings.TrimRight(bare, "="))
	}
	switch {
	case err == nil && len(raw) == ed25519.PublicKeySize:
		return edPublic(raw)
	case bare != text:
		return nil, errNotKey(kindEd25519)
	}
	return parseBase64DER(text, kindEd25519)
}

func edPublic(raw []byte) ([]publicKey, error) {
	return []publicKey{{public: ed25519.PublicKey(raw)}}, nil
}

func edPrivate(raw []byte) ([]publicKey, error) {
	if len(raw) != ed25519.SeedSize && len(raw) != ed25519.PrivateKeySize {
		return nil, errors.New("the private key does not have 32 or 64 bytes after whsk_")
	}
	private := ed25519.NewKeyFromSeed(raw[:ed25519.SeedSize])
	if len(raw) == ed25519.PrivateKeySize && string(private) != string(raw) {
		return nil, errors.New("the two halves of the private key do not belong together")
	}
	return []publicKey{{public: private.Public(), private: private}}, nil
}

// parsePEM reads one key, or one certificate that may be followed by its chain.
func parsePEM(text string, kind keyKind) ([]publicKey, error) {
	blocks, ok := pemBlocks(text)
	if !ok {
		return nil, errNotKey(kind)
	}
	for _, block := range blocks[1:] {
		if block.Type != "CERTIFICATE" || blocks[0].Type != "CERTIFICATE" {
			return nil, errors.New("the PEM holds more than one key: give one")
		}
	}
	if blocks[0].Headers["DEK-Info"] != "" { // the encryption of PEM before PKCS #8
		return nil, errEncrypted
	}
	return parseDER(blocks[0].Bytes, blocks[0].Type, kind)
}

// pemBlocks parses PEM, even if JSON or an environment variable lost its line breaks or turned them
// into \n. It skips EC PARAMETERS, which some tools write before the key.
func pemBlocks(text string) ([]*pem.Block, bool) {
	text = strings.ReplaceAll(text, `\n`, "\n")
	if !strings.Contains(strings.TrimSpace(text), "\n") {
		text = strings.ReplaceAll(text, "-----BEGIN ", "\n-----BEGIN ")
		text = strings.ReplaceAll(text, "-----END ", "\n-----END ")
		text = strings.ReplaceAll(text, " KEY-----", " KEY-----\n")
		text = strings.ReplaceAll(text, " CERTIFICATE-----", " CERTIFICATE-----\n")
	}
	var blocks []*pem.Block
	rest := []byte(text)
	for len(bytes.TrimSpace(rest)) > 0 {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return nil, false
		}
		if block.Type != "EC PARAMETERS" {
			blocks = append(blocks, block)
		}
	}
	return blocks, len(blocks) > 0
}

func parseBase64DER(text string, kind keyKind) ([]publicKey, error) {
	der, err := decodeBase64(strings.Join(strings.Fields(text), ""))
	if err != nil {
		return nil, errNotKey(kind)
	}
	return parseDER(der, "", kind)
}

// parseDER reads one key of the given PEM type; "" means any type.
func parseDER(der []byte, pemType string, kind keyKind) ([]publicKey, error) {
	if strings.Contains(pemType, "ENCRYPTED") {
		return nil, errEncrypted
	}
	for _, form := range derForms {
		if pemType != "" && pemType != form.pemType {
			continue
		}
		key, err := form.parse(der)
		if err != nil {
			continue
		}
		return fromStandard(key, kind)
	}
	return nil, errNotKey(kind)
}

var derForms = []struct {
	pemType string
	parse   func([]byte) (any, error)
}{
	{"PUBLIC KEY", x509.ParsePKIXPublicKey},
	{"CERTIFICATE", func(der []byte) (any, error) {
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, err
		}
		return cert.PublicKey, nil
	}},
	{"RSA PUBLIC KEY", func(der []byte) (any, error) { return x509.ParsePKCS1PublicKey(der) }},
	{"PRIVATE KEY", x509.ParsePKCS8PrivateKey},
	{"RSA PRIVATE KEY", func(der []byte) (any, error) { return x509.ParsePKCS1PrivateKey(der) }},
	{"EC PRIVATE KEY", func(der []byte) (any, error) { return x509.ParseECPrivateKey(der) }},
}

// fromStandard converts a key that package x509 has parsed.
func fromStandard(key any, kind keyKind) ([]publicKey, error) {
	switch key := key.(type) {
	case ed25519.PublicKey, *rsa.PublicKey, *ecdsa.PublicKey:
		return []publicKey{{public: key}}, nil
	case ed25519.PrivateKey, *rsa.PrivateKey, *ecdsa.PrivateKey:
		private := key.(crypto.Signer)
		return []publicKey{{public: private.Public(), private: private}}, nil
	}
	return nil, errNotKey(kind)
}
