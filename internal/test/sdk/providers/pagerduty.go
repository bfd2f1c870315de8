package providers

import (
	"github.com/PagerDuty/go-pagerduty/webhookv3"
)

func init() {
	add(&Subject{
		Provider: "pagerduty",
		SDK:      "github.com/PagerDuty/go-pagerduty",
		Verify: func(r *Request, key *Key) error {
			return webhookv3.VerifySignature(r.http(), key.Secret)
		},
	})
}
