package verify

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	_ "crypto/sha1" // for crypto.SHA1
	"errors"
	"math/big"
)

// keyKind is the kind of key that an algorithm needs.
type keyKind uint8

const (
	kindSecret keyKind = iota
	kindEd25519
	kindRSA
	kindP256
	kindP384
	kindP521
)

// algorithm is a public-key algorithm, or an algorithm of a JWT.
type algorithm struct {
	kind keyKind
	hash crypto.Hash // 0 for Ed25519, which has its own
	pss  bool        // RSA-PSS
	// Set for ECDSA as in RFC 7518: r and s side by side instead of ASN.1.
	fixed bool
}

// algorithms maps the values of Scheme.Algorithm, and the names of RFC 7518, 8037 and 9864.
var algorithms = map[string]algorithm{
	AlgorithmEd25519:      {kind: kindEd25519},
	AlgorithmECDSASHA256:  {kind: kindP256, hash: crypto.SHA256},
	AlgorithmECDSASHA1:    {kind: kindP256, hash: crypto.SHA1},
	AlgorithmRSASHA1:      {kind: kindRSA, hash: crypto.SHA1},
	AlgorithmRSASHA256:    {kind: kindRSA, hash: crypto.SHA256},
	AlgorithmRSASHA512:    {kind: kindRSA, hash: crypto.SHA512},
	AlgorithmRSAPSSSHA512: {kind: kindRSA, hash: crypto.SHA512, pss: true},

	"HS256":   {kind: kindSecret, hash: crypto.SHA256},
	"HS384":   {kind: kindSecret, hash: crypto.SHA384},
	"HS512":   {kind: kindSecret, hash: crypto.SHA512},
	"RS256":   {kind: kindRSA, hash: crypto.SHA256},
	"RS384":   {kind: kindRSA, hash: crypto.SHA384},
	"RS512":   {kind: kindRSA, hash: crypto.SHA512},
	"PS256":   {kind: kindRSA, hash: crypto.SHA256, pss: true},
	"PS384":   {kind: kindRSA, hash: crypto.SHA384, pss: true},
	"PS512":   {kind: kindRSA, hash: crypto.SHA512, pss: true},
	"ES256":   {kind: kindP256, hash: crypto.SHA256, fixed: true},
	"ES384":   {kind: kindP384, hash: crypto.SHA384, fixed: true},
	"ES512":   {kind: kindP521, hash: crypto.SHA512, fixed: true},
	"EdDSA":   {kind: kindEd25519},
	"Ed25519": {kind: kindEd25519},
}

// FamilyOf returns the family of a scheme that signs Scheme.Content with an algorithm: FamilySignature
// for the public-key algorithms, and FamilyHMAC for all others.
func FamilyOf(algorithm string) Family {
	switch algorithm {
	case AlgorithmEd25519, AlgorithmECDSASHA256, AlgorithmECDSASHA1,
		AlgorithmRSASHA1, AlgorithmRSASHA256, AlgorithmRSASHA512, AlgorithmRSAPSSSHA512:
		return FamilySignature
	}
	return FamilyHMAC
}

// Bounds of RSA keys, in bits. Smaller keys can be factored. Larger ones make a check slow, and a
// sender could choose them.
const (
	minRSABits = 2048
	maxRSABits = 8192
)

// maxPublicSignature is the size in bytes of the largest signature by a private key.
const maxPublicSignature = maxRSABits / 8

// publicKey is a key of a key pair.
type publicKey struct {
	id      string           // "" if it has none
	jose    string           // the alg of a JWK; "" if it names none
	public  crypto.PublicKey // ed25519.PublicKey, *rsa.PublicKey or *ecdsa.PublicKey
	private crypto.Signer    // nil if only the public half is known
	expired string           // the JWK member expired_at, as JSON
}

