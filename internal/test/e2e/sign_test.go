package e2e

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Secrets of the gateways under test. Each is long and occurs nowhere else, so finding one in an
// answer or in a log means that it leaked.
const (
	githubSecret      = "canary-github-6c1f0d3b8a9e4477"
	stripeSecret      = "whsec_canaryStripe0f8d7c6b5a493827"
	standardKey       = "canary-standard-webhooks-key-0123"
	labSecret         = "canary-lab-95d1c04ab7e24c2f"
	destinationKey    = "canary-destination-key-4b0a7cd912"
	adminToken        = "canary-admin-token-3c85a1f06b7d"
	databasePassword  = "canary-database-password-c0ffee"
	urlCredential     = "canary-url-credential-8d21e7"
	credentialInQuery = "canary-sender-authorization-1b"
	brokerPassword    = "canary-broker-password-7a1e"
	apiKey            = "canary-api-key-of-the-provider-2f9b"
)

var (
	standardSecret    = "whsec_" + base64.StdEncoding.EncodeToString([]byte(standardKey))
	destinationSecret = "whsec_" + base64.StdEncoding.EncodeToString([]byte(destinationKey))

	canaries = []string{
		githubSecret, stripeSecret, standardKey, standardSecret[len("whsec_"):], labSecret, destinationKey,
		destinationSecret[len("whsec_"):], adminToken, databasePassword, urlCredential, credentialInQuery,
		brokerPassword, apiKey,
	}
)

// leaked returns the secrets that text contains.
func leaked(text string) []string {
	var found []string
	for _, secret := range canaries {
		if strings.Contains(text, secret) {
			found = append(found, secret)
		}
	}
	return found
}

func mac(key, content string) []byte {
	h := hmac.New(sha256.New, []byte(key))
	h.Write([]byte(content))
	return h.Sum(nil)
}

// delivery is a webhook request to send.
type delivery struct {
	source string
	header http.Header
	body   string
}

// with returns a copy of d with one header set, or removed where value is "".
func (d *delivery) with(name, value string) *delivery {
	out := &delivery{d.source, d.header.Clone(), d.body}
	out.header.Del(name)
	if value != "" {
		out.header.Set(name, value)
	}
	return out
}

func newDelivery(source, body string, header ...string) *delivery {
	d := &delivery{source, make(http.Header), body}
	d.header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		d.header.Set(header[i], header[i+1])
	}
	return d
}

// githubDelivery signs as GitHub does: the body alone.
func githubDelivery(id, event, body string) *delivery {
	return newDelivery("github", body,
		"X-GitHub-Delivery", id,
		"X-GitHub-Event", event,
		"X-Hub-Signature-256", githubSignature(body))
}

func githubSignature(body string) string {
	return "sha256=" + hex.EncodeToString(mac(githubSecret, body))
}

// push returns a GitHub event with a body of its own.
func push(id string) *delivery {
	return githubDelivery(id, "push", `{"ref":"refs/heads/main","id":"`+id+`"}`)
}

// stripeDelivery signs as Stripe does, with the whole secret as the key.
func stripeDelivery(at time.Time, body string) *delivery {
	stamp := strconv.FormatInt(at.Unix(), 10)
	return newDelivery("stripe", body, "Stripe-Signature",
		"t="+stamp+",v1="+hex.EncodeToString(mac(stripeSecret, stamp+"."+body)))
}

func stripeBody(id, kind string) string {
	return `{"id":"` + id + `","object":"event","type":"` + kind + `","created":1760000000,"livemode":true}`
}

// standardDelivery signs as Standard Webhooks prescribes.
func standardDelivery(at time.Time, id, body string) *delivery {
	stamp := strconv.FormatInt(at.Unix(), 10)
	return newDelivery("standard", body,
		"Webhook-Id", id,
		"Webhook-Timestamp", stamp,
		"Webhook-Signature", standardSignature(standardKey, id, stamp, body))
}

func standardSignature(key, id, stamp, body string) string {
	return "v1," + base64.StdEncoding.EncodeToString(mac(key, id+"."+stamp+"."+body))
}

// labDelivery signs as the settings of the source lab prescribe: hex over "{timestamp}.{body}".
func labDelivery(source string, at time.Time, body string) *delivery {
	stamp := strconv.FormatInt(at.Unix(), 10)
	return newDelivery(source, body,
		"X-Lab-Timestamp", stamp,
		"X-Lab-Signature", hex.EncodeToString(mac(labSecret, stamp+"."+body)))
}
