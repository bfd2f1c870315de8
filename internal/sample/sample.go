// Package sample makes requests as a provider would send them: with an event's fields in the
// provider's places, signed as the provider signs. It sends them, one by one or many at a time. They are
// for trying out an endpoint; receiving code does not use this package.
package sample

import (
	"crypto/rand"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/hookonce/hookonce/internal/locate"
	"github.com/hookonce/hookonce/provider"
	"github.com/hookonce/hookonce/verify"
)

// Setup is the part of a source that describes its sender.
type Setup struct {
	Provider  provider.Name
	Scheme    string              // "" for the provider's default
	Signature *verify.Scheme      // for a provider without schemes
	Params    map[string]string   // see verify.Scheme.Params
	Event     provider.EventRules // override those of the provider, field by field
}

// Sender is a provider with the settings of a source. It is immutable and safe for concurrent use.
type Sender struct {
	Spec     *provider.Spec
	Scheme   verify.Scheme // with its Values
	Verifier *verify.Verifier
	Rules    provider.EventRules // a field is "" if neither the provider nor the source sets it
}

// New checks a setup. Faults of the scheme and its parameters are joined *verify.FieldErrors.
func New(s Setup) (*Sender, error) {
	spec, err := provider.Lookup(s.Provider)
	if err != nil {
		return nil, err
	}
	scheme, err := choose(spec, s.Scheme, s.Signature)
	if err != nil {
		return nil, err
	}
	scheme.Values = valuesOf(&scheme, spec, s.Params)
	verifier, err := verify.Compile(scheme)
	if err != nil {
		return nil, err
	}
	return &Sender{Spec: spec, Scheme: scheme, Verifier: verifier, Rules: s.Event.Or(spec.Event)}, nil
}

// WithHints returns s and false if the place of the id is confirmed or the catalog has no hint.
// Otherwise it returns a sender that uses the catalog's unconfirmed places, and true.
func (s *Sender) WithHints() (*Sender, bool) {
	if s.Rules.ID != "" || s.Spec.Hint.ID == "" {
		return s, false
	}
	hinted := *s
	hinted.Rules = s.Rules.Or(s.Spec.Hint)
	return &hinted, true
}

// SignOwn signs a request with a body of the caller's own. Unlike Verifier.Sign it sets nothing in
// the body except the signature and the signed time, if they are there. The body may then lack
// other values that the scheme requires; Verifier.Verify reports that.
func (s *Sender) SignOwn(req *verify.Request, key verify.Key) error {
	scheme := s.Scheme
	scheme.Require = slices.DeleteFunc(slices.Clone(scheme.Require), func(r verify.Requirement) bool { return InBody(r.At) })
	signer, err := verify.Compile(scheme)
	if err != nil {
		return err
	}
	return signer.Sign(req, key)
}

// InBody reports whether a location is in the body of a request.
func InBody(at string) bool {
	kind, _, _ := strings.Cut(at, ":")
	return slices.Contains([]locate.Kind{locate.Body, locate.Item, locate.Form}, locate.Kind(kind))
}

func choose(spec *provider.Spec, id string, signature *verify.Scheme) (verify.Scheme, error) {
	if len(spec.Schemes) == 0 && signature != nil {
		return *signature, nil
	}
	if signature != nil {
		return verify.Scheme{}, fmt.Errorf("provider %s has its own schemes: only %s and %s take a signature", spec.Name, provider.HMAC, provider.Token)
	}
	return spec.ChooseScheme(id)
}

// valuesOf returns the scheme's own parameters and the unknown ones, so that the scheme refuses the
// latter. It leaves out parameters of the provider's handshakes and of its other schemes.
func valuesOf(scheme *verify.Scheme, spec *provider.Spec, params map[string]string) map[string]string {
	values := maps.Clone(params)
	others := slices.Clone(spec.Params)
	for i := range spec.Schemes {
		others = append(others, spec.Schemes[i].Params...)
	}
	for _, p := range others {
		if !slices.ContainsFunc(scheme.Params, func(own verify.Param) bool { return own.Name == p.Name }) {
			delete(values, p.Name)
		}
	}
	return values
}

