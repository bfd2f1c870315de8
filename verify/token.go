package verify

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/hookonce/hookonce/internal/locate"
)

// token is FamilyToken.
type token struct {
	carrier
	require []requirement
	each    *place // nil if the request has one token
}

func (f *token) verify(req *Request, keys []Key) error {
	if err := usableSecrets(keys); err != nil {
		return err
	}
	one := func(item []byte) error {
		s := signed{item: item}
		if err := f.read(req, &s); err != nil {
			return err
		}
		if err := matchTokens(s.signatures.all(), keys); err != nil {
			return err
		}
		return required(f.require, req, &s)
	}
	if f.each == nil {
		return one(nil)
	}
	return eachItem(req, f.each, one)
}

// usableSecrets returns an error unless all keys are shared secrets.
func usableSecrets(keys []Key) error {
	for i := range keys {
		if keys[i].material().hmac == nil {
			return fmt.Errorf("%w: key %d was not made by ParseKey for this scheme", ErrNoKeys, i+1)
		}
	}
	return nil
}

// matchTokens compares hashes, so that its duration does not even show the length of a secret.
func matchTokens(texts []string, keys []Key) error {
	if len(texts) == 0 {
		return fmt.Errorf("%w: no token of this scheme", ErrMalformed)
	}
	match := 0
	for _, text := range texts {
		got := sha256.Sum256([]byte(text))
		for i := range keys {
			want := sha256.Sum256(keys[i].material().hmac)
			match |= subtle.ConstantTimeCompare(got[:], want[:])
		}
	}
	if match != 1 {
		return ErrMismatch
	}
	return nil
}

func (f *token) sign(req *Request, key Key) error {
	if err := usableSecrets([]Key{key}); err != nil {
		return err
	}
	one := func(item []byte) ([]byte, error) {
		s := signed{item: item}
		if err := fulfil(f.require, req, &s); err != nil {
			return nil, err
		}
		return f.write(req, &s, string(key.material().hmac))
	}
	if f.each == nil {
		_, err := one(nil)
		return err
	}
	return signItems(req, f.each, one)
}

func (*token) parseKey(text string) (Key, error) { return parseSecret(SecretRaw, text) }
func (f *token) needsURL() bool                  { return requireURL(f.require) }
func (*token) covers(ref locate.Ref) bool        { return ref.Kind == locate.Const }

// basic is FamilyBasic.
type basic struct{ require []requirement }

const basicHeader = "Authorization"

func (f basic) verify(req *Request, keys []Key) error {
	if err := usableSecrets(keys); err != nil {
		return err
	}
	value, err := single(req.Header, basicHeader)
	if err != nil {
		return err
	}
	scheme, credentials, _ := strings.Cut(value, " ")
	if !strings.EqualFold(scheme, "Basic") {
		return fmt.Errorf("%w: header %s is not of basic authentication", ErrMalformed, basicHeader)
	}
	if strings.ContainsAny(credentials, "\r\n") { // the decoder would skip line breaks
		return fmt.Errorf("%w: header %s is not base64", ErrMalformed, basicHeader)
	}
	plain, err := base64.StdEncoding.Strict().DecodeString(strings.TrimLeft(credentials, " "))
	if err != nil {
		return fmt.Errorf("%w: header %s is not base64", ErrMalformed, basicHeader)
	}
	if err := matchTokens([]string{string(plain)}, keys); err != nil {
		return err
	}
	return required(f.require, req, &signed{})
}

func (f basic) sign(req *Request, key Key) error {
	if err := usableSecrets([]Key{key}); err != nil {
		return err
	}
	req.Header.Set(basicHeader, "Basic "+base64.StdEncoding.EncodeToString(key.material().hmac))
	return fulfil(f.require, req, &signed{})
}

func (basic) parseKey(text string) (Key, error) {
	user, password, ok := strings.Cut(text, ":")
	if !ok || user == "" || strings.TrimSpace(password) == "" {
		return Key{}, secretFormError("user:password")
	}
	key, err := parseSecret(SecretRaw, text)
	if err == nil {
		key.material().short = len(password) < weakKey // a user's name can be known
	}
	return key, err
}

func (f basic) needsURL() bool           { return requireURL(f.require) }
func (basic) covers(ref locate.Ref) bool { return ref.Kind == locate.Const }
