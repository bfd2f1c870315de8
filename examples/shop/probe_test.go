package main

import (
	"testing"

	"github.com/hookonce/hookonce/internal/test/examplestest"
)

// TestShopIsProbed holds the five-minute test with the shop. The receipts show how often an order was
// worked on: each has its message's id as name, and names the order.
func TestShopIsProbed(t *testing.T) {
	t.Parallel()
	databaseURL, _, _ := examplestest.Postgres(t)
	mails := t.TempDir()
	p := examplestest.Start(t, []string{
		"DATABASE_URL=" + databaseURL, "STRIPE_WEBHOOK_SECRET=" + secret, "SHIPPING_URL=" + examplestest.NewAPI(t).URL, "MAIL_FOLDER=" + mails,
	}, examplestest.Build(t))
	body := examplestest.WriteFile(t, `{"id":"{id}","object":"event","type":"checkout.session.completed","created":1760000000,`+
		`"data":{"object":{"client_reference_id":"{id}","customer":"c1","payment_intent":"{id}","customer_details":{"email":"ada@example.com"}}}}`)
	examplestest.Probe(t, p, "/webhooks/stripe", "--provider", "stripe", "--secret", secret, "--body", body,
		"--effects", "grep -l '{id}' '"+mails+"'/*.eml 2>/dev/null | wc -l")
}
