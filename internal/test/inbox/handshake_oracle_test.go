package inbox_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/internal/test/rig"
	"github.com/hookonce/hookonce/provider"
)

// Anyone can ask for handshake answers, and these are made with the secret. No answer is a valid
// signature of a delivery.
func TestHandshakesSignNoDelivery(t *testing.T) {
	t.Parallel()
	const hex32 = "0123456789abcdef0123456789abcdef"
	member := func(name string) func(body string) string {
		return func(body string) string {
			var object map[string]string
			if err := json.Unmarshal([]byte(body), &object); err != nil {
				return "not JSON: " + body
			}
			return object[name]
		}
	}
	get := func(query string) func(token string) *http.Request {
		return func(token string) *http.Request {
			return httptest.NewRequest(http.MethodGet, "/webhooks/s?"+query+"="+url.QueryEscape(token), http.NoBody)
		}
	}
	post := func(body string) func(token string) *http.Request {
		return func(token string) *http.Request {
			quoted, err := json.Marshal(token)
			if err != nil {
				t.Fatal(err)
			}
			return httptest.NewRequest(http.MethodPost, "/webhooks/s", strings.NewReader(strings.ReplaceAll(body, `"T"`, string(quoted))))
		}
	}
	header := func(name string) func(token, signature string) *http.Request {
		return func(token, signature string) *http.Request {
			r := httptest.NewRequest(http.MethodPost, "/webhooks/s", strings.NewReader(token))
			r.Header.Set(name, signature)
			return r
		}
	}
	for name, c := range map[provider.Name]struct {
		ask     func(token string) *http.Request
		signed  func(body string) string // cuts the signature out of an answer
		deliver func(token, signature string) *http.Request
		tokens  []string // the engine answers these
		refused []string // the engine refuses these
	}{
		provider.X: {
			get("crc_token"), member("response_token"), header("x-twitter-webhooks-signature"),
			[]string{"abc", "17", "null", "true"},
			[]string{`{"a":1}`, `[1]`, `"a"`, "1.5", " 1", "1\n"},
		},
		provider.Smartcar: {
			post(`{"eventType":"VERIFY","data":{"challenge":"T"}}`), member("challenge"), header("SC-Signature"),
			[]string{"abc", "17", "null"},
			[]string{`{"eventId":"1"}`, `[1]`, "a b"},
		},
		provider.LinkedIn: {
			get("challengeCode"), member("challengeResponse"), header("X-LI-Signature"),
			[]string{"abc", "17"},
			[]string{"hmacsha256=", "hmacsha256={}", "{}"},
		},
		provider.Zoom: {
			post(`{"event":"endpoint.url_validation","payload":{"plainToken":"T"}}`), member("encryptedToken"),
			func(token, signature string) *http.Request {
				r := header("x-zm-signature")(token, "v0="+signature)
				r.Header.Set("x-zm-request-timestamp", "1700000000")
				return r
			},
			[]string{"abc", "v0"},
			[]string{"v0:1700000000:{}", "v0:1700000000:", "{}"},
		},
		provider.Braintree: {
			get("bt_challenge"), func(body string) string { return body },
			func(token, signature string) *http.Request {
				form := url.Values{"bt_signature": {signature}, "bt_payload": {token}}
				r := httptest.NewRequest(http.MethodPost, "/webhooks/s", strings.NewReader(form.Encode()))
				r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				return r
			},
			[]string{hex32},
			[]string{"PGE+PC9hPgo=", "PGE+\n", strings.ToUpper(hex32), hex32 + "0"},
		},
	} {
		t.Run(string(name), func(t *testing.T) {
			t.Parallel()
			store := rig.OpenSQLite(t)
			shake := &shakeCase{Provider: name, Params: map[string]string{}}
			if name == provider.Braintree {
				shake.Params["public_key"] = "pk1"
			}
			src, _ := shake.source(t, "s")
			in := newEngine(t, store, func(cfg *hookonce.Config) { cfg.Sources = []hookonce.Source{src} })
			for _, token := range c.tokens {
				w := answered(in, c.ask(token))
				signature := c.signed(w.Body.String())
				if w.Code != http.StatusOK || signature == "" {
					t.Fatalf("token %q: answer %d %s, want 200 with a signature", token, w.Code, w.Body)
				}
				if w := answered(in, c.deliver(token, signature)); w.Code != http.StatusUnauthorized {
					t.Errorf("token %q as a delivery: answer %d %s, want 401", token, w.Code, w.Body)
				}
			}
			for _, token := range c.refused {
				if w := answered(in, c.ask(token)); w.Code != http.StatusBadRequest {
					t.Errorf("token %q: answer %d %s, want 400", token, w.Code, w.Body)
				}
			}
			nothingStored(t, store)
		})
	}
}

// The engine refuses bodies that a handshake would sign. Real deliveries are not among them.
func TestDeliveriesAreNotSignable(t *testing.T) {
	t.Parallel()
	shake := &shakeCase{Provider: provider.X, Method: http.MethodPost, Body: `{"tweet_create_events":[{"id_str":"1"}]}`, Sign: true}
	src, sign := shake.source(t, "s")
	in := newEngine(t, rig.OpenSQLite(t), func(cfg *hookonce.Config) { cfg.Sources = []hookonce.Source{src} })
	if got := deliver(in, shake.request(sign, &src)); got.Code != http.StatusOK {
		t.Errorf("got %+v, want 200", got)
	}
}
