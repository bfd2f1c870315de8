package sdk

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"sync"
	"time"

	"github.com/hookonce/hookonce/internal/sample"
	"github.com/hookonce/hookonce/internal/test/sdk/providers"
	"github.com/hookonce/hookonce/provider"
	"github.com/hookonce/hookonce/verify"
)

// pair is one key in both forms: for an SDK and for us.
type pair struct {
	text            providers.Key
	signing, public verify.Key
}

// parse reads a key.
func (g *guard) parse(key *providers.Key) (p pair, err error) {
	p.text = *key
	v := g.sender.Verifier
	if key.Secret != "" {
		p.signing, err = v.ParseKey(key.Secret)
		p.public = p.signing
		return p, err
	}
	if key.Private != "" {
		if p.signing, err = v.ParsePrivateKey(key.Private); err != nil {
			return p, err
		}
	}
	p.public, err = v.ParseKey(key.Public)
	return p, err
}

// keyring keeps the generated keys of each subject: a pair of RSA keys takes long.
var keyring = struct {
	sync.Mutex
	keys map[*providers.Subject][2]*providers.Key
}{keys: map[*providers.Subject][2]*providers.Key{}}

// keysOf returns the key of a subject, and another one that differs.
func keysOf(s *providers.Subject) (key, other *providers.Key, err error) {
	keyring.Lock()
	defer keyring.Unlock()
	if keys, ok := keyring.keys[s]; ok {
		return keys[0], keys[1], nil
	}
	sender, err := sample.New(sample.Setup{Provider: provider.Name(s.Provider), Scheme: s.Scheme, Params: s.Params})
	if err != nil {
		return nil, nil, err
	}
	if key = s.Key; key == nil {
		if key, err = newKey(sender.Verifier); err != nil {
			return nil, nil, err
		}
	}
	if other, err = otherKey(sender.Verifier, key); err != nil {
		return nil, nil, err
	}
	keyring.keys[s] = [2]*providers.Key{key, other}
	return key, other, nil
}

func newKey(v *verify.Verifier) (*providers.Key, error) {
	private, public, err := v.GenerateKey()
	if err != nil || public == "" {
		return &providers.Key{Secret: private}, err
	}
	key := &providers.Key{Private: private, Public: public}
	block, _ := pem.Decode([]byte(private))
	if block == nil {
		return key, nil // not PEM, so no sender has a certificate of it
	}
	key.Certificate, err = certificate(block.Bytes)
	return key, err
}

// otherKey returns a key that differs: in one byte if it is a secret.
func otherKey(v *verify.Verifier, key *providers.Key) (*providers.Key, error) {
	if key.Secret != "" {
		return &providers.Key{Secret: changeByte(key.Secret, len(key.Secret)/2)}, nil
	}
	return newKey(v)
}

// certificate returns a self-signed certificate of a private key in PKCS #8, as PEM.
func certificate(pkcs8 []byte) (string, error) {
	private, err := x509.ParsePKCS8PrivateKey(pkcs8)
	if err != nil {
		return "", err
	}
	signer, ok := private.(crypto.Signer)
	if !ok {
		return "", fmt.Errorf("a %T does not sign", private)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "hooks.example.com"},
		NotBefore: time.Now().AddDate(-1, 0, 0), NotAfter: time.Now().AddDate(1, 0, 0),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, signer.Public(), signer)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), err
}

// errCompile means that the catalog would refuse the scheme.
var errCompile = errors.New("the scheme does not compile")
