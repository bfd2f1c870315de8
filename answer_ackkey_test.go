package hookonce_test

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/provider"
)

// wallet is what a merchant and Alipay have: a key pair each.
type wallet struct {
	merchant, alipay    *rsa.PrivateKey
	ackKey, senderKey   string // the merchant's private half, Alipay's public one
	merchantPKCS1, weak string
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

// source is a source of Alipay that signs its answers.
func (w *wallet) source() hookonce.Source {
	return hookonce.Source{
		Name: "pay", Provider: provider.Alipay, URL: "https://hooks.example.com" + walletPath, Key: w.senderKey, AckKey: w.ackKey,
		AckTimeout: 30 * time.Second,
	}
}

// request is a delivery to srv, signed as Alipay does, by nothing of this project.
func (w *wallet) request(t *testing.T, srv, body string) *http.Request {
	t.Helper()
	at := time.Now().UTC().Format(time.RFC3339)
	sum := sha256.Sum256([]byte("POST " + walletPath + "\nSANDBOX_5Y." + at + "." + body))
	sig, err := rsa.SignPKCS1v15(nil, w.alipay, crypto.SHA256, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv+walletPath, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Client-Id", "SANDBOX_5Y")
	r.Header.Set("Request-Time", at)
	r.Header.Set("Signature", "algorithm=RSA256,keyVersion=1,signature="+url.QueryEscape(base64.StdEncoding.EncodeToString(sig)))
	return r
}

// walletAnswer is an answer as its receiver sees it.
type walletAnswer struct {
	Status            int
	ContentType, Body string
	Signature         string // right, wrong or none
}

func (w *wallet) send(t *testing.T, r *http.Request) walletAnswer {
	t.Helper()
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	return w.seen(t, resp)
}

func (w *wallet) seen(t *testing.T, resp *http.Response) walletAnswer {
	t.Helper()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	a := walletAnswer{Status: resp.StatusCode, ContentType: resp.Header.Get("Content-Type"), Body: string(body)}
	a.Signature = w.judge(resp.Header, body)
	return a
}

// judge verifies an answer by the merchant's public key, as the documentation of Alipay
// tells its own side to.
func (w *wallet) judge(h http.Header, body []byte) string {
	if h.Get("Signature")+h.Get("Response-Time")+h.Get("Client-Id") == "" {
		return "none"
	}
	text, ok := strings.CutPrefix(h.Get("Signature"), "algorithm=RSA256,keyVersion=1,signature=")
	plain, err := url.QueryUnescape(text)
	if !ok || err != nil || strings.ContainsAny(text, "+/=") {
		return "in the wrong form: " + h.Get("Signature")
	}
	sig, err := base64.StdEncoding.DecodeString(plain)
	if err != nil {
		return "no base64: " + plain
	}
	at, err := time.Parse("2006-01-02T15:04:05Z", h.Get("Response-Time"))
	if age := time.Since(at); err != nil || age < 0 || age > time.Minute {
		return "of another time: " + h.Get("Response-Time")
	}
	content := bytes.Join([][]byte{[]byte("POST " + walletPath + "\n" + "SANDBOX_5Y"), []byte(h.Get("Response-Time")), body}, []byte("."))
	sum := sha256.Sum256(content)
	if h.Get("Client-Id") != "SANDBOX_5Y" || rsa.VerifyPKCS1v15(&w.merchant.PublicKey, crypto.SHA256, sum[:], sig) != nil {
		return "wrong"
	}
	return "right"
}

const walletOK = `{"result":{"resultCode":"SUCCESS","resultStatus":"S","resultMessage":"success"}}`

// Every answer that accepts a delivery is signed, and no other one.
func TestSignedAnswers(t *testing.T) {
	t.Parallel()
	w := wallets()
	accepted := walletAnswer{200, "application/json", walletOK, "right"}
	problem := walletAnswer{400, "application/problem+json", "", "none"}
	const good, bad = `{"paymentId":"p1"}`, `{"paymentId":""}`
	byID := provider.EventRules{ID: "body:paymentId"}
	for name, tt := range map[string]struct {
		change func(*hookonce.Source)
		bodies []string
		want   []walletAnswer
	}{
		"first and duplicate": {nil, []string{good, good}, []walletAnswer{accepted, accepted}},
		"PKCS #1": {
			func(s *hookonce.Source) { s.AckKey = w.merchantPKCS1 },
			[]string{good},
			[]walletAnswer{accepted},
		},
		"a batch": {
			func(s *hookonce.Source) { s.Event = provider.EventRules{ID: "item:id", Batch: "body:items"} },
			[]string{`{"items":[{"id":"1"},{"id":"2"},{}]}`},
			[]walletAnswer{accepted},
		},
		"its own answer": {
			func(s *hookonce.Source) {
				s.Ack = &hookonce.Ack{Status: 202, ContentType: "text/html", Body: "mine ü"}
			},
			[]string{good, good},
			[]walletAnswer{{202, "text/html", "mine ü", "right"}, {202, "text/html", "mine ü", "right"}},
		},
		"an answer without a body": {
			func(s *hookonce.Source) { s.Ack = &hookonce.Ack{Status: 204} },
			[]string{good},
			[]walletAnswer{{204, "text/plain; charset=utf-8", "", "right"}},
		},
		"quarantined": {
			func(s *hookonce.Source) { s.Event, s.Malformed = byID, hookonce.MalformedQuarantine },
			[]string{bad, good},
			[]walletAnswer{accepted, accepted},
		},
		"quarantined, as it is no gzip": {
			func(s *hookonce.Source) {
				s.Malformed, s.ContentEncodings = hookonce.MalformedQuarantine, []string{"gzip"}
			},
			[]string{"gzip"},
			[]walletAnswer{accepted},
		},
		"rejected": {func(s *hookonce.Source) { s.Event = byID }, []string{bad}, []walletAnswer{problem}},
		"without a key": {
			func(s *hookonce.Source) { s.AckKey = "" },
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
			in := newEngine(t, openStore(t), func(c *hookonce.Config) { c.Sources = []hookonce.Source{src} })
			srv := httptest.NewServer(in)
			t.Cleanup(srv.Close)
			var got []walletAnswer
			for _, body := range tt.bodies {
				r := w.request(t, srv.URL, body)
				if body == "gzip" {
					r.Header.Set("Content-Encoding", body)
				}
				a := w.send(t, r)
				if a.Status >= 400 {
					a.Body = ""
				}
				got = append(got, a)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// What is refused is not signed, whoever asks.
func TestRefusalsAreNotSigned(t *testing.T) {
	t.Parallel()
	w := wallets()
	in := newEngine(t, openStore(t), func(c *hookonce.Config) { c.Sources = []hookonce.Source{w.source()} })
	srv := httptest.NewServer(in)
	t.Cleanup(srv.Close)
	r := w.request(t, srv.URL, "{}")
	r.Header.Set("Client-Id", "another")
	if a := w.send(t, r); a.Status != http.StatusUnauthorized || a.Signature != "none" {
		t.Errorf("%+v", a)
	}
}

// A router of one's own answers as ServeHTTP does.
func TestSignedAnswersOfVerify(t *testing.T) {
	t.Parallel()
	w := wallets()
	src := w.source()
	src.Event.ID, src.Malformed = "body:paymentId", hookonce.MalformedQuarantine
	in := newEngine(t, openStore(t), func(c *hookonce.Config) { c.Sources = []hookonce.Source{src} })
	rec, r := httptest.NewRecorder(), w.request(t, "", "{}")
	_, err := in.Verify(rec, r)
	if err == nil {
		t.Fatal("an event without an id is accepted")
	}
	in.Refuse(rec, r, err)
	want := walletAnswer{200, "application/json", walletOK, "right"}
	if diff := cmp.Diff(want, w.seen(t, rec.Result())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
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
	const encrypted = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----"
	for name, tt := range map[string]struct {
		source hookonce.Source
		want   string
	}{
		"blank":       {change(func(s *hookonce.Source) { s.AckKey = " " }), `source "pay": ack key: the key is empty`},
		"no key":      {change(func(s *hookonce.Source) { s.AckKey = "hunter2" }), "ack key: the key is not an RSA key: expected PEM of a private key"},
		"public":      {change(func(s *hookonce.Source) { s.AckKey = w.senderKey }), "ack key: this is a public key, which cannot sign"},
		"encrypted":   {change(func(s *hookonce.Source) { s.AckKey = encrypted }), "ack key: the private key is encrypted"},
		"short":       {change(func(s *hookonce.Source) { s.AckKey = w.weak }), "ack key: the RSA key has 1024 bits"},
		"not for one": {hookonce.Source{Name: "gh", Provider: provider.GitHub, Secrets: hookonce.StaticSecrets(secret), AckKey: w.ackKey}, "ack key: provider github wants no signature of an answer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := hookonce.NewEngine(openStore(t), &hookonce.Config{Sources: []hookonce.Source{tt.source}})
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

// Nobody shall wonder why Alipay sends everything again.
func TestWarnsWithoutAckKey(t *testing.T) {
	t.Parallel()
	for _, keyed := range []bool{false, true} {
		log, src := &lines{}, wallets().source()
		if !keyed {
			src.AckKey = ""
		}
		newEngine(t, openStore(t), func(c *hookonce.Config) {
			c.Sources, c.Logger = []hookonce.Source{src}, log.logger()
		})
		text := strings.Join(log.all(), "")
		warned := strings.Contains(text, "level=WARN") && strings.Contains(text, "source=pay") && strings.Contains(text, "repeats them")
		if warned == keyed || strings.Contains(text, "PRIVATE KEY") {
			t.Errorf("with a key %v, the log says %q", keyed, text)
		}
	}
}
