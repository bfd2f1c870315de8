package hookonce

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/hookonce/hookonce/provider"
	"github.com/hookonce/hookonce/verify"
)

// setAckKey makes the source ready to sign its answers, where the provider wants that.
func (s *source) setAckKey(spec *provider.Spec, log *slog.Logger) error {
	signature := spec.AckSignature()
	switch {
	case signature == nil && s.AckKey != "":
		return fmt.Errorf("ack key: provider %s wants no signature of an answer: leave it out", spec.Name)
	case signature == nil:
		return nil
	case s.AckKey == "":
		log.Warn("the source has no ack key, so that its answers are not signed",
			slog.String("source", s.Name), slog.String("without", signature.Without))
		return nil
	}
	signer, err := signature.Signer(s.AckKey)
	switch {
	case err != nil:
		return fmt.Errorf("ack key: %w", err)
	case signer.NeedsURL() && s.URL == "":
		return errors.New("url: the signature of an answer covers the public URL of the source, which is not set")
	}
	s.ackSigner = signer
	return nil
}

// acknowledge signs a where it is an answer of 2xx to d, and the source has a key for
// that. It goes by the clock of this machine, as the sender does by its own.
func (d *delivery) acknowledge(a *answer) *answer {
	signer := d.source.ackSigner
	if signer == nil || a.status < 200 || a.status > 299 {
		return a
	}
	req := &verify.Request{Method: d.method, URL: d.source.URL, RawQuery: d.rawQuery, Header: d.header}
	header, err := signer.Sign(req, a.body, time.Now())
	if err != nil {
		// Without its signature the sender would take it as a refusal too, and nobody
		// would know why. What was delivered is durable all the same.
		return refused(http.StatusInternalServerError,
			"The delivery was kept, and the answer to it could not be signed.", "the answer was not signed", err)
	}
	a.header = make(map[string]string, len(header))
	for name := range header {
		a.header[name] = header.Get(name)
	}
	return a
}
