package hookonce

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/defaults"
	"github.com/hookonce/hookonce/internal/headers"
	"github.com/hookonce/hookonce/internal/limit"
	"github.com/hookonce/hookonce/internal/locate"
	"github.com/hookonce/hookonce/internal/say"
	"github.com/hookonce/hookonce/internal/send"
	"github.com/hookonce/hookonce/internal/stale"
	"github.com/hookonce/hookonce/internal/wire"
	"github.com/hookonce/hookonce/internal/work"
	"github.com/hookonce/hookonce/provider"
	"github.com/hookonce/hookonce/verify"
)

var nameRegexp = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)

const badName = "the name must begin with a-z or 0-9 and have at most 63 of a-z 0-9 _ -" // as nameRegexp

// source is a Source ready to use.
type source struct {
	Source
	handshaking
	verifier  *verify.Verifier
	tolerance time.Duration
	extractor *provider.Extractor
	batch     bool // one delivery may hold several events
	guard     driver.BodyGuard
	hidden    []string // headers that are stored as "<secret>"
	// secretHeaders and secretParam are where its scheme carries a credential; see provider.Carriers.
	secretHeaders []string
	secretParam   string
	// signatureHeaders hold the signature and signed text, but no credential.
	signatureHeaders []string
	// secretBody says that a body may hold a credential.
	secretBody bool
	verified   *limit.Bucket
	routes     []*route
	spec       *provider.Spec
	work       *work.Source                  // the settings for handlers and stale rules
	orders     map[*Order]*stale.Rules       // of handlers; nil without order
	orderFor   func(eventType string) *Order // of the handler of a type; not nil with orders
	ackSigner  *provider.AckSigner           // nil: answers are unsigned
	retries    time.Duration                 // how long the provider retries; 0 if unknown
	list       *provider.List                // how its API lists events; nil without Reconcile
	listTypes  []typePattern                 // of Reconcile.Types
	listWork   work.Source                   // work, which reopens no dead event

	unsigned bool // its scheme checks nothing
	fetches  bool // its keys are fetched from the provider, see sourcekeys.go
	keys     atomic.Pointer[keySet]
}

// newSource checks s and fills in its defaults. all has the settings for all sources. It returns nil if
// the provider is unknown: the rest depends on it.
func newSource(s Source, all *Config, handlers *handlerSet, at place) *source {
	if !nameRegexp.MatchString(s.Name) {
		at.fault("", badName)
	}
	spec := s.spec(at)
	if spec == nil {
		return nil
	}
	src := &source{Source: s, retries: spec.Retry.Window}
	scheme, ok := chooseScheme(&s, spec, at)
	if ok {
		src.setScheme(&scheme, spec, at)
	}
	if s.Signature != nil && len(spec.Schemes) == 0 {
		spec = spec.WithScheme(*s.Signature)
	}
	src.hidden, src.secretBody = spec.HiddenHeaders(), spec.SecretInBody()
	src.secretHeaders, src.secretParam = provider.Carriers(&scheme)
	src.signatureHeaders = slices.DeleteFunc(provider.SignatureHeaders(&scheme), func(name string) bool { return slices.Contains(src.hidden, name) })
	src.setRules(spec, at)
	src.setDefaults(spec)
	src.check(at)
	if src.verifier != nil {
		src.checkKeys(&scheme, at)
		src.checkURL(at)
		src.setGuard(at)
	}
	src.spec = spec
	src.setAckKey(spec, at)
	src.keepForRetries(all, at)
	src.setReconcile(spec, all.DedupeWindow, at)
	src.work = src.forWork(src.staleRules(spec, all.Logger, at))
	src.setOrders(handlers, all.Logger, at)
	src.listWork = *src.work
	src.listWork.Reopen = false
	return src
}

