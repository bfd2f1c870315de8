package inbox_test

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/internal/test/rig"
	"github.com/hookonce/hookonce/provider"
)

// wallet holds the key pairs of a merchant and of Alipay.
type wallet struct {
	merchant, alipay    *rsa.PrivateKey
	ackKey, senderKey   string // PEM of the merchant's private key and of Alipay's public key
	merchantPKCS1, weak string // PEM of the merchant's key in PKCS #1, and of a key of 1024 bits
}

var wallets = sync.OnceValue(func() *wallet {
	text := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	generate := func(bits int) *rsa.PrivateKey {
		key, err := rsa.GenerateKey(rand.Reader, bits)
		if err != nil {
			panic(err)
		}
		return key
	}
	der := func(raw []byte, err error) []byte {
		if err != nil {
			panic(err)
		}
		return raw
	}
	w := &wallet{merchant: generate(2048), alipay: generate(2048)}
	w.ackKey = text("PRIVATE KEY", der(x509.MarshalPKCS8PrivateKey(w.merchant)))
	w.merchantPKCS1 = text("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(w.merchant))
	w.weak = text("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(generate(1024)))
	w.senderKey = text("PUBLIC KEY", der(x509.MarshalPKIXPublicKey(w.alipay.Public())))
	return w
})

const walletPath = "/webhooks/pay"

// source returns an Alipay source that signs its answers.
func (w *wallet) source() hookonce.Source {
	return hookonce.Source{
		Name: "pay", Provider: provider.Alipay, URL: "https://hooks.example.com" + walletPath, Key: w.senderKey, AckKey: w.ackKey,
		AckTimeout: 30 * time.Second,
	}
}

// request returns a delivery that is signed as Alipay does. The signature is made without code of this
// project.
func (w *wallet) request(t *testing.T, body string) *http.Request {
	t.Helper()
	at := time.Now().UTC().Format(time.RFC3339)
	sum := sha256.Sum256([]byte("POST " + walletPath + "\nSANDBOX_5Y." + at + "." + body))
	sig, err := rsa.SignPKCS1v15(nil, w.alipay, crypto.SHA256, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, walletPath, strings.NewReader(body))
	r.Header.Set("Client-Id", "SANDBOX_5Y")
	r.Header.Set("Request-Time", at)
	r.Header.Set("Signature", "algorithm=RSA256,keyVersion=1,signature="+url.QueryEscape(base64.StdEncoding.EncodeToString(sig)))
	return r
}

// walletAnswer is an answer as the sender sees it.
type walletAnswer struct {
	Status            int
	ContentType, Body string
	Signature         string // "right", "none", or the fault
}

// read reads an answer, without the text of a problem, and checks its signature.
func (w *wallet) read(resp *httptest.ResponseRecorder) walletAnswer {
	a := walletAnswer{resp.Code, resp.Header().Get("Content-Type"), resp.Body.String(), w.checkSignature(resp.Header(), resp.Body.Bytes())}
	if a.Status >= http.StatusBadRequest {
		a.Body = ""
	}
	return a
}

// checkSignature verifies an answer with the merchant's public key, by the rules in Alipay's
// documentation.
func (w *wallet) checkSignature(h http.Header, body []byte) string {
	if h.Get("Signature")+h.Get("Response-Time")+h.Get("Client-Id") == "" {
		return "none"
	}
	text, ok := strings.CutPrefix(h.Get("Signature"), "algorithm=RSA256,keyVersion=1,signature=")
	plain, err := url.QueryUnescape(text)
	if !ok || err != nil || strings.ContainsAny(text, "+/=") {
		return "malformed: " + h.Get("Signature")
	}
	sig, err := base64.StdEncoding.DecodeString(plain)
	if err != nil {
		return "not base64: " + plain
	}
	at, err := time.Parse("2006-01-02T15:04:05Z", h.Get("Response-Time"))
	if age := time.Since(at); err != nil || age < 0 || age > time.Minute {
		return "wrong time: " + h.Get("Response-Time")
	}
	content := bytes.Join([][]byte{[]byte("POST " + walletPath + "\n" + "SANDBOX_5Y"), []byte(h.Get("Response-Time")), body}, []byte("."))
	sum := sha256.Sum256(content)
	if h.Get("Client-Id") != "SANDBOX_5Y" || rsa.VerifyPKCS1v15(&w.merchant.PublicKey, crypto.SHA256, sum[:], sig) != nil {
		return "wrong"
	}
	return "right"
}

const walletOK = `{"result":{"resultCode":"SUCCESS","resultStatus":"S","resultMessage":"success"}}`

// Answers that accept a delivery are signed; other answers are not.
func TestAcceptingAnswersAreSigned(t *testing.T) {
	t.Parallel()
	w := wallets()
	accepted := walletAnswer{200, "application/json", walletOK, "right"}
	problem := func(status int) walletAnswer { return walletAnswer{status, "application/problem+json", "", "none"} }
	const good, bad = `{"paymentId":"p1"}`, `{"paymentId":""}`
	keeping := func(s *hookonce.Source) { s.Event.ID, s.Malformed = "body:paymentId", hookonce.MalformedQuarantine }
	set := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	for name, tt := range map[string]struct {
		change  func(*hookonce.Source)
		request func(*http.Request)
		bodies  []string
		want    []walletAnswer
	}{
		"first and duplicate": {nil, nil, []string{good, good}, []walletAnswer{accepted, accepted}},
		"key in PKCS #1": {
			func(s *hookonce.Source) { s.AckKey = w.merchantPKCS1 },
			nil,
			[]string{good},
			[]walletAnswer{accepted},
		},
		"batch": {
			func(s *hookonce.Source) { s.Event = provider.EventRules{ID: "item:id", Batch: "body:items"} },
			nil,
			[]string{`{"items":[{"id":"1"},{"id":"2"},{}]}`},
			[]walletAnswer{accepted},
		},
		"configured answer": {
			func(s *hookonce.Source) {
				s.Ack = &hookonce.Ack{Status: 202, ContentType: "text/html", Body: "mine ü"}
			},
			nil,
			[]string{good, good},
			[]walletAnswer{{202, "text/html", "mine ü", "right"}, {202, "text/html", "mine ü", "right"}},
		},
		"answer without a body": {
			func(s *hookonce.Source) { s.Ack = &hookonce.Ack{Status: 204} },
			nil,
			[]string{good},
			[]walletAnswer{{204, "text/plain; charset=utf-8", "", "right"}},
		},
		"malformed, quarantined": {keeping, nil, []string{bad, good}, []walletAnswer{accepted, accepted}},
		"not gzip, quarantined": {
			func(s *hookonce.Source) { keeping(s); s.ContentEncodings = []string{"gzip"} },
			set("Content-Encoding", "gzip"),
			[]string{"gzip"},
			[]walletAnswer{accepted},
		},
		"malformed, rejected": {
			func(s *hookonce.Source) { s.Event.ID = "body:paymentId" },
			nil,
			[]string{bad},
			[]walletAnswer{problem(400)},
		},
		"refused": {nil, set("Client-Id", "another"), []string{good}, []walletAnswer{problem(401)}},
		"without an ack key": {
			func(s *hookonce.Source) { s.AckKey = "" },
			nil,
			[]string{good},
			[]walletAnswer{{200, "application/json", walletOK, "none"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			src := w.source()
			if tt.change != nil {
				tt.change(&src)
			}
			in := newEngine(t, rig.OpenSQLite(t), func(c *hookonce.Config) { c.Sources = []hookonce.Source{src} })
			var got []walletAnswer
			for _, body := range tt.bodies {
				r := w.request(t, body)
				if tt.request != nil {
					tt.request(r)
				}
				got = append(got, w.read(answered(in, r)))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			// Refuse answers as ServeHTTP does.
			r := w.request(t, tt.bodies[0])
			if tt.request != nil {
				tt.request(r)
			}
			rec := httptest.NewRecorder()
			if _, err := in.Verify(rec, r); err != nil {
				in.Refuse(rec, r, err)
				if diff := cmp.Diff(tt.want[0], w.read(rec)); diff != "" {
					t.Errorf("Refuse (-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestAckKeyFaults(t *testing.T) {
	t.Parallel()
	w := wallets()
	change := func(change func(*hookonce.Source)) hookonce.Source {
		s := w.source()
		change(&s)
		return s
	}
	store := rig.OpenSQLite(t)
	const encrypted = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----"
	for name, tt := range map[string]struct {
		source hookonce.Source
		want   string
	}{
		"blank":                 {change(func(s *hookonce.Source) { s.AckKey = " " }), "sources.pay.ack_key: the key is empty"},
		"not a key":             {change(func(s *hookonce.Source) { s.AckKey = "hunter2" }), "ack_key: the key is not an RSA key: expected PEM of a private key"},
		"public key":            {change(func(s *hookonce.Source) { s.AckKey = w.senderKey }), "ack_key: this is a public key, which cannot sign"},
		"encrypted":             {change(func(s *hookonce.Source) { s.AckKey = encrypted }), "ack_key: the private key is encrypted"},
		"too short":             {change(func(s *hookonce.Source) { s.AckKey = w.weak }), "ack_key: the RSA key has 1024 bits"},
		"provider without acks": {hookonce.Source{Name: "gh", Provider: provider.GitHub, Secrets: hookonce.StaticSecrets(secret), AckKey: w.ackKey}, "ack_key: provider github does not expect signed answers"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := hookonce.NewEngine(store, &hookonce.Config{Sources: []hookonce.Source{tt.source}})
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("error %v, want one that contains %q and not the key", err, tt.want)
			}
		})
	}
}

// Alipay repeats deliveries whose answer is not signed, so a source without an ack key logs a
// warning.
func TestWarnsWithoutAckKey(t *testing.T) {
	t.Parallel()
	for _, keyed := range []bool{false, true} {
		log, src := &rig.Log{}, wallets().source()
		if !keyed {
			src.AckKey = ""
		}
		newEngine(t, rig.OpenSQLite(t), func(c *hookonce.Config) {
			c.Sources, c.Logger = []hookonce.Source{src}, log.Logger()
		})
		text := log.Text()
		warned := strings.Contains(text, "level=WARN") && strings.Contains(text, "sources.pay.ack_key") && strings.Contains(text, "repeats them")
		if warned == keyed || strings.Contains(text, "PRIVATE KEY") {
			t.Errorf("ack key set: %t; the log says %q", keyed, text)
		}
	}
}
