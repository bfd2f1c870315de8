package reconcile

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/provider"
)

const (
	basicAuth = "Basic cmtfbGl2ZV9vZl90aGVfdGVzdDo="
	tokenKey  = "client:" + key
	tokenAuth = "Basic Y2xpZW50OnJrX2xpdmVfb2ZfdGhlX3Rlc3Q="
)

// form is a provider's list as its documentation shows it.
type form struct {
	auth, since, cursor string // since and cursor are in the query, or in the body of a POST; cursor from the second request on
	token               string // the path that exchanges the key; "" for none
	pages               [2]string
	details             map[string]string // by path
	bodies              []string
}

var forms = map[provider.Name]form{
	"paddle": {
		auth: "Bearer " + key, cursor: "after=evt_2",
		pages: [2]string{
			`{"data": [{"event_id": "evt_3", "occurred_at": "2023-11-15T00:00:00.12Z"}, {"event_id": "evt_2", "occurred_at": "2023-11-15T00:00:00Z"}],
				"meta": {"pagination": {"has_more": true, "next": "https://elsewhere.example/events?after=evt_2"}}}`,
			`{"data": [{"event_id": "evt_1", "occurred_at": "2023-11-14T23:00:00Z"}], "meta": {"pagination": {"has_more": false}}}`,
		},
		bodies: []string{
			`{"event_id": "evt_3", "occurred_at": "2023-11-15T00:00:00.12Z"}`, `{"event_id": "evt_2", "occurred_at": "2023-11-15T00:00:00Z"}`,
			`{"event_id": "evt_1", "occurred_at": "2023-11-14T23:00:00Z"}`,
		},
	},
	"gocardless": {
		auth: "Bearer " + key, since: "created_at%5Bgte%5D=2023-11-14T22%3A13%3A20Z", cursor: "after=EV2",
		pages: [2]string{
			`{"events": [{"id": "EV1", "created_at": "2023-11-15T00:00:00.123Z"}], "meta": {"cursors": {"before": null, "after": "EV2"}, "limit": 500}}`,
			`{"events": [{"id": "EV3", "created_at": "2023-11-15T00:00:00.123Z"}], "meta": {"cursors": {"before": "EV2", "after": null}, "limit": 500}}`,
		},
		bodies: []string{
			`{"events":[{"id": "EV1", "created_at": "2023-11-15T00:00:00.123Z"}]}`, `{"events":[{"id": "EV3", "created_at": "2023-11-15T00:00:00.123Z"}]}`,
		},
	},
	"chargebee": {
		auth: basicAuth, since: "occurred_at%5Bafter%5D=1700000000", cursor: "offset=%5B%221612890904000%22%5D",
		pages: [2]string{
			`{"list": [{"event": {"id": "ev_1", "occurred_at": 1700000001}}], "next_offset": "[\"1612890904000\"]"}`,
			`{"list": [{"event": {"id": "ev_2", "occurred_at": 1700000002}}]}`,
		},
		bodies: []string{`{"id": "ev_1", "occurred_at": 1700000001}`, `{"id": "ev_2", "occurred_at": 1700000002}`},
	},
	"paypal": {
		token: "/v1/oauth2/token", since: "start_time=2023-11-14T22", cursor: "index_id=3",
		pages: [2]string{
			`{"events": [{"id": "WH-1", "create_time": "2023-11-15T00:00:00.184Z", "event_type": "PAYMENT.CAPTURE.COMPLETED", "resource": {}}], "count": 1, "links": [
				{"href": "https://api-m.paypal.com/v1/notifications/webhooks-events?page_size=100", "rel": "self", "method": "GET"},
				{"href": "https://elsewhere.example/v1/notifications/webhooks-events?page_size=100&start_time=2023-11-14T22:13:20Z&move_to=next&index_id=3", "rel": "next"}]}`,
			`{"events": [{"id": "WH-2", "create_time": "2023-11-15T00:00:00Z"}], "count": 1, "links": [{"href": "https://api-m.paypal.com/v1/x?a=b", "rel": "self"}]}`,
		},
		bodies: []string{
			`{"id": "WH-1", "create_time": "2023-11-15T00:00:00.184Z", "event_type": "PAYMENT.CAPTURE.COMPLETED", "resource": {}}`,
			`{"id": "WH-2", "create_time": "2023-11-15T00:00:00Z"}`,
		},
	},
	"dwolla": {
		token: "/token", cursor: "limit=100&offset=100",
		pages: [2]string{
			`{"_links": {"next": {"href": "https://api.dwolla.com/events?limit=100&offset=100"}}, "_embedded": {"events": [
				{"id": "78e57644", "created": "2023-11-15T15:58:18.000Z", "topic": "transfer_created", "resourceId": "47CFDDB4"}]}, "total": 2}`,
			`{"_links": {}, "_embedded": {"events": [{"id": "f8e70f48", "created": "2023-11-15T15:58:15.000Z"}]}, "total": 2}`,
		},
		bodies: []string{
			`{"id": "78e57644", "created": "2023-11-15T15:58:18.000Z", "topic": "transfer_created", "resourceId": "47CFDDB4"}`,
			`{"id": "f8e70f48", "created": "2023-11-15T15:58:15.000Z"}`,
		},
	},
	"workos": {
		auth: "Bearer " + key, cursor: "after=event_01",
		pages: [2]string{
			`{"object": "list", "data": [{"object": "event", "id": "event_01", "event": "dsync.user.created", "data": {}, "created_at": "2023-11-28 20:05:31.093"}],
				"list_metadata": {"after": "event_01"}}`,
			`{"object": "list", "data": [{"object": "event", "id": "event_02", "created_at": "2023-11-25T19:07:33.155Z"}], "list_metadata": {"after": null}}`,
		},
		bodies: []string{
			`{"object": "event", "id": "event_01", "event": "dsync.user.created", "data": {}, "created_at": "2023-11-28 20:05:31.093"}`,
			`{"object": "event", "id": "event_02", "created_at": "2023-11-25T19:07:33.155Z"}`,
		},
	},
	"square": {
		auth: "Bearer " + key, since: `"start_at":"2023-11-14T22:13:20Z"`, cursor: `"cursor":"6b571fc9"`,
		pages: [2]string{
			`{"events": [{"merchant_id": "M", "type": "dispute.created", "event_id": "73ecd468", "created_at": "2023-11-29T18:45:22Z", "data": {}}],
				"metadata": [{"event_id": "73ecd468", "api_version": "2022-12-13"}], "cursor": "6b571fc9"}`,
			`{}`,
		},
		bodies: []string{`{"merchant_id": "M", "type": "dispute.created", "event_id": "73ecd468", "created_at": "2023-11-29T18:45:22Z", "data": {}}`},
	},
	"easypost": {
		auth: basicAuth, cursor: "before_id=evt_04b5",
		pages: [2]string{
			`{"events": [{"created_at": "2024-08-02T23:14:50.639Z", "description": "batch.updated", "id": "evt_04b5", "object": "Event"}], "has_more": true}`,
			`{"events": [{"created_at": "2024-08-02T23:14:24.807Z", "description": "batch.created", "id": "evt_f54f", "object": "Event"}], "has_more": false}`,
		},
		details: map[string]string{
			"/v2/events/evt_04b5/payloads": `{"payloads": [{"id": "payload_1", "request_body": "{\"id\":  \"evt_04b5\", \"result\": {}}", "response_code": 500}]}`,
			"/v2/events/evt_f54f/payloads": `{"payloads": []}`,
		},
		bodies: []string{`{"id":  "evt_04b5", "result": {}}`, ""},
	},
}

