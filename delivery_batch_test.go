package hookonce_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/provider"
)

// itemsEngine takes batches: the items of body:items, by their id.
func itemsEngine(t *testing.T, store driver.Store) *hookonce.Engine {
	return newEngine(t, store, func(c *hookonce.Config) {
		c.Sources[0].Event = provider.EventRules{ID: "item:id", Type: "item:type", Time: "item:at", Batch: "body:items"}
	})
}

func TestBatchKeepsTheGoodItems(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, body string
		code       int
		want       string
	}{
		{"one is malformed", `{"items":[{"id":1},{"id":null},{"id":2}]}`, 200, `{"status":"ok","events":2,"duplicates":0,"malformed":1}`},
		{"one comes twice", `{"items":[{"id":1},{"id":1}]}`, 200, `{"status":"ok","events":2,"duplicates":1}`},
		{"none", `{"items":[]}`, 200, `{"status":"ok","events":0,"duplicates":0}`},
		{"all are malformed", `{"items":[{},{}]}`, 400, ""},
		{"no list", `{}`, 400, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := httptest.NewRecorder()
			itemsEngine(t, openStore(t)).ServeHTTP(w, delivery("batch", tt.body))
			got := strings.TrimSpace(w.Body.String())
			if w.Code != tt.code || tt.want != "" && got != tt.want {
				t.Errorf("%d %s, want %d %s", w.Code, got, tt.code, tt.want)
			}
		})
	}
}

// An item on the way to the events that lacks its array is kept, with its own bytes.
func TestBatchKeepsAnItemWithoutItsArray(t *testing.T) {
	t.Parallel()
	store := openStore(t)
	in := newEngine(t, store, func(c *hookonce.Config) {
		c.Sources[0].Event = provider.EventRules{ID: "item:id", Batch: "body:entry[].changes"}
	})
	w := httptest.NewRecorder()
	in.ServeHTTP(w, delivery("batch", `{"entry":[{"changes":[{"id":1}]},{"id":"x"}]}`))
	if got := strings.TrimSpace(w.Body.String()); w.Code != 200 || got != `{"status":"ok","events":1,"duplicates":0,"malformed":1}` {
		t.Errorf("answered %d %s", w.Code, got)
	}
	if got := string(eventState(t, store, "1").Body); got != `{"id":1}` {
		t.Errorf("the event has the body %s", got)
	}
	page, err := store.Quarantined(t.Context(), &driver.QuarantineFilter{})
	if err != nil {
		t.Fatal(err)
	}
	var kept []string
	for i := range page.Requests {
		kept = append(kept, string(page.Requests[i].Body))
	}
	if diff := cmp.Diff([]string{`{"id":"x"}`}, kept); diff != "" {
		t.Errorf("the quarantine (-want +got):\n%s", diff)
	}
}

func TestSecretsDoNotEndWithTheClient(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	in := newEngine(t, openStore(t), func(c *hookonce.Config) {
		c.Sources[0].Secrets = hookonce.SecretsFunc(func(ctx context.Context, _ *http.Request) ([]string, error) {
			cancel() // the client half-closes while the secrets are looked up
			if _, bounded := ctx.Deadline(); !bounded {
				return nil, errors.New("the look-up has no deadline")
			}
			return []string{secret}, ctx.Err()
		})
	})
	if got := deliver(in, delivery("1", "{}").WithContext(ctx)); got != ok {
		t.Errorf("%+v, want ok", got)
	}
}

func TestNoActiveSecretsIs503(t *testing.T) {
	t.Parallel()
	for name, secrets := range map[string][]string{"none": nil, "empty": {""}, "blank": {secret, " "}} {
		in := newEngine(t, openStore(t), func(c *hookonce.Config) {
			c.Sources[0].Secrets = hookonce.SecretsFunc(func(context.Context, *http.Request) ([]string, error) { return secrets, nil })
		})
		if got := deliver(in, delivery("1", "{}")); got.Code != 503 {
			t.Errorf("%s: %+v, want 503", name, got)
		}
	}
}

