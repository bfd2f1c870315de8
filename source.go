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
	"strings"
	"sync/atomic"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/defaults"
	"github.com/hookonce/hookonce/internal/headers"
	"github.com/hookonce/hookonce/internal/limit"
	"github.com/hookonce/hookonce/internal/locate"
	"github.com/hookonce/hookonce/internal/send"
	"github.com/hookonce/hookonce/internal/stale"
	"github.com/hookonce/hookonce/internal/wire"
	"github.com/hookonce/hookonce/internal/work"
	"github.com/hookonce/hookonce/provider"
	"github.com/hookonce/hookonce/verify"
)

var nameRegexp = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)

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
	// secretBody says that a body may hold a credential.
	secretBody bool
	verified   *limit.Bucket
	routes     []*route
	work       *work.Source        // the settings for handlers and stale rules
	ackSigner  *provider.AckSigner // nil: answers are unsigned
	retries    time.Duration       // how long the provider retries; 0 if unknown

	unsigned bool // its scheme checks nothing
	fetches  bool // its keys are fetched from the provider, see sourcekeys.go
	keys     atomic.Pointer[keySet]
}

// newSource checks s and fills in its defaults. The error reports all faults at once.
func newSource(s Source, log *slog.Logger) (*source, error) {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("source %q: "+format, append([]any{s.Name}, args...)...))
	}
	if !nameRegexp.MatchString(s.Name) {
		fault("the name must match %s", nameRegexp)
	}
	spec, err := provider.Lookup(s.Provider)
	if err != nil {
		fault("%w", err)
		return nil, errors.Join(faults...)
	}
	src := &source{Source: s, retries: spec.Retry.Window}
	scheme, schemeFaults := chooseScheme(&s, spec)
	if len(schemeFaults) == 0 {
		schemeFaults = src.setScheme(&scheme, spec)
	}
	for _, err := range schemeFaults {
		fault("%w", err)
	}
	if s.Signature != nil {
		spec = spec.WithScheme(scheme)
	}
	src.hidden, src.secretBody = spec.HiddenHeaders(), spec.SecretInBody()
	src.secretHeaders, src.secretParam = provider.Carriers(&scheme)
	rules := s.Event.Or(spec.Event)
	for _, err := range spec.CheckEvent(rules) {
		fault("%w", err)
	}
	src.batch = rules.Batch != ""
	if src.extractor, err = provider.CompileRules(rules); err != nil {
		fault("%w", withHint(err, spec, rules.ID == ""))
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	compiled, staleFaults := src.staleRules(spec, log)
	for _, err := range staleFaults {
		fault("%w", err)
	}
	if err := src.setDefaults(spec); err != nil {
		fault("%w", err)
	}
	if err := src.setAckKey(spec, log); err != nil {
		fault("%w", err)
	}
	src.work = src.forWork(compiled)
	return src, errors.Join(faults...)
}

