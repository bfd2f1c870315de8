package reconcile

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce/provider"
)

const key = "rk_live_of_the_test"

// read reads a whole list of a fake API. It returns the bodies.
func read(t *testing.T, name provider.Name, api http.HandlerFunc) ([]string, error) {
	t.Helper()
	spec, err := provider.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	if err := CheckURL(server.URL); err != nil {
		t.Fatal(err)
	}
	c := New(&Options{List: spec.List, Key: key, URL: server.URL, Params: map[string]string{"owner": "o/..", "repo": "r", "hook": "7", "site": "acme"}})
	c.pause, c.wait = 0, time.Millisecond
	t.Cleanup(c.Close)
	var bodies []string
	for events, err := range c.Pages(t.Context(), time.Unix(1_700_000_000, 0)) {
		if err != nil {
			if strings.Contains(err.Error(), key) {
				t.Errorf("the error holds the key: %s", err)
			}
			return bodies, err
		}
		for i := range events {
			if err := c.Complete(t.Context(), &events[i]); err != nil {
				return bodies, err
			}
			bodies = append(bodies, string(events[i].Body()))
		}
	}
	return bodies, nil
}

const stripePage = `{"object": "list", "data": [{"id": "evt_1", "created": 1700000001, "type": "a"}], "has_more": false}`

func TestFailures(t *testing.T) {
	for name, test := range map[string]struct {
		first func(w http.ResponseWriter, r *http.Request) // answers the first request
		want  error
	}{
		"429": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		}, nil},
		"500": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }, nil},
		"cut": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, stripePage)
		}, nil},
		"half a document": {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, stripePage[:30]) }, nil},
		"expired key":     {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }, ErrKey},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
		}, ErrAPI},
		"a wait of an hour": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(http.StatusTooManyRequests)
		}, ErrAPI},
		"no list": {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"data": null}`) }, ErrAPI},
		"an empty page": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"data": [], "has_more": true}`)
		}, ErrAPI},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requests := 0
			began := time.Now()
			bodies, err := read(t, provider.Stripe, func(w http.ResponseWriter, r *http.Request) {
				if requests++; requests == 1 {
					test.first(w, r)
					return
				}
				_, _ = io.WriteString(w, stripePage)
			})
			switch {
			case !errors.Is(err, test.want) || (err == nil) != (test.want == nil):
				t.Errorf("error %v, want %v", err, test.want)
			case err == nil && (len(bodies) != 1 || requests != 2):
				t.Errorf("%d events after %d requests, want 1 after 2", len(bodies), requests)
			case err != nil && requests != 1:
				t.Errorf("%d requests, want no second one", requests)
			case name == "429" && time.Since(began) < time.Second:
				t.Error("Retry-After was not obeyed")
			}
		})
	}
}

func TestGivesUp(t *testing.T) {
	requests := 0
	_, err := read(t, provider.Stripe, func(w http.ResponseWriter, _ *http.Request) {
		requests++
		w.WriteHeader(http.StatusBadGateway)
	})
	if !errors.Is(err, ErrAPI) || requests != maxTries {
		t.Errorf("error %v after %d requests, want ErrAPI after %d", err, requests, maxTries)
	}
}

// A link leads to another page of the same API only: the key goes to no host that an answer names.
func TestLinkNamesNoHost(t *testing.T) {
	bodies, err := read(t, provider.GitHub, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Authorization") != "Bearer "+key || r.Header.Get("Accept") != "application/vnd.github+json":
			t.Errorf("headers %v", r.Header)
		case r.URL.EscapedPath() == "/repos/o%2F../r/hooks/7/deliveries/12345678901234567":
			_, _ = io.WriteString(w, `{"request": {"payload": {"n":   1}}}`)
		case r.URL.EscapedPath() != "/repos/o%2F../r/hooks/7/deliveries":
			w.WriteHeader(http.StatusNotFound) // the second delivery is gone
		case r.URL.Query().Get("cursor") == "":
			w.Header().Set("Link", `<https://evil.example/x?per_page=100&cursor=v1_2>; rel="next"`)
			_, _ = io.WriteString(w, `[{"id": 12345678901234567, "guid": "a", "delivered_at": "2030-05-12T20:33:44.000Z", "event": "push"}]`)
		case r.URL.Query().Get("cursor") == "v1_2" && r.URL.Query().Get("per_page") == "100":
			_, _ = io.WriteString(w, `[{"id": 2, "guid": "b", "delivered_at": "2030-05-12T20:33:44.000Z", "event": "push"}]`)
		default:
			t.Errorf("unexpected request %s", r.URL)
		}
	})
	if got := fmt.Sprintf("%q", bodies); err != nil || got != `["{\"n\":   1}" ""]` {
		t.Errorf("bodies %s, error %v", got, err)
	}
}