// spec returns the provider's entry in the catalog, or nil.
func (s *Source) spec(at place) *provider.Spec {
	if s.Provider == "" {
		at.faultHint("provider", "any sender that signs by HMAC works as hmac, one that sends a fixed secret as token or basic",
			"the source has no provider")
		return nil
	}
	spec, err := provider.Lookup(s.Provider)
	if errors.Is(err, provider.ErrUnknown) {
		known, name := provider.ErrUnknown.Error(), string(s.Provider)
		at.unknown("provider", known, name, strings.TrimPrefix(err.Error(), known+" "+strconv.Quote(name)+": "))
	} else {
		at.wrong("provider", err)
	}
	return spec
}

// setRules compiles the locations of the event.
func (s *source) setRules(spec *provider.Spec, at place) {
	rules := s.Event.Or(spec.Event)
	s.batch = rules.Batch != ""
	at.wrong("event", errors.Join(spec.CheckEvent(rules)...))
	extractor, err := provider.CompileRules(rules)
	at.wrong("event", err)
	s.extractor = extractor
	if hint := spec.EventHint("id"); rules.ID == "" && hint != "" {
		at.hint("event.id", hint)
	}
}

// staleRules compiles the stale rules.
func (s *source) staleRules(spec *provider.Spec, log *slog.Logger, at place) *stale.Rules {
	if len(s.Stale) > 0 && s.Consume == ConsumeSQL {
		at.faultHint("stale", "leave it out, or compare versions in the application",
			"it cannot be applied with consume: sql, because the application itself applies the events")
	}
	if s.extractor == nil {
		return nil
	}
	var rules []stale.Rule
	for i := range s.Stale {
		types := typePatterns(s.Stale[i].Types)
		rules = append(rules, stale.Rule{
			Matches: func(eventType string) bool { return matchesAny(types, eventType) },
			Key:     s.Stale[i].Key, Version: s.Stale[i].Version,
		})
	}
	compiled, err := stale.New(s.Name, rules, spec, s.extractor, log)
	at.wrong("", err)
	return compiled
}

// forWork returns the settings for handlers and stale rules.
func (s *source) forWork(rules *stale.Rules) *work.Source {
	out := &work.Source{
		Name: s.Name, Stale: rules, RefetchTimeout: s.RefetchTimeout, Inline: s.Inline, AckTimeout: s.AckTimeout,
		Reopen: s.Redelivery == redeliveryReopen, DeadLetterAfter: s.DeadLetter.attempts,
	}
	if s.Refetch != nil {
		out.Refetch = func(ctx context.Context, ev *work.Event) ([]byte, error) {
			return s.Refetch(ctx, eventOf(ev, s.extractor))
		}
	}
	return out
}

// chooseScheme returns the scheme of s with the settings of s applied; false if they have faults.
func chooseScheme(s *Source, spec *provider.Spec, at place) (scheme verify.Scheme, ok bool) {
	before := len(at.faults)
	chosen := true
	if len(spec.Schemes) == 0 {
		scheme, chosen = s.ownScheme(spec, at)
	} else {
		if s.Signature != nil {
			at.faultHint("signature", "use provider hmac to describe a sender", "provider %s has its own signature", spec.Name)
		}
		var err error
		if scheme, err = spec.ChooseScheme(s.Scheme); err != nil {
			at.wrong("scheme", err)
			scheme, chosen = anyScheme(spec), false
		}
	}
	at.wrong("", spec.SetParams(&scheme, s.Params))
	notNegative(at, "timestamp.tolerance", s.Tolerance)
	if scheme.Timestamp != nil {
		ts := *scheme.Timestamp // the catalog's Timestamp is shared
		ts.Tolerance = cmp.Or(max(s.Tolerance, 0), ts.Tolerance, verify.DefaultTolerance)
		scheme.Timestamp = &ts
	} else if s.Tolerance > 0 && chosen {
		at.fault("timestamp.tolerance", "provider %s signs no time, so there is no tolerance to set", spec.Name)
	}
	return scheme, len(at.faults) == before
}

