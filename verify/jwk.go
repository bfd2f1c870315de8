package verify

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"unicode/utf8"
)

// maxJWKs bounds the number of keys in a JWK set.
const maxJWKs = 128

var errJSON = errors.New("it is not a JSON object with unique members")

// object parses a JSON object. Unlike encoding/json it refuses repeated members, and keeps the case
// of names.
func object(data []byte) (map[string]json.RawMessage, error) {
	if !utf8.Valid(data) {
		return nil, errJSON
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return nil, errJSON
	}
	members := map[string]json.RawMessage{}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, errJSON
		}
		key := name.(string) // else Token had failed
		var value json.RawMessage
		if _, twice := members[key]; twice || dec.Decode(&value) != nil {
			return nil, errJSON
		}
		members[key] = value
	}
	if _, err := dec.Token(); err != nil || dec.InputOffset() != int64(len(bytes.TrimRight(data, " \t\r\n"))) {
		return nil, errJSON
	}
	return members, nil
}

// memberText returns a member that is a string, or "" if it is absent. ok is false if the member is
// empty or not a string.
func memberText(members map[string]json.RawMessage, name string) (value string, ok bool) {
	raw, there := members[name]
	if !there {
		return "", true
	}
	if raw[0] != '"' || json.Unmarshal(raw, &value) != nil {
		return "", false
	}
	return value, value != ""
}

// parseJWKs reads a JWK (RFC 7517) or a JWK set. It skips the keys of a set that it cannot read, or
// that have another use.
func parseJWKs(data []byte, alg algorithm) ([]publicKey, error) {
	doc, err := object(data)
	if err != nil {
		return nil, fmt.Errorf("the JWK cannot be read: %w", err)
	}
	list, isSet := doc["keys"]
	if !isSet {
		k, err := parseJWK(doc)
		if err != nil {
			return nil, err
		}
		return []publicKey{k}, nil
	}
	var raw []json.RawMessage
	if err := json.Unmarshal(list, &raw); err != nil {
		return nil, errors.New("the JWK set has no list of keys")
	}
	if len(raw) > maxJWKs {
		return nil, fmt.Errorf("the JWK set has more than %d keys", maxJWKs)
	}
	var keys []publicKey
	for _, item := range raw {
		members, err := object(item)
		if err != nil {
			continue
		}
		if k, err := parseJWK(members); err == nil {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("the JWK set lacks %s for signatures", alg.kind)
	}
	return keys, nil
}

var errJWK = errors.New("the JWK is incomplete or malformed: it needs kty, and n and e (RSA), crv, x and y (EC), or crv and x (OKP)")

func parseJWK(members map[string]json.RawMessage) (publicKey, error) {
	var k publicKey
	var kty, use string
	for name, to := range map[string]*string{"kid": &k.id, "alg": &k.jose, "kty": &kty, "use": &use} {
		var ok bool
		if *to, ok = memberText(members, name); !ok {
			return k, errJWK
		}
	}
	if use != "" && use != "sig" {
		return k, errors.New("the JWK is not for signatures: its use is not sig")
	}
	if _, known := algorithms[k.jose]; k.jose != "" && !known {
		return k, errors.New("the JWK is for an unknown algorithm")
	}
	k.expired = string(members["expired_at"])
	var err error
	switch kty {
	case "RSA":
		err = k.readRSA(members)
	case "EC":
		err = k.readEC(members)
	case "OKP":
		err = k.readOKP(members)
	default:
		err = errors.New("the JWK has an unknown kty: use RSA, EC or OKP")
	}
	return k, err
}

// octets returns the bytes of a base64url member; none if it is absent.
func octets(members map[string]json.RawMessage, name string) ([]byte, error) {
	value, ok := memberText(members, name)
	if !ok {
		return nil, errJWK
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(value)
	if err != nil || base64.RawURLEncoding.EncodedLen(len(raw)) != len(value) {
		return nil, errJWK
	}
	return raw, nil
}

func (k *publicKey) readOKP(members map[string]json.RawMessage) error {
	crv, _ := memberText(members, "crv")
	x, errX := octets(members, "x")
	d, errD := octets(members, "d")
	if crv != "Ed25519" || errX != nil || errD != nil || len(x) != ed25519.PublicKeySize {
		return errJWK
	}
	k.public = ed25519.PublicKey(x)
	if len(d) == 0 {
		return nil
	}
	if len(d) != ed25519.SeedSize {
		return errJWK
	}
	private := ed25519.NewKeyFromSeed(d)
	return k.pair(private, private.Public().(ed25519.PublicKey).Equal(k.public))
}

func (k *publicKey) readEC(members map[string]json.RawMessage) error {
	crv, _ := memberText(members, "crv")
	curve := map[string]elliptic.Curve{"P-256": elliptic.P256(), "P-384": elliptic.P384(), "P-521": elliptic.P521()}[crv]
	x, errX := octets(members, "x")
	y, errY := octets(members, "y")
	d, errD := octets(members, "d")
	if curve == nil || errX != nil || errY != nil || errD != nil {
		return errJWK
	}
	size := (curve.Params().BitSize + 7) / 8
	if len(x) != size || len(y) != size {
		return errJWK
	}
	public, err := ecdsa.ParseUncompressedPublicKey(curve, append(append([]byte{4}, x...), y...))
	if err != nil {
		return errJWK
	}
	k.public = public
	if len(d) == 0 {
		return nil
	}
	private, err := ecdsa.ParseRawPrivateKey(curve, d)
	if err != nil {
		return errJWK
	}
	return k.pair(private, private.PublicKey.Equal(public))
}

func (k *publicKey) readRSA(members map[string]json.RawMessage) error {
	n, errN := octets(members, "n")
	e, errE := octets(members, "e")
	if errN != nil || errE != nil || len(n) == 0 || len(n) > maxRSABits/8 || len(e) == 0 || len(e) > 4 {
		return errJWK
	}
	exponent := new(big.Int).SetBytes(e)
	if exponent.BitLen() > 31 {
		return errJWK
	}
	public := &rsa.PublicKey{N: new(big.Int).SetBytes(n), E: int(exponent.Int64())}
	k.public = public
	if _, private := members["d"]; !private {
		return nil
	}
	if err := k.problem(); err != nil {
		return err
	}
	var part [3]*big.Int
	for i, name := range []string{"d", "p", "q"} {
		raw, err := octets(members, name)
		if err != nil || len(raw) == 0 || len(raw) > len(n) {
			return errJWK
		}
		part[i] = new(big.Int).SetBytes(raw)
	}
	private := &rsa.PrivateKey{PublicKey: *public, D: part[0], Primes: part[1:]}
	return k.pair(private, private.Validate() == nil)
}

// pair sets the private half of k. belong reports whether it fits the public half.
func (k *publicKey) pair(private crypto.Signer, belong bool) error {
	if !belong {
		return errors.New("the private members of the JWK do not belong to its public ones")
	}
	k.private = private
	return nil
}
