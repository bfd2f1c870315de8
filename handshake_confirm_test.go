package hookonce_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hooktest"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/rig"
	"github.com/hookonce/hookonce/internal/test/vectors"
	"github.com/hookonce/hookonce/observe"
	"github.com/hookonce/hookonce/provider"
)

// subscription asks to confirm a subscription, as SNS does.
const subscription = `{"Type": "SubscriptionConfirmation", "MessageId": "m1", "Token": "t1",
	"TopicArn": "arn:aws:sns:us-east-1:123456789012:orders", "Message": "confirm",
	"SubscribeURL": "https://sns.us-east-1.amazonaws.com/?Action=ConfirmSubscription&Token=t1",
	"Timestamp": "2026-01-01T00:00:00.000Z", "SignatureVersion": "2",
	"SigningCertURL": "https://sns.us-east-1.amazonaws.com/SimpleNotificationService-0123456789abcdef0123456789abcdef.pem"}`

// subscriber is an engine that SNS asks to confirm a subscription.
type subscriber struct {
	*keyServer
	engine    *hookonce.Engine
	store     driver.Store
	source    hookonce.Source
	body      string
	outcomes  chan string // of the requests
	confirmed chan string // the fetched URLs
}

// newSubscriber returns a subscriber for the request body. respond answers its confirmations.
func newSubscriber(t *testing.T, body string, respond http.HandlerFunc) *subscriber {
	t.Helper()
	var asks struct{ TopicArn string }
	if err := json.Unmarshal([]byte(body), &asks); err != nil {
		t.Fatal(err)
	}
	s := &subscriber{
		keyServer: newKeyServer(t), store: rig.OpenSQLite(t), body: body, outcomes: make(chan string, 16), confirmed: make(chan string, 16),
	}
	s.respond.Store(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.confirmed <- "https://" + r.Host + r.URL.RequestURI()
		respond(w, r)
	}))
	s.source = hookonce.Source{
		Name: "sns", Provider: provider.AWSSNS, Key: s.publicPEM(t), Params: map[string]string{"topic_arn": asks.TopicArn},
	}
	cfg := settingsOf(s.source)
	cfg.Observer = &observe.Observer{Delivery: func(d observe.Delivery) { s.outcomes <- d.Outcome }}
	s.engine = engineOf(t, s.store, cfg)
	hookonce.SetFetcher(s.engine, s.fetcher)
	return s
}

// ask sends the request.
func (s *subscriber) ask(t *testing.T) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	s.engine.ServeHTTP(w, hooktest.NewRequest(t, s.source, s.body, hooktest.WithSecret(s.jwk())))
	return w
}

// wantConfirmed asks an engine, which answers as every handshake is answered, and confirms.
func wantConfirmed(t *testing.T, body string) {
	t.Helper()
	var asks struct{ SubscribeURL string }
	if err := json.Unmarshal([]byte(body), &asks); err != nil {
		t.Fatal(err)
	}
	s := newSubscriber(t, body, func(http.ResponseWriter, *http.Request) {})
	w := s.ask(t)
	if outcome := <-s.outcomes; w.Code != http.StatusOK || outcome != "handshake" {
		t.Fatalf("answer %d %s, outcome %q; want 200 and a handshake", w.Code, w.Body, outcome)
	}
	header := w.Header()
	if header.Get("Cache-Control") != "no-store" || header.Get("X-Content-Type-Options") != "nosniff" || header.Get("Content-Type") == "" {
		t.Errorf("header %v lacks no-store, nosniff or a Content-Type", header)
	}
	if got := <-s.confirmed; got != asks.SubscribeURL {
		t.Errorf("confirmed %s, want %s", got, asks.SubscribeURL)
	}
	events, err := s.store.Events(t.Context(), &driver.EventFilter{})
	if err != nil {
		t.Fatal(err)
	}
	kept, err := s.store.Quarantined(t.Context(), &driver.QuarantineFilter{})
	if err != nil {
		t.Fatal(err)
	}
	if len(events.Events)+len(kept.Requests) > 0 {
		t.Errorf("the store has %d events and %d quarantined requests, want none", len(events.Events), len(kept.Requests))
	}
}

// Of all providers, SNS alone asks for confirmations.
func TestHandshakesThatConfirm(t *testing.T) {
	t.Parallel()
	wantConfirmed(t, subscription)
	for _, name := range provider.Names() {
		spec, err := provider.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range spec.Handshakes {
			if h.Confirm != "" && name != provider.AWSSNS {
				t.Errorf("%s: no test confirms the handshake %s", name, h.ID)
			}
		}
	}
}

// TestHandshakeVectorsThatConfirm replays the recorded handshakes of SNS in the folders HOOKONCE_TEST_VECTORS.
func TestHandshakeVectorsThatConfirm(t *testing.T) {
	t.Parallel()
	for _, file := range vectors.Files(t) {
		if file.Provider != string(provider.AWSSNS) {
			continue
		}
		for _, c := range vectors.Cases[struct{ Request struct{ Body string } }](t, file.Handshakes) {
			if strings.Contains(c.Request.Body, `"SubscriptionConfirmation"`) {
				wantConfirmed(t, c.Request.Body)
			}
		}
	}
}

// While eight confirmations hang, the engine does not start a ninth. It answers 503, so that the
// provider asks again.
func TestConfirmationsAreBounded(t *testing.T) {
	t.Parallel()
	open := make(chan struct{})
	s := newSubscriber(t, subscription, func(http.ResponseWriter, *http.Request) { <-open })
	t.Cleanup(func() { close(open) }) // runs before the server closes, which waits for its requests
	for i := range 8 {
		if w := s.ask(t); w.Code != http.StatusOK {
			t.Errorf("confirmation %d: answer %d %s, want 200", i+1, w.Code, w.Body)
		}
		<-s.confirmed
	}
	if w := s.ask(t); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("confirmation 9: answer %d %v, want 503 with Retry-After", w.Code, w.Header())
	}
	if n := len(s.confirmed); n != 0 {
		t.Errorf("the engine started %d more confirmations", n)
	}
}

// Run retries a failed confirmation: the provider already has its answer and does not ask again.
func TestFailedConfirmationIsRetried(t *testing.T) {
	t.Parallel()
	var tries atomic.Int32
	confirmed := make(chan struct{})
	s := newSubscriber(t, subscription, func(w http.ResponseWriter, _ *http.Request) {
		if tries.Add(1) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		close(confirmed)
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.engine.Run(ctx) }()
	if w := s.ask(t); w.Code != http.StatusOK {
		t.Fatalf("answer %d %s, want 200", w.Code, w.Body)
	}
	eventually.Receive(t, "the confirmation is retried", confirmed)
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