func TestPanicsEndNoProcess(t *testing.T) {
	t.Parallel()
	broken := true
	store := &faultStore{Store: openStore(t), before: func(context.Context, *driver.ClaimParams) error {
		if broken {
			panic("a defect of the store")
		}
		return nil
	}}
	in := newEngine(t, store, func(c *hookonce.Config) {
		c.Destinations = []hookonce.Destination{{Name: "app", URL: "http://localhost/"}}
		c.Routes = []hookonce.Route{{Name: "r", To: "app", Where: func(*hookonce.Event) (bool, error) { panic("a defect of the route") }}}
	})
	if got := deliver(in, delivery("1", "{}")); got.Code != 503 {
		t.Errorf("while the store panics: %+v, want 503", got)
	}
	broken = false
	if got := deliver(in, delivery("1", "{}")); got != ok {
		t.Errorf("afterwards: %+v, want ok", got)
	}
	if ev := eventState(t, store, "1"); ev.State != driver.StateDone || ev.Note != driver.NoteNoRoute {
		t.Errorf("an event whose route panicked is %s, %q", ev.State, ev.Note)
	}
}

// A refusal before the body is read must not wait for the body.
func TestRefusalDoesNotWaitForTheBody(t *testing.T) {
	t.Parallel()
	in := newEngine(t, openStore(t), nil)
	in.Drain()
	server := httptest.NewServer(in)
	t.Cleanup(server.Close)
	for path, want := range map[string]int{"/webhooks/gh": 503, "/webhooks/other": 404} {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		if err := conn.SetDeadline(time.Now().Add(8 * time.Second)); err != nil { // below the time for a body
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n", path)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("%s: no answer: %v", path, err)
		}
		resp.Body.Close()
		if resp.StatusCode != want || !resp.Close {
			t.Errorf("%s: %d, closing %t; want %d and closing", path, resp.StatusCode, resp.Close, want)
		}
	}
}

func TestAckIsTheAnswerToWhatIsQuarantined(t *testing.T) {
	t.Parallel()
	in := newEngine(t, openStore(t), func(c *hookonce.Config) {
		c.Sources[0].Malformed = hookonce.MalformedQuarantine
		c.Sources[0].Ack = &hookonce.Ack{Body: "[accepted]", Status: 202}
		c.Sources[0].Event.ID = "body:id"
	})
	for _, body := range []string{`{"id":1}`, `{"id":null}`} {
		w := httptest.NewRecorder()
		in.ServeHTTP(w, delivery("1", body))
		if w.Code != 202 || w.Body.String() != "[accepted]" {
			t.Errorf("%s: %d %s, want 202 [accepted]", body, w.Code, w.Body)
		}
	}
}

func TestPrivateDestinationsMustBeAllowed(t *testing.T) {
	t.Parallel()
	store := openStore(t)
	in := newEngine(t, store, func(c *hookonce.Config) {
		c.Destinations = []hookonce.Destination{{Name: "app", URL: newSink(t).URL, Retry: hookonce.Retry{Attempts: 1}}}
		c.Routes = []hookonce.Route{{Name: "r", To: "app"}}
	})
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- in.Run(ctx) }()
	deliver(in, delivery("1", "{}"))
	waitFor(t, func() bool { return eventState(t, store, "1").State == driver.StateDead })
	cancel()
	<-stopped
	if got := eventState(t, store, "1").LastError; !strings.Contains(got, "not allowed") {
		t.Errorf("the error is %q, want one that says that the address is not allowed", got)
	}
}

func TestRefusalsAreLoggedUnderTheirID(t *testing.T) {
	t.Parallel()
	log := &lines{}
	in := newEngine(t, openStore(t), func(c *hookonce.Config) { c.Logger = log.logger() })
	forged := delivery("1", "{}")
	forged.Header.Set("X-Hub-Signature-256", "sha256="+strings.Repeat("0", 64))
	get := delivery("1", "{}")
	get.Method = http.MethodGet
	unknown := delivery("1", "{}")
	unknown.URL.Path = "/webhooks/canary"
	for _, r := range []*http.Request{forged, get, unknown} {
		w := httptest.NewRecorder()
		in.ServeHTTP(w, r)
		id := w.Body.String()
		id = id[strings.LastIndex(id, ":")+1 : strings.LastIndex(id, `"`)]
		if !slices.ContainsFunc(log.all(), func(line string) bool { return strings.Contains(line, "error_id="+id) }) {
			t.Errorf("answer %d: no line has the error id %q", w.Code, id)
		}
	}
	if strings.Contains(strings.Join(log.all(), ""), "canary") {
		t.Error("the log holds a path that names no source")
	}
}
