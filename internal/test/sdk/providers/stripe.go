package providers

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/stripe/stripe-go/v82"
	"github.com/stripe/stripe-go/v82/webhook"
)

func init() {
	add(&Subject{
		Provider: "stripe",
		SDK:      "github.com/stripe/stripe-go/v82",
		Verify: func(r *Request, key *Key) error {
			return webhook.ValidatePayload([]byte(r.Body), r.Header["stripe-signature"], key.Secret)
		},
		Read: readStripe,
		Sign: func(r *Request, key *Key) error {
			signed := webhook.GenerateTestSignedPayload(&webhook.UnsignedPayload{
				Payload: []byte(r.Body), Secret: key.Secret, Timestamp: time.UnixMilli(r.Now),
			})
			r.Header["stripe-signature"] = signed.Header
			return nil
		},
	})
}

// readStripe takes an event of any API version: an endpoint gets those of its account.
func readStripe(r *Request, key *Key) error {
	if strings.Contains(r.Body, `"object":"v2.core.event"`) {
		_, err := stripe.NewClient("sk_test_1").ParseThinEvent([]byte(r.Body), r.Header["stripe-signature"], key.Secret)
		return err
	}
	event, err := webhook.ConstructEventWithOptions([]byte(r.Body), r.Header["stripe-signature"], key.Secret,
		webhook.ConstructEventOptions{IgnoreAPIVersionMismatch: true})
	if err != nil {
		return err
	}
	types := map[string]any{
		"charge": &stripe.Charge{}, "checkout.session": &stripe.CheckoutSession{}, "customer": &stripe.Customer{},
		"invoice": &stripe.Invoice{}, "payment_intent": &stripe.PaymentIntent{}, "subscription": &stripe.Subscription{},
	}
	kind, _ := event.Data.Object["object"].(string)
	object, ok := types[kind]
	if !ok {
		return fmt.Errorf("no type is known for the object %q", kind)
	}
	return json.Unmarshal(event.Data.Raw, object)
}