// ownScheme returns the scheme of a source whose provider has no schemes; false if there is none.
func (s *Source) ownScheme(spec *provider.Spec, at place) (verify.Scheme, bool) {
	if s.Scheme != "" {
		at.fault("scheme", "provider %s has no schemes; the source describes its own", spec.Name)
	}
	token := spec.Name == provider.Token
	switch {
	case s.Signature == nil && token:
		at.fault("token", "provider %s needs a signature, which says where the sender's secret stands", spec.Name)
	case s.Signature == nil:
		at.fault("signature", "provider %s needs a signature, which says how the sender signs", spec.Name)
	case token && !staticToken(s.Signature):
		at.fault("token", "provider %s takes a token in a header or in the query: see provider.TokenScheme", spec.Name)
	default:
		return *s.Signature, true
	}
	return verify.Scheme{}, false
}

// anyScheme returns a scheme with the parameters of all schemes of spec, all optional. It serves
// to find mistakes in the parameters while the scheme is unknown.
func anyScheme(spec *provider.Spec) (all verify.Scheme) {
	for _, s := range append(slices.Clone(spec.Schemes), verify.Scheme{Params: spec.Params}) {
		for _, p := range s.Params {
			p.Need = verify.NeedOptional
			all.Params = append(all.Params, p)
		}
	}
	return all
}

// staticToken reports whether a scheme is one of provider.Token.
func staticToken(s *verify.Scheme) bool {
	return s.Family == verify.FamilyToken && (s.At == "" || strings.HasPrefix(s.At, "query:"))
}

// setScheme compiles the scheme and the handshakes. There is no verifier if they have faults.
func (s *source) setScheme(scheme *verify.Scheme, spec *provider.Spec, at place) {
	part := "signature"
	if spec.Name == provider.Token {
		part = "token"
	}
	verifier, err := verify.Compile(*scheme)
	at.wrong(part, err)
	shakes, shakesErr := newHandshaking(spec, scheme)
	at.wrong("", shakesErr)
	if err != nil || shakesErr != nil {
		return
	}
	s.verifier, s.handshaking = verifier, shakes
	switch {
	case scheme.Timestamp != nil:
		s.tolerance = scheme.Timestamp.Tolerance
	case scheme.Family == verify.FamilyJWT:
		s.tolerance = time.Minute // the leeway of JWTs
	}
	for _, p := range spec.Params {
		if p.Need == verify.NeedOptional && s.Params[p.Name] == "" {
			at.warn("params."+p.Name, "it is not set, so the set-up request of %s is refused until it is: %s", spec.Name, p.About)
		}
	}
	if s.unsigned = scheme.Family == verify.FamilyNone; s.unsigned {
		at.warn("", "unsigned: anyone can send to /webhooks/%s", s.Name)
	}
}

func (s *source) checkURL(at place) {
	if s.URL != "" {
		if err := send.CheckURL(s.URL); err != nil {
			at.fault("url", "%s", err)
		}
	} else if s.verifier.NeedsURL() {
		at.faultHint("url", "set it to the public URL that the sender was given", "the signature covers the URL, which is unknown")
	}
}

// setDefaults fills in the defaults.
func (s *source) setDefaults(spec *provider.Spec) {
	setDefault(&s.MaxBody, max(spec.MaxBody, defaults.MaxBody))
	if s.AckTimeout == 0 {
		s.AckTimeout = defaults.AckTimeout
		if t := spec.Retry.Timeout * 8 / 10; t > 0 {
			s.AckTimeout = min(s.AckTimeout, t)
		}
	}
	if s.Ack == nil && spec.Ack != nil {
		s.Ack = &Ack{Status: spec.Ack.Status, ContentType: spec.Ack.ContentType, Body: spec.Ack.Body}
	}
	setDefault(&s.Malformed, malformedReject)
	setDefault(&s.Redelivery, redeliveryReopen)
	setDefault(&s.Consume, consumeRoutes)
	setDefault(&s.DeadLetter, AfterAttempts(defaults.InlineAttempts))
	setDefault(&s.RefetchTimeout, defaults.RefetchTimeout)
	s.verified = s.Rate.bucket()
}

