package providers

import (
	"time"

	"github.com/stripe/stripe-go/v82/webhook"
)

func init() {
	add(&Subject{
		Provider: "stripe",
		SDK:      "github.com/stripe/stripe-go/v82",
		Verify: func(r *Request, key *Key) error {
			return webhook.ValidatePayload([]byte(r.Body), r.Header["stripe-signature"], key.Secret)
		},
		Sign: func(r *Request, key *Key) error {
			signed := webhook.GenerateTestSignedPayload(&webhook.UnsignedPayload{
				Payload: []byte(r.Body), Secret: key.Secret, Timestamp: time.UnixMilli(r.Now),
			})
			r.Header["stripe-signature"] = signed.Header
			return nil
		},
	})
}
