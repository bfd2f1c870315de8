package verify

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"
)

// ParseFetched reads the document that was fetched from ref, and returns the keys that ref refers
// to, without private halves. It returns no keys and no error if the document is a JWK set and all
// its keys have other ids.
//
// A certificate must be valid at Request.Now of the request behind ref. If KeySource.Chain is set,
// it must also be issued for that name and chain to a root of the system.
func (v *Verifier) ParseFetched(ref *KeyRef, data []byte) ([]Key, error) {
	if v.keys == nil {
		return nil, errors.New("the scheme fetches no keys")
	}
	m, err := v.keys.parse(ref, data)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the document fetched for scheme %s cannot be used: %w", v.name, err)
	case m == nil:
		return nil, nil
	}
	return []Key{newKey(m)}, nil
}

// parse returns the keys, or nil if all keys of a set have other ids.
func (ks *keySource) parse(ref *KeyRef, data []byte) (*material, error) {
	if len(data) > maxKeyText {
		return nil, fmt.Errorf("it is longer than %d bytes", maxKeyText)
	}
	data, err := ks.unwrap(data)
	if err != nil {
		return nil, err
	}
	alg := algorithms[ks.algorithm]
	var keys []publicKey
	switch ks.format {
	case KeysJWKS, KeysJWK:
		keys, err = parseJWKs(data, alg)
	case KeysCertificate:
		keys, err = ks.certificate(string(data), ref.now)
	case KeysPEM:
		keys, err = parsePEM(strings.TrimSpace(string(data)), alg.kind)
	default: // KeysSPKI
		keys, err = parseBase64DER(strings.TrimSpace(string(data)), alg.kind)
	}
	if err != nil {
		return nil, err
	}
	m, err := usableKeys(keys, alg)
	if err != nil {
		return nil, err
	}
	return ks.referred(m, ref)
}

// referred returns the keys of m that ref refers to.
func (ks *keySource) referred(m *material, ref *KeyRef) (*material, error) {
	found := &material{}
	expired := false
	for _, k := range m.public {
		k.private = nil
		if ks.format != KeysJWKS && k.id == "" {
			k.id = ref.ID
		}
		switch {
		case ref.ID != "" && k.id != "" && k.id != ref.ID:
		case k.expiredAt(ref.now):
			expired = true
		default:
			found.public = append(found.public, k)
		}
	}
	switch {
	case len(found.public) > 0:
		return found, nil
	case expired:
		return nil, errors.New("the key has expired")
	case ks.format != KeysJWKS:
		return nil, errors.New("the key has another id")
	}
	return nil, nil
}

// expiredAt reports whether the JWK member expired_at (Plaid) lies before now, or cannot be read.
func (k *publicKey) expiredAt(now time.Time) bool {
	if k.expired == "" || k.expired == "null" {
		return false
	}
	at, ok := numericDate(json.RawMessage(k.expired))
	return !ok || !now.Before(at)
}

// unwrap returns the key at KeySource.Member of a JSON document.
func (ks *keySource) unwrap(data []byte) ([]byte, error) {
	for i, name := range ks.member {
		members, err := object(data)
		if err != nil {
			return nil, fmt.Errorf("it cannot be read: %w", err)
		}
		var ok bool
		if data, ok = members[name]; !ok {
			return nil, fmt.Errorf("it has no member %s", strings.Join(ks.member[:i+1], "."))
		}
	}
	if len(ks.member) == 0 || data[0] != '"' {
		return data, nil
	}
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return nil, errJSON
	}
	return []byte(text), nil
}

// certificate reads a certificate in PEM, followed by its intermediate certificates in any order.
func (ks *keySource) certificate(text string, now time.Time) ([]publicKey, error) {
	blocks, ok := pemBlocks(strings.TrimSpace(text))
	if !ok {
		return nil, errors.New("it is not a certificate in PEM")
	}
	var leaf *x509.Certificate
	between := x509.NewCertPool()
	for i, block := range blocks {
		cert, err := parseCertificate(block)
		switch {
		case err != nil:
			return nil, err
		case i == 0:
			leaf = cert
		default:
			between.AddCert(cert)
		}
	}
	if now.Before(leaf.NotBefore) || now.After(leaf.NotAfter) {
		return nil, errors.New("the certificate is not valid at this time")
	}
	if ks.chain != "" {
		_, err := leaf.Verify(x509.VerifyOptions{
			DNSName: ks.chain, Roots: ks.roots, Intermediates: between, CurrentTime: now,
			KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
		})
		if err != nil {
			return nil, fmt.Errorf("the certificate is not trusted: %w", err)
		}
	}
	return fromStandard(leaf.PublicKey, algorithms[ks.algorithm].kind)
}

func parseCertificate(block *pem.Block) (*x509.Certificate, error) {
	if block.Type != "CERTIFICATE" {
		return nil, errors.New("it is not a certificate in PEM")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, errors.New("the certificate cannot be read")
	}
	return cert, nil
}
