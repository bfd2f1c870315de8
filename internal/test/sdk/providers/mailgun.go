package providers

import (
	"encoding/json"
	"errors"

	"github.com/mailgun/mailgun-go/v4"
)

const mailgunToken = "c7f0a5d6e8b94132a0f1e2d3c4b5a69788796a5b4c3d2e1f00"

func init() {
	client := func(key *Key) *mailgun.MailgunImpl {
		m := mailgun.NewMailgun("example.com", "key")
		m.SetWebhookSigningKey(key.Secret)
		return m
	}
	verdict := func(valid bool, err error) error {
		if err == nil && !valid {
			err = errors.New("the signature is not valid")
		}
		return err
	}
	noClock := map[string]string{"age": "the package has no clock"}
	add(
		&Subject{
			Provider: "mailgun", SDK: "github.com/mailgun/mailgun-go/v4", Type: "delivered", Unchecked: noClock,
			Body: `{"signature":{"timestamp":"0","token":"` + mailgunToken + `","signature":"0"},` +
				`"event-data":{"id":"CPgfbmQMTCKtHW6uIWtuVe","event":"delivered","timestamp":1521472262.908181}}`,
			Covered: []string{mailgunToken},
			Verify: func(r *Request, key *Key) error {
				var payload mailgun.WebhookPayload
				if err := json.Unmarshal([]byte(r.Body), &payload); err != nil {
					return err
				}
				return verdict(client(key).VerifyWebhookSignature(payload.Signature))
			},
			Read: func(r *Request, _ *Key) error {
				var payload mailgun.WebhookPayload
				if err := json.Unmarshal([]byte(r.Body), &payload); err != nil {
					return err
				}
				_, err := mailgun.ParseEvent(payload.EventData)
				return err
			},
		},
		&Subject{
			Provider: "mailgun", Scheme: "form", SDK: "github.com/mailgun/mailgun-go/v4", Unchecked: noClock,
			Body:    "event=delivered&timestamp=0&token=" + mailgunToken + "&signature=0",
			Covered: []string{mailgunToken},
			Event:   map[string]string{"id": "sha256:body"},
			Verify: func(r *Request, key *Key) error {
				form := r.http()
				return verdict(client(key).VerifyWebhookSignature(mailgun.Signature{
					TimeStamp: form.FormValue("timestamp"), Token: form.FormValue("token"), Signature: form.FormValue("signature"),
				}))
			},
		},
	)
}