// A list that leads round in a circle, or never ends, ends with an error.
func TestEndlessLists(t *testing.T) {
	spec, err := provider.Lookup(provider.GitHub)
	if err != nil {
		t.Fatal(err)
	}
	for want, next := range map[string]func(n int) string{
		"it repeats a page":                   func(n int) string { return fmt.Sprint(n % 2) },
		"more than 50 pages":                  func(n int) string { return fmt.Sprint(n) },
		"address of its next page is too lon": func(int) string { return strings.Repeat("x", 2000) },
	} {
		requests := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			requests++
			w.Header().Set("Link", fmt.Sprintf(`<https://api.example/x?cursor=%s>; rel="next"`, next(requests)))
			_, _ = io.WriteString(w, `[{"id": 1, "guid": "a", "delivered_at": "2030-05-12T20:33:44.000Z", "event": "push"}]`)
		}))
		c := New(&Options{List: spec.List, Key: key, URL: server.URL, Params: map[string]string{"owner": "o", "repo": "r", "hook": "7"}})
		c.pause, c.pages = 0, 50
		var last error
		for _, last = range c.Pages(t.Context(), time.Unix(1_700_000_000, 0)) {
			if requests > 100 {
				t.Fatalf("%s: it does not end", want)
			}
		}
		if !errors.Is(last, ErrAPI) || !strings.Contains(last.Error(), want) {
			t.Errorf("error %v after %d pages, want %q", last, requests, want)
		}
		c.Close()
		server.Close()
	}
}

func TestPrivateAddress(t *testing.T) {
	spec, err := provider.Lookup(provider.Stripe)
	if err != nil {
		t.Fatal(err)
	}
	list := *spec.List
	list.URL = "https://127.0.0.1:1/v1/events"
	c := New(&Options{List: &list, Key: key})
	for _, err := range c.Pages(t.Context(), time.Now()) {
		if err == nil || !strings.Contains(err.Error(), "address is not allowed") {
			t.Errorf("error %v, want a refused address", err)
		}
	}
}

func TestCheckURL(t *testing.T) {
	for raw, ok := range map[string]bool{
		"https://ghe.example.com": true, "http://127.0.0.1:8080": true, "http://ghe.example.com": false,
		"http://127.evil.example": false, "https://u:p@example.com": false, "https://example.com/api": false, "example.com": false,
	} {
		if err := CheckURL(raw); (err == nil) != ok {
			t.Errorf("%s: error %v", raw, err)
		}
	}
}

// TestForms reads two pages of each provider's list, as its documentation shows them.
func TestForms(t *testing.T) {
	for name, test := range map[provider.Name]struct {
		auth, since, cursor string
		pages               [2]string
		bodies              []string
	}{
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
			auth: "Basic cmtfbGl2ZV9vZl90aGVfdGVzdDo=", since: "occurred_at%5Bafter%5D=1700000000", cursor: "offset=%5B%221612890904000%22%5D",
			pages: [2]string{
				`{"list": [{"event": {"id": "ev_1", "occurred_at": 1700000001}}], "next_offset": "[\"1612890904000\"]"}`,
				`{"list": [{"event": {"id": "ev_2", "occurred_at": 1700000002}}]}`,
			},
			bodies: []string{`{"id": "ev_1", "occurred_at": 1700000001}`, `{"id": "ev_2", "occurred_at": 1700000002}`},
		},
	} {
		t.Run(string(name), func(t *testing.T) {
			t.Parallel()
			requests := 0
			bodies, err := read(t, name, func(w http.ResponseWriter, r *http.Request) {
				if got := r.Header.Get("Authorization"); got != test.auth {
					t.Errorf("authorization %q, want %q", got, test.auth)
				}
				if !strings.Contains(r.URL.RawQuery, test.since) || strings.Contains(r.URL.RawQuery, test.cursor) != (requests == 1) {
					t.Errorf("request %d asks %q, want %q, and %q from the second one on", requests, r.URL.RawQuery, test.since, test.cursor)
				}
				_, _ = io.WriteString(w, test.pages[min(requests, 1)])
				requests++
			})
			if err != nil || requests != 2 || !slices.Equal(bodies, test.bodies) {
				t.Errorf("bodies %q after %d requests, error %v; want %q after 2", bodies, requests, err, test.bodies)
			}
		})
	}
}
