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

// signer returns what signs with a secret of that form.
func signer(secret string) *verify.Verifier {
	if strings.HasPrefix(secret, "whsec_") {
		return signWhsec
	}
	return signRaw
}

// CheckSecret returns an error if secret cannot sign what is sent, see
// Target.Secret; one that is empty cannot. It reports as weak a secret of less
// than 16 bytes. The error never holds the secret.
func CheckSecret(secret string) (weak bool, err error) {
	key, err := signer(secret).ParseKey(secret)
	return key.Weak(), err
}

// checkID holds every webhook-id to what can be signed: the signed text joins
// it to the rest with dots.
func checkID(id string) error {
	bad := func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '.' }
	if id == "" || len(id) > maxID || strings.ContainsFunc(id, bad) {
		return fmt.Errorf("%w: the message's id must be 1 to %d visible ASCII characters without a dot", ErrRequest, maxID)
	}
	return nil
}

// sign adds the Standard Webhooks headers. Without a secret it adds none; with
// one that is unusable it fails, so that nothing goes out unsigned by mistake.
func (s *Sender) sign(h http.Header, secret string, msg *Message) error {
	if secret == "" {
		return nil
	}
	v := signer(secret)
	key, err := v.ParseKey(secret)
	if err != nil {
		return fmt.Errorf("%w: the destination's secret: %w", ErrRequest, err)
	}
	// Sign takes a sender's own svix-* headers away: two signatures in the two
	// spellings of one standard are refused by whoever checks strictly.
	req := verify.Request{Header: h, Body: msg.Body, Now: s.now()}
	if err := v.Sign(&req, key); err != nil {
		return fmt.Errorf("%w: %w", ErrRequest, err)
	}
	return nil
}
