package reconcile

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
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
	return readList(t, spec.List, key, api)
}

func readList(t *testing.T, list *provider.List, key string, api http.HandlerFunc) ([]string, error) {
	t.Helper()
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	if err := CheckURL(server.URL); err != nil {
		t.Fatal(err)
	}
	c := New(&Options{List: list, Key: key, URL: server.URL, Params: map[string]string{"owner": "o/..", "repo": "r", "hook": "7", "site": "acme"}})
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
			if events[i].At().IsZero() {
				t.Errorf("the event %s has no time", events[i].Item())
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
		"403 that asks to wait": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusForbidden)
		}, nil},
		"403 with nothing left": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-RateLimit-Remaining", "0")
			w.Header().Set("X-RateLimit-Reset", strconv.FormatInt(time.Now().Unix()+1, 10))
			w.WriteHeader(http.StatusForbidden)
		}, nil},
		"nothing left for an hour": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-RateLimit-Remaining", "0")
			w.Header().Set("X-RateLimit-Reset", strconv.FormatInt(time.Now().Unix()+3600, 10))
			w.WriteHeader(http.StatusForbidden)
		}, ErrAPI},
		"403 with something left": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-RateLimit-Remaining", "4999")
			w.WriteHeader(http.StatusForbidden)
		}, ErrKey},
		"a page in HTML": {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>soon</html>") }, nil},
		"a huge answer": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"data": [`)
			for line := strings.Repeat(" ", 1<<20); ; {
				if _, err := io.WriteString(w, line); err != nil {
					return
				}
			}
		}, ErrAPI},
		"a text":  {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `"data"`) }, ErrAPI},
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

// A Client makes at most half of the requests that an API allows, and never more than five a second.
func TestPause(t *testing.T) {
	for rate, want := range map[int]time.Duration{0: 200 * time.Millisecond, 600: 200 * time.Millisecond, 240: 500 * time.Millisecond, 60: 2 * time.Second} {
		if c := New(&Options{List: &provider.List{Rate: rate}}); c.pause != want {
			t.Errorf("at %d a minute a pause of %s, want %s", rate, c.pause, want)
		}
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

// Pages without events lead on, but not without end.
func TestEmptyPages(t *testing.T) {
	for pages, want := range map[int]error{maxEmpty - 1: nil, 1000: ErrAPI} {
		requests := 0
		bodies, err := read(t, provider.Name("workos"), func(w http.ResponseWriter, _ *http.Request) {
			if requests++; requests <= pages {
				_, _ = fmt.Fprintf(w, `{"data": [], "list_metadata": {"after": "event_%d"}}`, requests)
				return
			}
			_, _ = io.WriteString(w, `{"data": [{"id": "event_1", "created_at": "2023-11-28T20:05:31Z"}], "list_metadata": {"after": null}}`)
		})
		if !errors.Is(err, want) || (err == nil) != (want == nil) || (err == nil) != (len(bodies) == 1) || requests > maxEmpty {
			t.Errorf("%d empty pages: %d events after %d requests, error %v; want %v", pages, len(bodies), requests, err, want)
		}
	}
}

// The id of an item never leads to another address.
func TestOddIDs(t *testing.T) {
	var asked []string
	_, err := read(t, provider.GitHub, func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/deliveries") {
			asked = append(asked, strings.TrimPrefix(r.URL.EscapedPath(), "/repos/o%2F../r/hooks/7/deliveries/"))
			_, _ = io.WriteString(w, `{"request": {"payload": {}}}`)
			return
		}
		var items []string
		for _, id := range []string{`"a b/../c?d=e#f"`, `".."`, `"."`, `""`, `null`, `{}`, `"\u0000"`, `12`} {
			items = append(items, fmt.Sprintf(`{"id": %s, "guid": "g", "delivered_at": "2030-05-12T20:33:44Z"}`, id))
		}
		_, _ = io.WriteString(w, "["+strings.Join(items, ",")+"]")
	})
	if got := fmt.Sprintf("%q", asked); err != nil || got != `["a%20b%2F..%2Fc%3Fd=e%23f" "%00" "12"]` {
		t.Errorf("asked for %s, error %v", got, err)
	}
}

func TestMoment(t *testing.T) {
	for text, want := range map[string]string{
		"1700000000": "2023-11-14T22:13:20Z", "2023-11-14T23:13:20+01:00": "2023-11-14T22:13:20Z", "2023-11-14T22:13:20.25": "2023-11-14T22:13:20.25Z",
		"2023-11-14 22:13:20.5": "2023-11-14T22:13:20.5Z", "": "", "soon": "", "1700000000.5": "", "2023-11-14": "",
	} {
		got := ""
		if at := moment(text); !at.IsZero() {
			got = at.UTC().Format(time.RFC3339Nano)
		}
		if got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
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