// check checks the settings that neither the scheme nor the event has a part in. It refuses unknown words: a
// misspelled policy must not silently mean another one.
func (s *source) check(at place) {
	notNegative(at, "max_body", s.MaxBody)
	notNegative(at, "ack_timeout", s.AckTimeout)
	notNegative(at, "dedupe_window", s.DedupeWindow)
	notNegative(at, "retention", s.Retention)
	notNegative(at, "refetch_timeout", s.RefetchTimeout)
	s.Rate.check(at, "rate")
	s.Ack.check(at)
	at.oneOf("malformed", string(s.Malformed), string(malformedReject), string(MalformedQuarantine))
	at.oneOf("redelivery", string(s.Redelivery), string(redeliveryReopen), string(RedeliveryAck))
	at.oneOf("consume", string(s.Consume), string(consumeRoutes), string(ConsumeSQL))
	for i, encoding := range s.ContentEncodings {
		at.oneOf(fmt.Sprintf("content_encoding[%d]", i), encoding, "gzip")
	}
	if len(s.ContentEncodings) > 0 && s.verifier != nil && s.verifier.ReadsForm() {
		at.fault("content_encoding", "this scheme signs the fields of a form, which must be sent as it is")
	}
}

// setGuard sets the guard of repeated bodies.
func (s *source) setGuard(at place) {
	switch {
	case s.unsigned && s.ReplayGuard:
		at.fault("replay_guard", "the source is unsigned, so this guards nothing")
	case s.unsigned || s.extractor == nil:
	case !s.verifier.Covers(s.extractor.ID()):
		s.guard = driver.BodyWatch
		if s.ReplayGuard {
			s.guard = driver.BodyRefuse
		}
	case s.ReplayGuard:
		at.fault("replay_guard", "the event id is signed, so there is nothing to guard")
	}
}

func (a *Ack) check(at place) {
	switch {
	case a == nil:
	case a.Status != 0 && (a.Status < 200 || a.Status > 299):
		at.fault("ack.status", "the status must be 2xx, not %d", a.Status)
	case a.Body != "" && (a.Status == http.StatusNoContent || a.Status == http.StatusResetContent):
		at.fault("ack.body", "an answer of status %d has no body", a.Status)
	}
}

// keepForRetries sets the dedupe window to the time that the provider retries, if the source sets
// none and the window of all is shorter. It warns of a window that ends before a request loses its validity.
func (s *source) keepForRetries(all *Config, at place) {
	switch retries := say.Setting(s.retries); {
	case s.DedupeWindow == 0 && s.retries > all.DedupeWindow:
		s.DedupeWindow = s.retries
		at.at("").warn("dedupe_window", "the dedupe window (%s) is shorter than %s retries: source %s uses %s instead",
			say.Setting(all.DedupeWindow), s.Provider, s.Name, retries)
	case s.DedupeWindow > 0 && s.DedupeWindow < s.retries:
		at.warnLogged("dedupe_window", "the dedupe window of source %s (%s) is shorter than %s retries (%s): a late retry takes effect again",
			s.Name, say.Setting(s.DedupeWindow), s.Provider, retries)
	}
	window := cmp.Or(s.DedupeWindow, all.DedupeWindow)
	at.warnOfRetention(s.Retention, window)
	if s.tolerance > window {
		at.warnLogged("timestamp.tolerance", "the tolerance of source %s (%s) is longer than its dedupe window (%s): "+
			"a captured request can take effect twice", s.Name, say.Setting(s.tolerance), say.Setting(window))
	}
}

func (p place) warnOfRetention(retention, window time.Duration) {
	if retention > window {
		p.warn("retention", "a retention of %s is longer than the dedupe window of %s: "+
			"bodies are removed with the identity, at the end of the window", say.Setting(retention), say.Setting(window))
	}
}

// request returns the verified parts of r.
func (s *source) request(r *http.Request, body []byte, now time.Time) *verify.Request {
	return &verify.Request{
		Method:   r.Method,
		URL:      s.URL,
		RawQuery: r.URL.RawQuery,
		Header:   r.Header,
		Body:     body,
		Now:      now,
	}
}

