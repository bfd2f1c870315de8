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

// Option changes what NewRequest makes.
type Option func(*request)

// WithEventID sets the event id, for providers that send it in a header or in the
// query; the parts of a composite one are joined by ':'. Where it stands in the body
// the body must have it, which NewRequest checks. Without this option an id in a
// header is made up, another one for each request.
func WithEventID(id string) Option { return func(r *request) { r.draft.ID = id } }

// WithEventType sets the type of the event, as WithEventID does the id. Without
// this option a type in a header is left out.
func WithEventType(eventType string) Option { return func(r *request) { r.draft.Type = eventType } }

// WithTime sets when the request is signed. Defaults to now.
func WithTime(at time.Time) Option { return func(r *request) { r.draft.Now = at } }

// WithHeader sets a header, before the request is signed.
func WithHeader(name, value string) Option {
	return func(r *request) { r.draft.Header.Set(name, value) }
}

// WithSecret signs with this secret, in place of the first one of the source: a
// wrong one, or, where the provider signs with a private key, that key; see
// GenerateKey.
func WithSecret(secret string) Option { return func(r *request) { r.secret = secret } }

// WithServer addresses the request to a server that listens at a URL, such as
// that of an httptest.Server, for an http.Client to send. The path stays
// /webhooks/{source}, behind that of the URL.
func WithServer(baseURL string) Option { return func(r *request) { r.server = baseURL } }

// request is a request in the making.
type request struct {
	source hookonce.Source
	draft  sample.Draft
	server string
	secret string
}

// NewRequest returns a POST of body to /webhooks/{name of the source}, signed as
// the provider of the source signs: for every provider of the catalog, whatever the
// signature is made of and wherever it stands. What the provider signs beside the
// body and the source does not have, such as a nonce in a header, is made up. Where
// the signature stands in the body it is added to it, and where the body is a JWT,
// body is its claims. A source whose Key, or whose provider's own keys, are public
// ones needs WithSecret.
//
// The request can be passed to ServeHTTP of an Inbox or of a mux, or be sent; see
// WithServer. The body can be read once: for the same delivery again, clone the
// request and set Body from GetBody.
//
// It ends the test where it cannot be signed, and says why.
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
		t.Fatalf("hooktest: a request for source %q of provider %q: %v", source.Name, source.Provider, err)
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

// GenerateKey makes what source can be tested with where its provider signs with a
// private key: private is for WithSecret, and public for the Key of the source. Of
// other providers private is a new secret, as the scheme of the source wants it,
// and public is "". It ends the test where the source names no scheme that there is.
func GenerateKey(t testing.TB, source hookonce.Source) (private, public string) {
	t.Helper()
	sender, err := newSender(&source)
	if err == nil {
		private, public, err = sender.Verifier.GenerateKey()
	}
	if err != nil {
		t.Fatalf("hooktest: a key for source %q of provider %q: %v", source.Name, source.Provider, err)
	}
	return private, public
}

// sign signs the request; req is the same, for whoever looks up secrets by it.
func (r *request) sign(verifier *verify.Verifier, signing *verify.Request, req *http.Request) error {
	if !verifier.NeedsKeys() {
		return nil
	}
	if err := r.chooseSecret(req); err != nil {
		return err
	}
	key, err := verifier.ParseKey(r.secret)
	if err != nil {
		return fmt.Errorf("the secret: %w", err)
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

// check sees to it that what was asked for can be read from the signed request.
func (r *request) check(extractor *provider.Extractor, rules provider.EventRules, signing *verify.Request) error {
	id, eventType := r.draft.ID, r.draft.Type
	if id == "" && eventType == "" {
		return nil
	}
	events, _ := extractor.Extract(&locate.Input{Header: signing.Header, Body: signing.Body, RawQuery: signing.RawQuery})
	switch {
	case len(events) != 1:
		return fmt.Errorf("%d events can be read from it, so WithEventID and WithEventType say nothing", len(events))
	case id != "" && events[0].ID != id:
		return fmt.Errorf("the event id stands in %s, where %q is, not %q: write it there", rules.ID, events[0].ID, id)
	case eventType != "" && events[0].Type != eventType:
		return fmt.Errorf("the event type stands in %q, where %q is, not %q: write it there", rules.Type, events[0].Type, eventType)
	}
	return nil
}
