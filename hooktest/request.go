package hooktest

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/internal/locate"
	"github.com/hookonce/hookonce/internal/sample"
	"github.com/hookonce/hookonce/provider"
	"github.com/hookonce/hookonce/verify"
)

// Option changes the request of NewRequest.
type Option func(*request)

// WithEventID sets the event id, for providers that send it in a header or in the query. The parts
// of a composite id are joined by ':'. If the provider's id is in the body, the body must contain
// this id; NewRequest checks that. Without this option NewRequest makes up an id for a header, a
// new one for each request.
func WithEventID(id string) Option { return func(r *request) { r.draft.ID = id } }

// WithEventType sets the type of the event, in the same way as WithEventID sets the id. Without
// this option NewRequest leaves out a type in a header.
func WithEventType(eventType string) Option { return func(r *request) { r.draft.Type = eventType } }

// WithTime sets the time of signing. The default is now.
func WithTime(at time.Time) Option { return func(r *request) { r.draft.Now = at } }

// WithHeader sets a header before the request is signed.
func WithHeader(name, value string) Option {
	return func(r *request) { r.draft.Header.Set(name, value) }
}

// WithSecret signs with this secret instead of the source's first one. Use it for a wrong secret,
// or for the private key of a provider that signs with one; see GenerateKey.
func WithSecret(secret string) Option { return func(r *request) { r.secret = secret } }

// WithServer addresses the request to a listening server, such as an httptest.Server, so that an
// http.Client can send it. The path stays /webhooks/{source}, appended to that of baseURL.
func WithServer(baseURL string) Option { return func(r *request) { r.server = baseURL } }

// request is an unfinished request.
type request struct {
	source hookonce.Source
	draft  sample.Draft
	server string
	secret string
}

// NewRequest returns a POST of body to /webhooks/{name of the source}, signed as the source's
// provider signs. It works for every provider of the catalog.
//
// NewRequest makes up signed values that neither body nor source has, such as a nonce in a header.
// If the provider puts the signature into the body, NewRequest adds it there. If the body is a JWT,
// the argument body is its claims. A source with public keys, its own (Key) or its provider's,
// needs WithSecret.
//
// The request can be passed to ServeHTTP of an Inbox or of a mux, or sent to a server; see
// WithServer. Its body can be read once. To repeat the delivery, clone the request and set Body
// from GetBody.
//
// If the request cannot be signed, NewRequest ends the test and reports the reason.
func NewRequest[B ~string | ~[]byte](t testing.TB, source hookonce.Source, body B, opts ...Option) *http.Request {
	t.Helper()
	r := &request{source: source, server: "http://hookonce.test"}
	_, query, _ := strings.Cut(source.URL, "?")
	r.draft = sample.Draft{
		URL: source.URL, RawQuery: query, Header: http.Header{}, Body: append([]byte{}, body...), Now: time.Now(),
	}
	for _, opt := range opts {
		opt(r)
	}
	req, err := r.make()
	if err != nil {
		t.Fatalf("hooktest: making a request for source %q of provider %q: %v", source.Name, source.Provider, err)
	}
	return req
}

func (r *request) make() (*http.Request, error) {
	sender, err := newSender(&r.source)
	if err != nil {
		return nil, err
	}
	extractor, err := provider.CompileRules(sender.Rules)
	if err != nil {
		return nil, err
	}
	signing, err := sender.Request(r.draft)
	if err != nil {
		return nil, err
	}
	if signing.Header.Get("Content-Type") == "" {
		signing.Header.Set("Content-Type", sender.ContentType())
	}
	target, err := url.Parse(r.server)
	if err != nil {
		return nil, err
	}
	target = target.JoinPath("webhooks", r.source.Name)
	req, err := http.NewRequest(signing.Method, target.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header = signing.Header
	req.RemoteAddr = "192.0.2.1:1234"
	if err := r.sign(sender.Verifier, signing, req); err != nil {
		return nil, err
	}
	req.URL.RawQuery = signing.RawQuery
	req.ContentLength = int64(len(signing.Body))
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(signing.Body)), nil }
	req.Body, _ = req.GetBody()
	return req, r.check(extractor, sender.Rules, signing)
}

func newSender(source *hookonce.Source) (*sample.Sender, error) {
	return sample.New(sample.Setup{
		Provider: source.Provider, Scheme: source.Scheme, Signature: source.Signature, Params: source.Params, Event: source.Event,
	})
}

// GenerateKey makes a key pair for tests of source, if its provider signs with a private key:
// private is for WithSecret, public for the Key of the source. For other providers private is a new
// secret in the form that the source's scheme needs, and public is "". It ends the test if the
// source names an unknown scheme.
func GenerateKey(t testing.TB, source hookonce.Source) (private, public string) {
	t.Helper()
	sender, err := newSender(&source)
	if err == nil {
		private, public, err = sender.Verifier.GenerateKey()
	}
	if err != nil {
		t.Fatalf("hooktest: making a key for source %q of provider %q: %v", source.Name, source.Provider, err)
	}
	return private, public
}

// sign signs the request. req is the same request, for a source that looks secrets up by request.
func (r *request) sign(verifier *verify.Verifier, signing *verify.Request, req *http.Request) error {
	if !verifier.NeedsKeys() {
		return nil
	}
	if err := r.chooseSecret(req); err != nil {
		return err
	}
	key, err := verifier.ParseKey(r.secret)
	if err != nil {
		return fmt.Errorf("reading the secret: %w", err)
	}
	return verifier.Sign(signing, key)
}

func (r *request) chooseSecret(req *http.Request) error {
	switch {
	case r.secret != "":
		return nil
	case r.source.Secrets == nil:
		return fmt.Errorf("the source has no secrets to sign with: use WithSecret")
	}
	secrets, err := r.source.Secrets.Secrets(req.Context(), req)
	if err != nil {
		return fmt.Errorf("getting the secrets: %w", err)
	}
	if len(secrets) == 0 {
		return fmt.Errorf("the source has no active secrets: use WithSecret")
	}
	r.secret = secrets[0]
	return nil
}

// check checks that the signed request contains the requested id and type.
func (r *request) check(extractor *provider.Extractor, rules provider.EventRules, signing *verify.Request) error {
	id, eventType := r.draft.ID, r.draft.Type
	if id == "" && eventType == "" {
		return nil
	}
	events, _ := extractor.Extract(&locate.Input{Header: signing.Header, Body: signing.Body, RawQuery: signing.RawQuery})
	switch {
	case len(events) != 1:
		return fmt.Errorf("it contains %d events, so WithEventID and WithEventType cannot apply", len(events))
	case id != "" && events[0].ID != id:
		return fmt.Errorf("the event id in %s is %q, not %q: write it there", rules.ID, events[0].ID, id)
	case eventType != "" && events[0].Type != eventType:
		return fmt.Errorf("the event type in %q is %q, not %q: write it there", rules.Type, events[0].Type, eventType)
	}
	return nil
}
