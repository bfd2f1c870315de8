// Package sample makes requests as a provider would send them: with an event
// where the provider has its fields, signed as the provider signs. What it makes
// is for trying an endpoint out; nothing of it is seen by code that receives.
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

// Setup is what a source says of its sender.
type Setup struct {
	Provider  provider.Name
	Scheme    string              // "" for the provider's default
	Signature *verify.Scheme      // of a provider without schemes
	Params    map[string]string   // see verify.Scheme.Params
	Event     provider.EventRules // over those of the provider, field by field
}

// Sender is a provider as a source has it. It is immutable and safe for
// concurrent use.
type Sender struct {
	Spec     *provider.Spec
	Scheme   verify.Scheme // with its Values
	Verifier *verify.Verifier
	Rules    provider.EventRules // "" where neither the provider nor the source says
}

// New checks a setup. Faults of the scheme and its parameters are
// *verify.FieldErrors, joined.
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

// WithHints returns the sender with the unconfirmed places of the catalog where
// that of the id is not confirmed, and whether it is not.
func (s *Sender) WithHints() (*Sender, bool) {
	if s.Rules.ID != "" || s.Spec.Hint.ID == "" {
		return s, false
	}
	hinted := *s
	hinted.Rules = s.Rules.Or(s.Spec.Hint)
	return &hinted, true
}

// SignOwn signs a request whose body is the caller's own: unlike Verifier.Sign it sets
// nothing in the body but the signature, and the time that is signed where it stands there.
// What a scheme requires of a body besides may then not hold, which Verifier.Verify tells.
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
		return verify.Scheme{}, fmt.Errorf("provider %s has its own schemes: only %s takes a signature", spec.Name, provider.HMAC)
	}
	return spec.ChooseScheme(id)
}

// valuesOf returns the parameters that are the scheme's, and those that nobody
// knows, which the scheme refuses. Others are of the provider's handshakes or of
// its other schemes.
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

// Event is what a request is to tell.
type Event struct {
	// ID is written as it is shown: the parts of a composite one are split by ':'.
	// Where there are not as many, the first part that is neither the type nor the
	// time of the event is the id. "" makes one up, which does not replace a header
	// that is there.
	ID   string
	Type string // likewise; "" is left out
	Time time.Time
}

// NewID returns an id that no other event has.
func NewID() string { return "evt_" + strings.ToLower(rand.Text()) }

// Draft is a request before it is signed.
type Draft struct {
	Event
	URL      string // the public URL, which the sender may sign
	RawQuery string // of the request
	Header   http.Header
	Body     []byte // nil for one that is made
	Now      time.Time
}

// Request returns the request of a draft, whose header it takes over. It is not
// signed; see Verifier.Sign. Without a body it makes one.
func (s *Sender) Request(d Draft) (*verify.Request, error) {
	if d.Header == nil {
		d.Header = http.Header{}
	}
	wants, err := s.wants(d.Event, d.Now)
	if err != nil {
		return nil, err
	}
	req := &verify.Request{
		Method: http.MethodPost, URL: d.URL, RawQuery: d.RawQuery, Header: d.Header, Body: d.Body, Now: d.Now,
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
		req.Header.Set("Content-Type", s.ContentType())
	}
	if d.Body == nil {
		req.Body, err = s.body(wants)
	}
	return req, err
}

// ContentType returns the type of the bodies that the sender sends.
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

// readsForm reports whether a field of the event stands in a form.
func (s *Sender) readsForm() bool {
	for _, rule := range []string{s.Rules.ID, s.Rules.Type, s.Rules.Time} {
		if refs, err := firstRefs(rule); err == nil && slices.ContainsFunc(refs, func(r locate.Ref) bool { return r.Kind == locate.Form }) {
			return true
		}
	}
	return false
}

// OtherBody reports whether the requests of the scheme are forms, and the fields of
// the event those of a JSON body: the catalog knows the fields of the provider's
// other schemes only, and a source says where those of this one stand.
func (s *Sender) OtherBody() bool {
	if s.Rules.Document != "" || !s.signsForm() {
		return false
	}
	refs, err := firstRefs(s.Rules.ID)
	return err == nil && slices.ContainsFunc(refs, func(r locate.Ref) bool { return r.Kind == locate.Body })
}
