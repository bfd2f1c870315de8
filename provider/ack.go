package provider

import (
	"net/http"
	"slices"
	"time"

	"github.com/hookonce/hookonce/verify"
)

// Ack is the answer that a provider wants for what it delivered. Where Status is
// 0 it is 200, where ContentType is "" text/plain.
type Ack struct {
	Status      int           `json:"status,omitempty"`
	ContentType string        `json:"content_type,omitempty"`
	Body        string        `json:"body,omitempty"`
	Signature   *AckSignature `json:"signature,omitempty"` // nil: it is not signed
}

// AckSignature says how a provider wants its answers signed: by a key pair, of which
// the receiver has the private half and the provider the public one.
type AckSignature struct {
	// Scheme signs the answer as if it were a request: one of the method and the public
	// URL of the delivery that is answered, with the body of the answer and no headers
	// but those of Repeat. The signature, its time and the key's name stand in headers.
	Scheme verify.Scheme `json:"scheme"`
	// Repeat names headers of the delivery that the answer repeats.
	Repeat []string `json:"repeat,omitempty"`
	// Without says in a sentence what becomes of deliveries whose answer is not signed.
	Without string `json:"without"`
}

// AckSignature returns how answers are signed; nil if they are not.
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
	repeat   []string // canonical
}

// Signer returns what signs with key, a text that verify.Verifier.ParsePrivateKey
// reads. Its errors never hold the key.
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

// NeedsURL reports whether the public URL is signed, so that a delivery must have it.
func (s *AckSigner) NeedsURL() bool { return s.verifier.NeedsURL() }

// Sign returns the headers by which an answer with body is signed, at now. It fails
// where the delivery lacks what is signed of it. It changes neither of them.
func (s *AckSigner) Sign(delivery *verify.Request, body []byte, now time.Time) (http.Header, error) {
	answer := &verify.Request{
		Method: delivery.Method, URL: delivery.URL, RawQuery: delivery.RawQuery, Header: make(http.Header), Body: body,
		// Not every reader of RFC 3339 knows nine digits of a second.
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
