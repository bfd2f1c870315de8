package bench

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	secret     = "whsec_a-secret-of-the-benchmark-only"
	sourceName = "stripe"
)

// body is an event of about 1.2 kB, as payment services send them. The id goes between the two
// parts.
var body = func() (parts [2]string) {
	const before = `{"id":"`
	after := `","object":"event","api_version":"2024-06-20","created":1721049599,"type":"invoice.paid","livemode":true,` +
		`"pending_webhooks":1,"request":{"id":"req_Zt3PGRb0Zq9yzc","idempotency_key":null},"data":{"object":{` +
		`"id":"in_1PgafmB7WZ01zgkWc4x","object":"invoice","account_country":"DE","account_name":"A shop","amount_due":4900,` +
		`"amount_paid":4900,"amount_remaining":0,"attempt_count":1,"attempted":true,"billing_reason":"subscription_cycle",` +
		`"collection_method":"charge_automatically","currency":"eur","customer":"cus_QXg1o8vlGHM7aD","customer_email":"a@example.com",` +
		`"lines":{"object":"list","data":[{"id":"il_1PgafmB7WZ01zgkW6dLo","object":"line_item","amount":4900,"currency":"eur",` +
		`"description":"`
	end := `"}],"has_more":false},"status":"paid","subtotal":4900,"total":4900}}}`
	fill := strings.Repeat("1 x seats, ", (1200-len(before)-22-len(after)-len(end))/11)
	return [2]string{before, after + fill + end}
}()

// newEvents returns a function that makes requests, each with another event.
func newEvents() func([]byte, int64) []byte {
	return func(to []byte, n int64) []byte { return appendRequest(to, n) }
}

// knownEvents returns a function that makes requests for the same few events again and again.
func knownEvents(events int64) func([]byte, int64) []byte {
	return func(to []byte, n int64) []byte { return appendRequest(to, n%events) }
}

// githubEvents is like newEvents, but signs and sends as GitHub does.
func githubEvents() func([]byte, int64) []byte {
	return func(to []byte, n int64) []byte {
		s := signers.Get().(*signer)
		defer signers.Put(s)
		s.content = append(appendID(append(s.content[:0], body[0]...), n), body[1]...)
		s.sign()
		to = append(to, "POST /webhooks/"+sourceName+" HTTP/1.1\r\nHost: hooks.example.com\r\nUser-Agent: GitHub-Hookshot/044aadd\r\n"+
			"Accept: */*\r\nContent-Type: application/json\r\nX-GitHub-Event: push\r\nContent-Length: "...)
		to = strconv.AppendInt(to, int64(len(s.content)), 10)
		to = appendID(append(to, "\r\nX-GitHub-Delivery: "...), n)
		to = hex.AppendEncode(append(to, "\r\nX-Hub-Signature-256: sha256="...), s.sum)
		to = append(to, "\r\n\r\n"...)
		return append(to, s.content...)
	}
}

// signers are reused because making one costs as much as signing.
var signers = sync.Pool{New: func() any {
	return &signer{mac: hmac.New(sha256.New, []byte(secret))}
}}

type signer struct {
	mac          hash.Hash
	content, sum []byte
}

func (s *signer) sign() {
	s.mac.Reset()
	_, _ = s.mac.Write(s.content) // never fails
	s.sum = s.mac.Sum(s.sum[:0])
}

// appendRequest appends the delivery of the n-th event as Stripe sends it, signed at the current
// time.
func appendRequest(to []byte, n int64) []byte {
	s := signers.Get().(*signer)
	defer signers.Put(s)
	now := strconv.AppendInt(nil, time.Now().Unix(), 10)
	s.content = append(append(s.content[:0], now...), '.')
	s.content = append(s.content, body[0]...)
	s.content = appendID(s.content, n)
	s.content = append(s.content, body[1]...)
	s.sign()
	sent := s.content[len(now)+1:]

	to = append(to, "POST /webhooks/"+sourceName+" HTTP/1.1\r\nHost: hooks.example.com\r\nUser-Agent: Stripe/1.0 (+https://stripe.com/docs/webhooks)\r\n"+
		"Accept: */*; q=0.5, application/xml\r\nCache-Control: no-cache\r\nContent-Type: application/json; charset=utf-8\r\nContent-Length: "...)
	to = strconv.AppendInt(to, int64(len(sent)), 10)
	to = append(to, "\r\nStripe-Signature: t="...)
	to = append(to, now...)
	to = append(to, ",v1="...)
	to = hex.AppendEncode(to, s.sum)
	to = append(to, "\r\n\r\n"...)
	return append(to, sent...)
}

// appendID appends the id of the n-th event. Like real ids, successive ids are in no order, which
// is the worst case for an index.
func appendID(to []byte, n int64) []byte {
	x := uint64(n) * 0x9E3779B97F4A7C15 // odd, so no two n have the same id
	to = append(to, "evt_"...)
	for range 16 {
		to = append(to, "0123456789abcdef"[x&15])
		x >>= 4
	}
	return to
}
