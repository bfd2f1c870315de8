package provider

import (
	"net/http"
	"slices"
	"time"

	"github.com/hookonce/hookonce/verify"
)

// Ack is the answer that a provider wants for a delivery. A Status of 0 means 200, a ContentType of
// "" means text/plain.
type Ack struct {
	Status      int           `json:"status,omitempty"`
	ContentType string        `json:"content_type,omitempty"`
	Body        string        `json:"body,omitempty"`
	Signature   *AckSignature `json:"signature,omitempty"` // nil: the answer is not signed
}

// AckSignature says how a provider wants its answers signed. The receiver holds the private half of
// a key pair, and the provider the public half.
type AckSignature struct {
	// Scheme signs the answer as if it were a request: method and public URL of the delivery, body
	// of the answer, and the headers in Repeat only. The signature, its time and the key's name are
	// headers.
	Scheme verify.Scheme `json:"scheme"`
	// Repeat names headers of the delivery that the answer repeats.
	Repeat []string `json:"repeat,omitempty"`
	// Without tells users in one sentence what happens if answers are not signed.
	Without string `json:"without"`
}

// AckSignature returns the rules for signed answers; nil if answers are not signed.
func (s *Spec) AckSignature() *AckSignature {
	if s.Ack == nil {
		return nil
	}
	return s.Ack.Signature
}

// AckSigner signs answers. It is immutable and safe for concurrent use.
type AckSigner struct {
	verifier *verify.Verifier
	key      verify.Key
	repeat   []string // canonical names
}

// Signer returns a signer with the given key, in a form that verify.Verifier.ParsePrivateKey reads.
// Errors never hold the key.
func (s *AckSignature) Signer(key string) (*AckSigner, error) {
	v, err := verify.Compile(s.Scheme)
	if err != nil {
		return nil, err
	}
	signer := &AckSigner{verifier: v}
	if signer.key, err = v.ParsePrivateKey(key); err != nil {
		return nil, err
	}
	for _, name := range s.Repeat {
		signer.repeat = append(signer.repeat, http.CanonicalHeaderKey(name))
	}
	return signer, nil
}

// NeedsURL reports whether the signature covers the public URL, so that the delivery must have it.
func (s *AckSigner) NeedsURL() bool { return s.verifier.NeedsURL() }

// Sign returns the headers of a signed answer with the given body at now, cut to the second. It
// fails if the delivery lacks a signed value. It changes neither delivery nor body.
func (s *AckSigner) Sign(delivery *verify.Request, body []byte, now time.Time) (http.Header, error) {
	answer := &verify.Request{
		Method: delivery.Method, URL: delivery.URL, RawQuery: delivery.RawQuery, Header: make(http.Header), Body: body,
		// Some parsers of RFC 3339 fail on nine digits of a second.
		Now: now.Truncate(time.Second),
	}
	for _, name := range s.repeat {
		if values := delivery.Header[name]; len(values) > 0 {
			answer.Header[name] = slices.Clone(values)
		}
	}
	if err := s.verifier.Sign(answer, s.key); err != nil {
		return nil, err
	}
	return answer.Header, nil
}