// TestForms reads two pages of each provider's list, as its documentation shows them.
func TestForms(t *testing.T) {
	t.Parallel()
	for _, name := range provider.Names() {
		spec, err := provider.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		f, ok := forms[name]
		if known := ok || name == provider.Stripe || name == provider.GitHub; known != (spec.List != nil) {
			t.Errorf("%s: there is a form %t, and a list %t", name, known, spec.List != nil)
		}
		if !ok || spec.List == nil {
			continue
		}
		t.Run(string(name), func(t *testing.T) {
			t.Parallel()
			f.test(t, spec.List)
		})
	}
}

func (f *form) test(t *testing.T, list *provider.List) {
	requests, exchanges := 0, 0
	auth, secret := f.auth, key
	if f.token != "" {
		auth, secret = "Bearer the-token", tokenKey
	}
	bodies, err := readList(t, list, secret, func(w http.ResponseWriter, r *http.Request) {
		sent, _ := io.ReadAll(r.Body)
		got := r.Header.Get("Authorization")
		if f.token != "" && r.URL.Path == f.token {
			exchanges++
			if got != tokenAuth || string(sent) != "grant_type=client_credentials" || r.Header.Get("Content-Type") != "application/x-www-form-urlencoded" {
				t.Errorf("the token is asked for with %q and %s", got, sent)
			}
			_, _ = io.WriteString(w, `{"access_token": "the-token", "token_type": "Bearer", "expires_in": 32400}`)
			return
		}
		if got != auth {
			t.Errorf("authorization %q, want %q", got, auth)
		}
		if detail, ok := f.details[r.URL.Path]; ok {
			_, _ = io.WriteString(w, detail)
			return
		}
		asked := r.URL.RawQuery + string(sent)
		if post := r.Method == http.MethodPost; post != (list.Request != "") || post != (len(sent) > 0) {
			t.Errorf("request %d is %s with %q", requests, r.Method, sent)
		}
		if !strings.Contains(asked, f.since) || strings.Contains(asked, f.cursor) != (requests == 1) {
			t.Errorf("request %d asks %q, want %q, and %q from the second one on", requests, asked, f.since, f.cursor)
		}
		_, _ = io.WriteString(w, f.pages[min(requests, 1)])
		requests++
	})
	if err != nil || requests != 2 || !slices.Equal(bodies, f.bodies) || exchanges > 1 {
		t.Errorf("bodies %q after %d requests and %d tokens, error %v; want %q after 2", bodies, requests, exchanges, err, f.bodies)
	}
}

