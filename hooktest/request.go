package hooktest

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/internal/locate"
	"github.com/hookonce/hookonce/provider"
	"github.com/hookonce/hookonce/verify"
)

// Option changes what NewRequest makes.
type Option func(*request)

// WithEventID sets the event id, for providers that send it in a header. Where it
// stands in the body the body must have it, which NewRequest checks. Without this
// option an id in a header is made up, another one for each request.
func WithEventID(id string) Option { return func(r *request) { r.id = id } }

// WithEventType sets the type of the event, as WithEventID does the id. Without
// this option a type in a header is left out.
func WithEventType(eventType string) Option { return func(r *request) { r.eventType = eventType } }

// WithTime sets when the request is signed. Defaults to now.
func WithTime(at time.Time) Option { return func(r *request) { r.signing.Now = at } }

// WithHeader sets a header, before the request is signed.
func WithHeader(name, value string) Option {
	return func(r *request) { r.signing.Header.Set(name, value) }
}

// WithSecret signs with this secret, in place of the first one of the source: a
// wrong one, or, of a source whose Key is a public one, the private key: PEM, or
// base64 behind whsk_.
func WithSecret(secret string) Option { return func(r *request) { r.secret = secret } }

// WithServer addresses the request to a server that listens at a URL, such as
// that of an httptest.Server, for an http.Client to send. The path stays
// /webhooks/{source}, behind that of the URL.
func WithServer(baseURL string) Option { return func(r *request) { r.server = baseURL } }

// request is a request in the making.
type request struct {
	source        hookonce.Source
	signing       verify.Request
	server        string
	id, eventType string
	secret        string
}

// NewRequest returns a POST of body to /webhooks/{name of the source}, signed as
// the provider of the source signs. It can be passed to ServeHTTP of an Inbox or
// of a mux, or be sent; see WithServer. The body can be read once: for the same
// delivery again, clone the request and set Body from GetBody.
//
// It ends the test where it cannot be signed, and says why.
func NewRequest[B ~string | ~[]byte](t testing.TB, source hookonce.Source, body B, opts ...Option) *http.Request {
	t.Helper()
	r := &request{source: source, server: "http://hookonce.test"}
	r.signing = verify.Request{
		Method: http.MethodPost,
		URL:    source.URL,
		Header: http.Header{"Content-Type": {"application/json"}},
		Body:   []byte(body),
		Now:    time.Now(),
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
	spec, err := provider.Lookup(r.source.Provider)
	if err != nil {
		return nil, err
	}
	if err := r.setEvent(spec); err != nil {
		return nil, err
	}
	target, err := url.Parse(r.server)
	if err != nil {
		return nil, err
	}
	target = target.JoinPath("webhooks", r.source.Name)
	req, err := http.NewRequest(http.MethodPost, target.String(), bytes.NewReader(r.signing.Body))
	if err != nil {
		return nil, err
	}
	req.Header = r.signing.Header // which signing adds to
	req.RemoteAddr = "192.0.2.1:1234"
	return req, r.sign(spec, req)
}

// sign sets the headers of the signature.
func (r *request) sign(spec *provider.Spec, req *http.Request) error {
	scheme, ok := spec.Scheme(r.source.Scheme)
	if r.source.Signature != nil {
		scheme, ok = *r.source.Signature, true
	}
	if !ok {
		return fmt.Errorf("the provider has no scheme %q, and Source.Signature is not set", r.source.Scheme)
	}
	verifier, err := verify.Compile(scheme)
	if err != nil {
		return err
	}
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
	return verifier.Sign(&r.signing, key)
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

// setEvent puts the event's id and type where the provider has them, and sees
// to it that they can be read there.
func (r *request) setEvent(spec *provider.Spec) error {
	rules := provider.EventRules{
		ID:    cmp.Or(r.source.Event.ID, spec.Event.ID),
		Type:  cmp.Or(r.source.Event.Type, spec.Event.Type),
		Batch: cmp.Or(r.source.Event.Batch, spec.Event.Batch),
	}
	extractor, err := provider.CompileRules(rules)
	if err != nil {
		return err
	}
	r.setHeader(rules.ID, cmp.Or(r.id, "evt_"+strings.ToLower(rand.Text())), r.id != "")
	if r.eventType != "" {
		r.setHeader(rules.Type, r.eventType, true)
	}
	if r.id == "" && r.eventType == "" {
		return nil
	}
	events, _ := extractor.Extract(&locate.Input{Header: r.signing.Header, Body: r.signing.Body})
	switch {
	case len(events) != 1:
		return fmt.Errorf("%d events can be read from it, so WithEventID and WithEventType say nothing", len(events))
	case r.id != "" && events[0].ID != r.id:
		return fmt.Errorf("the event id stands in %s, where %q is, not %q: write it there", rules.ID, events[0].ID, r.id)
	case r.eventType != "" && events[0].Type != r.eventType:
		return fmt.Errorf("the event type stands in %q, where %q is, not %q: write it there", rules.Type, events[0].Type, r.eventType)
	}
	return nil
}

// setHeader sets the header that a rule reads first, if it is a header; one that
// is there already only where replace says so.
func (r *request) setHeader(rule, value string, replace bool) {
	expr, err := locate.Parse(rule)
	if err != nil {
		return // there is no such rule
	}
	first := expr.Refs()[0]
	if first.Kind == locate.Header && first.Key == "" && (replace || r.signing.Header.Get(first.Name) == "") {
		r.signing.Header.Set(first.Name, value)
	}
}