// kind returns the key's kind; false if no algorithm of this package uses it.
func (k *publicKey) kind() (keyKind, bool) {
	switch key := k.public.(type) {
	case ed25519.PublicKey:
		return kindEd25519, true
	case *rsa.PublicKey:
		return kindRSA, true
	case *ecdsa.PublicKey:
		switch key.Curve {
		case elliptic.P256():
			return kindP256, true
		case elliptic.P384():
			return kindP384, true
		case elliptic.P521():
			return kindP521, true
		}
	}
	return 0, false
}

// fits reports whether alg can use the key.
func (k *publicKey) fits(alg algorithm) bool {
	kind, ok := k.kind()
	if !ok || kind != alg.kind {
		return false
	}
	// The scheme fixes the hash: a JWK that names another hash still fits.
	own, known := algorithms[k.jose]
	return k.jose == "" || known && own.kind == alg.kind && own.pss == alg.pss
}

// publicVerify reports whether sig is a signature of message by one of the keys of m. If kid is not
// "", it skips keys that have another id.
func publicVerify(name string, m *material, kid string, message, sig []byte) bool {
	alg, ok := algorithms[name]
	if !ok || alg.kind == kindSecret || len(sig) == 0 {
		return false
	}
	digest := alg.digest(message)
	for i := range m.public {
		k := &m.public[i]
		if kid != "" && k.id != "" && k.id != kid || !k.fits(alg) {
			continue
		}
		if alg.check(k.public, message, digest, sig) {
			return true
		}
	}
	return false
}

// digest returns the hash of message; nil for Ed25519.
func (a algorithm) digest(message []byte) []byte {
	if a.hash == 0 {
		return nil
	}
	h := a.hash.New()
	_, _ = h.Write(message) // a hash never fails
	return h.Sum(nil)
}

func (a algorithm) check(public crypto.PublicKey, message, digest, sig []byte) bool {
	switch key := public.(type) {
	case ed25519.PublicKey:
		return ed25519.Verify(key, message, sig)
	case *rsa.PublicKey:
		if a.pss {
			return rsa.VerifyPSS(key, a.hash, digest, sig, nil) == nil
		}
		return rsa.VerifyPKCS1v15(key, a.hash, digest, sig) == nil
	case *ecdsa.PublicKey:
		if !a.fixed {
			return ecdsa.VerifyASN1(key, digest, sig)
		}
		size := (key.Curve.Params().BitSize + 7) / 8
		if len(sig) != 2*size {
			return false
		}
		return ecdsa.Verify(key, digest, new(big.Int).SetBytes(sig[:size]), new(big.Int).SetBytes(sig[size:]))
	}
	return false
}

var errCannotSign = errors.New("the key is a public key, which cannot sign")

// publicSign signs message with the first private key of m that fits the algorithm.
func publicSign(name string, m *material, message []byte) ([]byte, error) {
	alg := algorithms[name]
	k := m.signer(name)
	if k == nil {
		return nil, errCannotSign
	}
	digest := alg.digest(message)
	switch key := k.private.(type) {
	case ed25519.PrivateKey:
		return ed25519.Sign(key, message), nil
	case *rsa.PrivateKey:
		if alg.pss {
			return rsa.SignPSS(rand.Reader, key, alg.hash, digest, &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash})
		}
		return rsa.SignPKCS1v15(nil, key, alg.hash, digest)
	case *ecdsa.PrivateKey:
		if !alg.fixed {
			return ecdsa.SignASN1(rand.Reader, key, digest)
		}
		r, s, err := ecdsa.Sign(rand.Reader, key, digest)
		if err != nil {
			return nil, err
		}
		size := (key.Curve.Params().BitSize + 7) / 8
		sig := make([]byte, 2*size)
		r.FillBytes(sig[:size])
		s.FillBytes(sig[size:])
		return sig, nil
	}
	return nil, errCannotSign
}

// signer returns the key that publicSign uses for the algorithm; nil if there is none.
func (m *material) signer(name string) *publicKey {
	alg, ok := algorithms[name]
	if !ok || alg.kind == kindSecret {
		return nil
	}
	for i := range m.public {
		if k := &m.public[i]; k.private != nil && k.fits(alg) {
			return k
		}
	}
	return nil
}