// A token that has expired is exchanged again; a key that has expired is told. No error holds a secret.
func TestTokens(t *testing.T) {
	t.Parallel()
	spec, err := provider.Lookup("dwolla")
	if err != nil {
		t.Fatal(err)
	}
	const page = `{"_embedded": {"events": [{"id": "1", "created": "2023-11-15T15:58:18.000Z"}]}}`
	for name, test := range map[string]struct {
		token  func(w http.ResponseWriter, n int)
		list   func(w http.ResponseWriter, n int)
		want   error
		tokens int
	}{
		"expired": {nil, func(w http.ResponseWriter, n int) {
			if n == 2 {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			next := `{"_links": {"next": {"href": "https://x.example/events?offset=100"}}, `
			if n > 1 {
				next = "{"
			}
			_, _ = io.WriteString(w, next+page[1:])
		}, nil, 2},
		"the key has expired":  {func(w http.ResponseWriter, _ int) { w.WriteHeader(http.StatusUnauthorized) }, nil, ErrKey, 1},
		"the token is refused": {nil, func(w http.ResponseWriter, _ int) { w.WriteHeader(http.StatusForbidden) }, ErrKey, 1},
		"no token":             {func(w http.ResponseWriter, _ int) { _, _ = io.WriteString(w, `{"access_token": null}`) }, nil, ErrAPI, 1},
		"no header":            {func(w http.ResponseWriter, _ int) { _, _ = io.WriteString(w, `{"access_token": "a\r\nX: y"}`) }, nil, ErrAPI, 1},
		"busy once": {func(w http.ResponseWriter, n int) {
			if n == 1 {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			_, _ = io.WriteString(w, `{"access_token": "t"}`)
		}, nil, nil, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tokens, requests := 0, 0
			_, err := readList(t, spec.List, tokenKey, func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.URL.Path != "/token" && test.list != nil:
					requests++
					test.list(w, requests)
				case r.URL.Path != "/token":
					_, _ = io.WriteString(w, page)
				default:
					if tokens++; test.token != nil {
						test.token(w, tokens)
						return
					}
					_, _ = io.WriteString(w, `{"access_token": "secret-token"}`)
				}
			})
			if !errors.Is(err, test.want) || (err == nil) != (test.want == nil) || tokens != test.tokens {
				t.Errorf("error %v after %d tokens, want %v after %d", err, tokens, test.want, test.tokens)
			}
			if err != nil && (strings.Contains(err.Error(), key) || strings.Contains(err.Error(), "token\"")) {
				t.Errorf("the error holds a secret: %s", err)
			}
		})
	}
}