// verify checks the signature of r. Only a delivery that it returns can be claimed.
func (s *source) verify(r *verify.Request, keys []verify.Key) (*delivery, error) {
	if err := s.verifier.Verify(r, keys); err != nil {
		return nil, err
	}
	return &delivery{
		source:   s,
		method:   r.Method,
		header:   r.Header,
		visible:  wire.VisibleHeader(r.Header, s.hiddenIn(r.Header), wire.Secrets(r.Header, r.RawQuery, s.secretHeaders, s.secretParam)),
		rawQuery: r.RawQuery,
		wire:     r.Body,
		body:     r.Body,
	}, nil
}

// hiddenIn returns the names of the headers that are stored as "<secret>".
func (s *source) hiddenIn(h http.Header) []string {
	hidden := s.hidden
	for name := range h {
		if headers.Credential(name) {
			hidden = append(slices.Clip(hidden), name)
		}
	}
	return hidden
}

// setAckKey prepares the signing of answers, if the provider verifies answers.
func (s *source) setAckKey(spec *provider.Spec, at place) {
	signature := spec.AckSignature()
	switch {
	case signature == nil && s.AckKey != "":
		at.faultHint("ack_key", "leave it out", "provider %s does not expect signed answers", spec.Name)
	case signature == nil:
	case s.AckKey == "":
		at.warnLogged("ack_key", "it is not set, so answers are not signed: %s", signature.Without)
	default:
		signer, err := signature.Signer(s.AckKey)
		switch {
		case err != nil:
			at.fault("ack_key", "%s", err) // errors never hold the key
		case signer.NeedsURL() && s.URL == "":
			at.fault("url", "the signature of an answer covers the URL, which is unknown")
		}
		s.ackSigner = signer
	}
}

// works reports whether events of s have work of their own in this process: handlers, or SQL consumers.
// handled are the sources that have handlers.
func (s *source) works(handled []string) bool {
	return s.Consume == ConsumeSQL || slices.Contains(handled, s.Name)
}

// handshaking holds the handshakes of a source's provider.
type handshaking struct {
	shakes *provider.Handshakes // nil if there are none
	allow  string               // the accepted methods, as an Allow header
	// signed are the locations of a signature: a signed request has at least one of them.
	signed []*locate.Expr
}

func newHandshaking(spec *provider.Spec, scheme *verify.Scheme) (handshaking, error) {
	h := handshaking{allow: http.MethodPost}
	if len(spec.Handshakes) == 0 {
		return h, nil
	}
	shakes, err := provider.CompileHandshakes(spec.Handshakes)
	if err != nil {
		return h, err
	}
	h.shakes = shakes
	methods := shakes.Methods()
	if !slices.Contains(methods, http.MethodPost) {
		methods = append(methods, http.MethodPost)
	}
	h.allow = strings.Join(methods, ", ")
	places := []string{scheme.At}
	for _, name := range append([]string{scheme.Header}, scheme.MoreHeaders...) {
		if name != "" {
			places = append(places, "header:"+name)
		}
	}
	for _, at := range places {
		// Skip a body that is the signature itself, and parts of an item: these are always there.
		if expr, err := locate.Parse(at); err == nil && expr.IsSingle() {
			h.signed = append(h.signed, expr)
		}
	}
	return h, nil
}

// takes reports whether a request with that method can be a delivery or a handshake.
func (h *handshaking) takes(method string) bool {
	return method == http.MethodPost || h.shakes != nil && slices.Contains(h.shakes.Methods(), method)
}

// canLearn reports whether the provider hands secrets over.
func (h *handshaking) canLearn() bool { return h.shakes != nil && h.shakes.Deliver() }

// isSigned reports whether a request has a signature, right or wrong.
func (h *handshaking) isSigned(in *locate.Input) bool {
	return slices.ContainsFunc(h.signed, func(e *locate.Expr) bool {
		_, err := e.Single(in, maxHeaderText)
		return !errors.Is(err, locate.ErrAbsent)
	})
}

// maxHeaderText bounds the text that is read to see whether it exists.
const maxHeaderText = 1 << 10
