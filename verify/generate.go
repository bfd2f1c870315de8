package verify

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"fmt"
)

// secretSize is the size of a generated secret in bytes.
const secretSize = 32

// GenerateKey makes a new key for the scheme, in the form that ParseKey reads. If the sender signs
// with a private key, private signs and public configures the receiver; both are PEM, or whsk_ and
// whpk_ for Standard Webhooks. For a shared secret public is "". FamilyBasic gets the user
// "hookonce". FamilyNone needs no key, and gets "" twice.
func (v *Verifier) GenerateKey() (private, public string, err error) {
	secret, algorithm := "", ""
	switch m := v.method.(type) {
	case *content:
		secret, algorithm = m.secret, m.public
	case *standard:
		if m.public != "" {
			return generateStandard()
		}
		secret = m.secret
	case *jwt:
		if alg := m.algorithms[0]; algorithms[alg].kind != kindSecret {
			algorithm = alg
		}
		secret = m.secret
	case *jws:
		algorithm = m.algorithms[0]
	case none:
		return "", "", nil
	}
	if algorithm != "" {
		return generatePair(algorithm)
	}
	private = generateSecret(secret)
	if v.family == FamilyBasic {
		private = "hookonce:" + private
	}
	return private, "", nil
}

// generateSecret returns a random secret in the given Scheme.SecretEncoding.
func generateSecret(encoding string) string {
	raw := make([]byte, secretSize)
	_, _ = rand.Read(raw) // never fails
	switch encoding {
	case SecretHex:
		return hex.EncodeToString(raw)
	case SecretBase64:
		return base64.StdEncoding.EncodeToString(raw)
	case SecretWhsec:
		return "whsec_" + base64.StdEncoding.EncodeToString(raw)
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}

func generateStandard() (private, public string, err error) {
	pub, priv, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return "", "", err
	}
	return "whsk_" + base64.StdEncoding.EncodeToString(priv.Seed()), "whpk_" + base64.StdEncoding.EncodeToString(pub), nil
}

func generatePair(algorithm string) (private, public string, err error) {
	key, err := newPrivateKey(algorithms[algorithm].kind)
	if err != nil {
		return "", "", err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return "", "", err
	}
	private = string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	if der, err = x509.MarshalPKIXPublicKey(key.Public()); err != nil {
		return "", "", err
	}
	return private, string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})), nil
}

func newPrivateKey(kind keyKind) (crypto.Signer, error) {
	switch kind {
	case kindEd25519:
		_, key, err := ed25519.GenerateKey(rand.Reader)
		return key, err
	case kindRSA:
		return rsa.GenerateKey(rand.Reader, minRSABits)
	case kindP256:
		return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case kindP384:
		return ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case kindP521:
		return ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	}
	return nil, fmt.Errorf("cannot generate %s as a key pair", kind)
}
