package main

import (
	"path/filepath"
	"testing"

	"github.com/hookonce/hookonce/internal/test/examplestest"
)

// TestShopIsProbed holds the five-minute test with the shop. The receipts show how often an order was
// worked on: each has its message's id as name, and names the order.
func TestShopIsProbed(t *testing.T) {
	t.Parallel()
	mails := t.TempDir()
	p := examplestest.Start(t, []string{
		"DATABASE=" + filepath.Join(t.TempDir(), "shop.db"), "STRIPE_WEBHOOK_SECRET=" + secret,
		"SHIPPING_URL=" + examplestest.NewAPI(t).URL, "MAIL_FOLDER=" + mails,
	}, examplestest.Build(t))
	examplestest.Probe(t, p, "/webhooks/stripe", "--provider", "stripe", "--secret", secret,
		"--sample", "checkout.session.completed", "--set", "data.object.client_reference_id={id}",
		"--effects", "grep -l '{id}' '"+mails+"'/*.eml 2>/dev/null | wc -l")
}