// staleRules compiles the stale rules.
func (s *source) staleRules(spec *provider.Spec, log *slog.Logger) (*stale.Rules, []error) {
	var rules []stale.Rule
	for i := range s.Stale {
		types := typePatterns(s.Stale[i].Types)
		rules = append(rules, stale.Rule{
			Matches: func(eventType string) bool { return matchesAny(types, eventType) },
			Key:     s.Stale[i].Key, Version: s.Stale[i].Version,
		})
	}
	compiled, faults := stale.New(s.Name, rules, spec, s.extractor, log)
	if len(rules) > 0 && s.Consume == ConsumeSQL {
		faults = append(faults, errors.New("stale: it cannot be applied with consume: sql, because the application itself applies the events"))
	}
	return compiled, faults
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

// withHint adds the provider's hint to the error of a missing event id.
func withHint(err error, spec *provider.Spec, missing bool) error {
	if hint := spec.EventHint("id"); missing && hint != "" {
		return fmt.Errorf("%w (%s)", err, hint)
	}
	return err
}

// chooseScheme returns the scheme of s with the settings of s applied. It returns all faults at
// once.
func chooseScheme(s *Source, spec *provider.Spec) (verify.Scheme, []error) {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	var scheme verify.Scheme
	switch {
	case s.Signature != nil && len(spec.Schemes) > 0:
		fault("signature: provider %s has its own; only %s and %s take one", spec.Name, provider.HMAC, provider.Token)
	case s.Signature != nil && spec.Name == provider.Token && !staticToken(s.Signature):
		fault("signature: provider %s takes a token in a header or in the query: see provider.TokenScheme", spec.Name)
	case s.Signature != nil:
		scheme = *s.Signature
	case len(spec.Schemes) == 0:
		fault("signature: provider %s needs one", spec.Name)
	default:
		var err error
		if scheme, err = spec.ChooseScheme(s.Scheme); err != nil {
			fault("scheme: %w", err)
		}
	}
	if len(faults) > 0 {
		return scheme, faults
	}
	if err := spec.SetParams(&scheme, s.Params); err != nil {
		fault("%w", err)
	}
	if scheme.Timestamp != nil {
		ts := *scheme.Timestamp
		if s.Tolerance > 0 {
			ts.Tolerance = s.Tolerance
		}
		if ts.Tolerance == 0 {
			ts.Tolerance = verify.DefaultTolerance
		}
		scheme.Timestamp = &ts
	} else if s.Tolerance > 0 {
		fault("tolerance: scheme %s of provider %s signs no timestamp", scheme.ID, spec.Name)
	}
	return scheme, faults
}

// staticToken reports whether a scheme is one of provider.Token.
func staticToken(s *verify.Scheme) bool {
	return s.Family == verify.FamilyToken && (s.At == "" || strings.HasPrefix(s.At, "query:"))
}

// setScheme compiles the scheme and the handshakes, and checks the keys.
func (s *source) setScheme(scheme *verify.Scheme, spec *provider.Spec) []error {
	var err error
	if s.verifier, err = verify.Compile(*scheme); err != nil {
		return []error{err}
	}
	switch {
	case scheme.Timestamp != nil:
		s.tolerance = scheme.Timestamp.Tolerance
	case scheme.Family == verify.FamilyJWT:
		s.tolerance = time.Minute // the leeway of JWTs
	}
	if s.handshaking, err = newHandshaking(spec, scheme); err != nil {
		return []error{err}
	}
	if err := s.checkKeys(scheme); err != nil {
		return []error{err}
	}
	if s.URL == "" && s.verifier.NeedsURL() {
		return []error{errors.New("url: the signature covers the public URL of the source, which is not set")}
	}
	if s.URL != "" {
		if err := send.CheckURL(s.URL); err != nil {
			return []error{fmt.Errorf("url: %w", err)}
		}
	}
	return nil
}

func (s *source) setDefaults(spec *provider.Spec) error {
	if s.MaxBody == 0 {
		s.MaxBody = max(spec.MaxBody, defaults.MaxBody)
	}
	if s.AckTimeout == 0 {
		s.AckTimeout = defaults.AckTimeout
		if t := spec.Retry.Timeout * 8 / 10; t > 0 {
			s.AckTimeout = min(s.AckTimeout, t)
		}
	}
	if s.Ack == nil && spec.Ack != nil {
		s.Ack = &Ack{Status: spec.Ack.Status, ContentType: spec.Ack.ContentType, Body: spec.Ack.Body}
	}
	if len(s.ContentEncodings) > 0 && s.verifier.ReadsForm() {
		return errors.New("content encoding: this scheme signs the fields of a form, which must be sent as it is")
	}
	for _, enc := range s.ContentEncodings {
		if enc != "gzip" {
			return fmt.Errorf("content encoding %q: only gzip is known", enc)
		}
	}
	if s.MaxBody < 0 || s.AckTimeout < 0 || s.DedupeWindow < 0 || s.Retention < 0 {
		return errors.New("max body, ack timeout, dedupe window and retention must not be negative")
	}
	if err := errors.Join(s.Rate.check(), s.Ack.check(), s.setPolicies()); err != nil {
		return err
	}
	s.verified = s.Rate.bucket()
	if id := s.extractor.ID(); !s.verifier.Covers(id) && !s.unsigned {
		s.guard = driver.BodyWatch
		if s.ReplayGuard {
			s.guard = driver.BodyRefuse
		}
	} else if s.ReplayGuard {
		return errors.New("replay guard: the event id is signed, so there is nothing to guard")
	}
	return nil
}

// setPolicies fills in defaults and refuses unknown words: a misspelled policy must not silently
// mean another one.
func (s *source) setPolicies() error {
	setDefault(&s.Malformed, malformedReject)
	setDefault(&s.Redelivery, redeliveryReopen)
	setDefault(&s.Consume, consumeRoutes)
	setDefault(&s.DeadLetter, AfterAttempts(defaults.InlineAttempts))
	setDefault(&s.RefetchTimeout, defaults.RefetchTimeout)
	var faults []error
	if s.Malformed != malformedReject && s.Malformed != MalformedQuarantine {
		faults = append(faults, fmt.Errorf("malformed: %q is neither reject nor quarantine", s.Malformed))
	}
	if s.Redelivery != redeliveryReopen && s.Redelivery != RedeliveryAck {
		faults = append(faults, fmt.Errorf("redelivery: %q is neither reopen nor ack", s.Redelivery))
	}
	if s.Consume != consumeRoutes && s.Consume != ConsumeSQL {
		faults = append(faults, fmt.Errorf("consume: %q is neither routes nor sql", s.Consume))
	}
	if s.RefetchTimeout < 0 {
		faults = append(faults, errors.New("refetch timeout: it must not be negative"))
	}
	if s.Tolerance < 0 {
		faults = append(faults, errors.New("tolerance: it must not be negative"))
	}
	return errors.Join(faults...)
}

func (a *Ack) check() error {
	switch {
	case a == nil:
		return nil
	case a.Status != 0 && (a.Status < 200 || a.Status > 299):
		return fmt.Errorf("ack: the status must be 2xx, not %d", a.Status)
	case a.Body != "" && (a.Status == http.StatusNoContent || a.Status == http.StatusResetContent):
		return fmt.Errorf("ack: a %d has no body", a.Status)
	}
	return nil
}

// keepForRetries sets the dedupe window to the time that the provider retries, if the source sets
// none and all, the window of Config, is shorter. It warns of a window in which a request does not lose its validity.
func (s *source) keepForRetries(all time.Duration, log *slog.Logger) {
	switch {
	case s.DedupeWindow == 0 && s.retries > all:
		s.DedupeWindow = s.retries
	case s.DedupeWindow > 0 && s.DedupeWindow < s.retries:
		log.Warn("the dedupe window is shorter than the provider retries: a late retry takes effect again",
			slog.String("source", s.Name), slog.String("dedupe_window", s.DedupeWindow.String()), slog.String("retries", s.retries.String()))
	}
	if window := cmp.Or(s.DedupeWindow, all); s.tolerance > window {
		log.Warn("the tolerance is longer than the dedupe window: a captured request can take effect twice",
			slog.String("source", s.Name), slog.String("tolerance", s.tolerance.String()), slog.String("dedupe_window", window.String()))
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
func (s *source) setAckKey(spec *provider.Spec, log *slog.Logger) error {
	signature := spec.AckSignature()
	switch {
	case signature == nil && s.AckKey != "":
		return fmt.Errorf("ack key: provider %s wants no signature of an answer: leave it out", spec.Name)
	case signature == nil:
		return nil
	case s.AckKey == "":
		log.Warn("answers are unsigned: the source has no ack key",
			slog.String("source", s.Name), slog.String("without", signature.Without))
		return nil
	}
	signer, err := signature.Signer(s.AckKey)
	switch {
	case err != nil:
		return fmt.Errorf("ack key: %w", err)
	case signer.NeedsURL() && s.URL == "":
		return errors.New("url: the signature of an answer covers the public URL of the source, which is not set")
	}
	s.ackSigner = signer
	return nil
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
