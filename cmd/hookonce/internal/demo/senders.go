package demo

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/hookonce/hookonce/internal/sample"
	"github.com/hookonce/hookonce/provider"
	"github.com/hookonce/hookonce/verify"
)

// form is one type of event of a provider: its body, and the paths of the bank's facts in it.
type form struct {
	typ     string
	body    string // with {id}, {n}, {account}, {cents}, {euros} and {time} to fill in
	account string
	amount  string // of a transfer
	version string // of a change: the newest one is valid
}

// forms holds the events of each provider: a transfer, and for some a change of a customer.
var forms = map[provider.Name][]form{
	provider.Stripe: {
		{
			typ: "charge.succeeded",
			body: `{"id":"{id}","object":"event","type":"charge.succeeded","created":{unix},"livemode":true,"data":{"object":` +
				`{"id":"ch_{n}","object":"charge","amount":{cents},"currency":"eur","customer":"{account}","paid":true}}}`,
			account: "data.object.customer", amount: "data.object.amount",
		},
		{
			typ: "customer.updated",
			body: `{"id":"{id}","object":"event","type":"customer.updated","created":{unix},"livemode":true,"data":{"object":` +
				`{"id":"{account}","object":"customer","address":{"line1":"{n} Main Street"}}}}`,
			account: "data.object.id", version: "created",
		},
	},
	provider.GitHub: {
		{
			typ: "sponsorship",
			body: `{"action":"created","sponsorship":{"node_id":"S_{n}","sponsorable":{"login":"{account}"},` +
				`"tier":{"is_one_time":true,"monthly_price_in_cents":{cents}}}}`,
			account: "sponsorship.sponsorable.login", amount: "sponsorship.tier.monthly_price_in_cents",
		},
	},
	provider.Shopify: {
		{
			typ: "orders/paid",
			body: `{"id":{n},"name":"#{n}","currency":"EUR","financial_status":"paid","total_price":"{euros}",` +
				`"customer":{"id":"{account}"}}`,
			account: "customer.id", amount: "total_price",
		},
		{
			typ:     "customers/update",
			body:    `{"id":"{account}","note":"change {n}","updated_at":"{time}"}`,
			account: "id", version: "updated_at",
		},
	},
	provider.Paddle: {
		{
			typ: "transaction.completed",
			body: `{"event_id":"{id}","event_type":"transaction.completed","occurred_at":"{time}","data":{"id":"txn_{n}",` +
				`"status":"completed","customer_id":"{account}","currency_code":"EUR","details":{"totals":{"total":"{cents}"}}}}`,
			account: "data.customer_id", amount: "data.details.totals.total",
		},
		{
			typ: "customer.updated",
			body: `{"event_id":"{id}","event_type":"customer.updated","occurred_at":"{time}","data":{"id":"{account}",` +
				`"name":"Customer {n}","updated_at":"{time}"}}`,
			account: "data.id", version: "data.updated_at",
		},
	},
	provider.StandardWebhooks: {
		{
			typ:     "transfer.settled",
			body:    `{"type":"transfer.settled","timestamp":"{time}","data":{"number":{n},"account":"{account}","cents":{cents}}}`,
			account: "data.account", amount: "data.cents",
		},
	},
}

// names are the providers of the demo, each with its own way to sign. A source has the name of its
// provider.
var names = []provider.Name{provider.Stripe, provider.GitHub, provider.Shopify, provider.Paddle, provider.StandardWebhooks}

// facts is the part of an event that concerns the bank.
type facts struct {
	account string
	cents   int64
	version int64 // 0 for a transfer
}

// read returns the facts of an event.
func read(source, typ string, body []byte) (facts, error) {
	for _, f := range forms[provider.Name(source)] {
		if f.typ == typ {
			return f.read(body)
		}
	}
	return facts{}, fmt.Errorf("source %s has no events of type %s", source, typ)
}

func (f *form) read(body []byte) (facts, error) {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	var doc any
	if err := dec.Decode(&doc); err != nil {
		return facts{}, err
	}
	found := facts{account: at(doc, f.account)}
	number, field := &found.cents, f.amount
	if f.version != "" {
		number, field = &found.version, f.version
	}
	// Digits alone: "12.50" euros are 1250 cents, and RFC 3339 times in UTC compare as numbers.
	digits := strings.Map(func(r rune) rune {
		if r < '0' || r > '9' {
			return -1
		}
		return r
	}, at(doc, field))
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || found.account == "" {
		return facts{}, fmt.Errorf("the body lacks %s or %s", f.account, field)
	}
	*number = n
	return found, nil
}

// at returns the value at a path of members as text, "" if there is none.
func at(doc any, path string) string {
	for name := range strings.SplitSeq(path, ".") {
		members, _ := doc.(map[string]any)
		doc = members[name]
	}
	if doc == nil {
		return ""
	}
	return fmt.Sprint(doc)
}

// newSecrets makes a secret for each provider.
func newSecrets() map[provider.Name]string {
	secrets := make(map[provider.Name]string, len(names))
	for _, name := range names {
		secrets[name] = newSecret(name)
	}
	return secrets
}

func newSecret(name provider.Name) string {
	if name == provider.StandardWebhooks {
		return "whsec_" + base64.StdEncoding.EncodeToString([]byte(rand.Text()))
	}
	return rand.Text()
}

// sender signs as one provider does.
type sender struct {
	*sample.Sender
	key, wrong verify.Key
}

// newSenders returns the sender of each provider.
func newSenders(secrets map[provider.Name]string) (map[provider.Name]*sender, error) {
	senders := make(map[provider.Name]*sender, len(names))
	for _, name := range names {
		s, err := sample.New(sample.Setup{Provider: name})
		if err != nil {
			return nil, err
		}
		key, err := s.Verifier.ParseKey(secrets[name])
		if err != nil {
			return nil, err
		}
		wrong, err := s.Verifier.ParseKey(newSecret(name))
		if err != nil {
			return nil, err
		}
		senders[name] = &sender{s, key, wrong}
	}
	return senders, nil
}

// forgery is a way to make a request that a receiver must refuse; "" makes a good one.
type forgery string

const (
	authentic   forgery = ""
	corrupted   forgery = "a changed byte"
	wrongSecret forgery = "a wrong secret"
	unsigned    forgery = "no signature"
	captured    forgery = "signed an hour ago" // only where the time is signed
)

// sign returns the request of an event.
func (s *sender) sign(e *event, how forgery) (*verify.Request, error) {
	now := time.Now()
	if how == captured {
		now = now.Add(-time.Hour)
	}
	req, err := s.Request(sample.Draft{Event: sample.Event{ID: e.id, Type: e.form.typ, Time: now}, Body: []byte(e.body), Now: now})
	if err != nil || how == unsigned {
		return req, err
	}
	key := s.key
	if how == wrongSecret {
		key = s.wrong
	}
	if err := s.Verifier.Sign(req, key); err != nil {
		return nil, err
	}
	if how == corrupted {
		err = s.Corrupt(req, key)
	}
	return req, err
}