// Event holds the fields of the event in a request.
type Event struct {
	// ID has the form that listings show: ':' separates the parts of a composite id. If the
	// number of parts does not fit, the first part that is neither the type nor the time of the
	// event is the id. "" makes one up, which does not replace an existing header.
	ID string
	// MadeUp says that ID is not the caller's choice: where Draft.Model has a number, the id becomes one.
	MadeUp bool
	Type   string // in the same form; "" is left out
	Time   time.Time
}

// NewID returns a new random id.
func NewID() string { return "evt_" + strings.ToLower(rand.Text()) }

// Draft is a request before it is signed.
type Draft struct {
	Event
	URL      string // the public URL, for senders that sign it
	RawQuery string // of the request
	Header   http.Header
	Body     []byte // nil to make one
	// Model is a body of the provider, JSON or a form, to make the body from; nil for one with the
	// needed fields alone. An event without an ID, a Type or a Time keeps that of the model.
	Model []byte
	// Unique says that Model differs from that of every other event, so nothing has to be added to it.
	Unique bool
	Now    time.Time
}

// Request returns the unsigned request of a draft; see Verifier.Sign. It uses the draft's header,
// and makes a body if the draft has none.
func (s *Sender) Request(d Draft) (*verify.Request, error) {
	if d.Header == nil {
		d.Header = http.Header{}
	}
	m, err := s.newModel(d.Model, d.Unique)
	if err != nil {
		return nil, err
	}
	wants, err := s.wants(d.Event, d.Now, m)
	if err != nil {
		return nil, err
	}
	req := &verify.Request{
		Method: http.MethodPost, URL: d.URL, RawQuery: d.RawQuery, Header: d.Header, Body: d.Body, Now: d.Now,
	}
	if req.RawQuery == "" {
		_, req.RawQuery, _ = strings.Cut(d.URL, "?")
	}
	if (d.Body != nil || m != nil) && d.Type == "" {
		wants = append(wants, s.typeHeaders()...)
	}
	for i := range wants {
		w := &wants[i]
		switch w.ref.Kind {
		case locate.Header:
			w.setHeader(req.Header)
		case locate.Query:
			w.setQuery(req)
		}
	}
	if req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", s.contentTypeOf(d.Body))
	}
	switch {
	case d.Body != nil:
	case m != nil:
		req.Body, err = m.body(wants)
	default:
		req.Body, err = s.body(wants)
	}
	return req, err
}

// typeHeaders returns the headers that hold the type of every event, such as X-GitHub-Event, with a
// made-up type. A body of the caller's own cannot hold it.
func (s *Sender) typeHeaders() []want {
	refs, _ := firstRefs(s.Rules.Type) // wants has reported the error
	var headers []want
	for _, ref := range refs {
		if ref.Kind == locate.Header {
			headers = append(headers, want{ref: ref, value: "test"})
		}
	}
	return headers
}

// contentTypeOf returns the content type of a body: JSON if a scheme for forms is given JSON.
func (s *Sender) contentTypeOf(body []byte) string {
	if text := strings.TrimSpace(string(body)); s.ContentType() == formType && strings.HasPrefix(text, "{") {
		return jsonType
	}
	return s.ContentType()
}

// ContentType returns the content type of the sender's bodies.
func (s *Sender) ContentType() string {
	kind, _, _ := strings.Cut(s.Rules.Document, ":")
	switch {
	case kind == provider.DocumentXML:
		return xmlType
	case kind == provider.DocumentForm || kind == provider.DocumentFormXML || s.signsForm() || s.readsForm():
		return formType
	case kind == provider.DocumentJWT:
		return "text/plain"
	}
	return jsonType
}

// readsForm reports whether a field of the event is in a form.
func (s *Sender) readsForm() bool {
	for _, rule := range []string{s.Rules.ID, s.Rules.Type, s.Rules.Time} {
		if refs, err := firstRefs(rule); err == nil && slices.ContainsFunc(refs, func(r locate.Ref) bool { return r.In() == locate.Form }) {
			return true
		}
	}
	return false
}

// OtherBody reports whether the scheme's requests are forms although the rules describe a JSON
// body. The catalog then knows only the fields of the provider's other schemes, and a source must
// say where the fields of this one are.
func (s *Sender) OtherBody() bool {
	if s.Rules.Document != "" || !s.signsForm() {
		return false
	}
	refs, err := firstRefs(s.Rules.ID)
	return err == nil && slices.ContainsFunc(refs, func(r locate.Ref) bool { return r.Kind == locate.Body })
}
