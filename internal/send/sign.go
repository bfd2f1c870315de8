package send

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/hookonce/hookonce/verify"
)

const maxID = 255

// The two forms of a destination's secret.
var (
	signWhsec = compile(verify.SecretWhsec)
	signRaw   = compile(verify.SecretRaw)
)

func compile(secretEncoding string) *verify.Verifier {
	v, err := verify.Compile(verify.Scheme{Family: verify.FamilyStandardWebhooks, SecretEncoding: secretEncoding})
	if err != nil {
		panic(err) // the scheme is a constant
	}
	return v
}

// scheme returns the scheme for the form of secret.
func scheme(secret string) *verify.Verifier {
	if strings.HasPrefix(secret, "whsec_") {
		return signWhsec
	}
	return signRaw
}

// signer signs the messages of a destination.
type signer struct {
	scheme *verify.Verifier
	key    verify.Key
}

// newSigner returns the signer for a secret; nil for "". An unusable secret is an error, so that nothing is
// sent unsigned by mistake.
func newSigner(secret string) (*signer, error) {
	if secret == "" {
		return nil, nil
	}
	v := scheme(secret)
	key, err := v.ParseKey(secret)
	if err != nil {
		return nil, fmt.Errorf("the destination's secret: %w", err)
	}
	return &signer{v, key}, nil
}

// CheckSecret returns an error if secret cannot sign messages (see Target.Secret) or is empty. A
// secret under 16 bytes is weak. The error never holds the secret.
func CheckSecret(secret string) (weak bool, err error) {
	key, err := scheme(secret).ParseKey(secret)
	return key.Weak(), err
}

// checkID returns an error if the webhook-id cannot be signed: the signed text joins id, timestamp
// and body with dots.
func checkID(id string) error {
	bad := func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '.' }
	if id == "" || len(id) > maxID || strings.ContainsFunc(id, bad) {
		return fmt.Errorf("%w: the message's id must be 1 to %d visible ASCII characters without a dot", ErrRequest, maxID)
	}
	return nil
}

// sign adds the Standard Webhooks headers. A nil signer adds none.
func (s *Sender) sign(h http.Header, by *signer, msg *Message) error {
	if by == nil {
		return nil
	}
	// Sign removes a sender's own svix-* headers: strict receivers refuse two signatures in the two
	// spellings of the standard.
	req := verify.Request{Header: h, Body: msg.Body, Now: s.now()}
	if err := by.scheme.Sign(&req, by.key); err != nil {
		return fmt.Errorf("%w: %w", ErrRequest, err)
	}
	return nil
}
