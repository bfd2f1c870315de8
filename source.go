package hookonce

import (
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
	"github.com/hookonce/hookonce/provider"
	"github.com/hookonce/hookonce/verify"
)

var nameRegexp = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)

// source is a Source made ready.
type source struct {
	Source
	verifier  *verify.Verifier
	tolerance time.Duration
	extractor *provider.Extractor
	batch     bool // one delivery may hold several events
	guard     driver.BodyGuard
	hidden    []string // headers that are stored as "<secret>"
	verified  *bucket
	routes    []*route
	stale     *staleRules // nil if there are none

	keys atomic.Pointer[keySet] // the keys of the secrets seen last
}

type keySet struct {
	secrets []string
	keys    []verify.Key
}

// newSource checks s and fills in defaults. All faults are reported at once.
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
	src := &source{Source: s, hidden: spec.HiddenHeaders()}
	scheme, err := chooseScheme(&s, spec)
	if err != nil {
		fault("%w", err)
		return nil, errors.Join(faults...)
	}
	if src.verifier, err = verify.Compile(scheme); err != nil {
		fault("%w", err)
	}
	if scheme.Timestamp != nil {
		src.tolerance = scheme.Timestamp.Tolerance
	}
	rules := mergeRules(spec.Event, s.Event)
	src.batch = rules.Batch != ""
	if src.extractor, err = provider.CompileRules(rules); err != nil {
		fault("%w", err)
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	stale, staleFaults := newStaleRules(&s, spec, src.batch, log)
	for _, err := range staleFaults {
		fault("%w", err)
	}
	src.stale = stale
	if err := src.checkSecrets(&scheme); err != nil {
		fault("%w", err)
	}
	if err := src.setDefaults(spec); err != nil {
		fault("%w", err)
	}
	return src, errors.Join(faults...)
}

func chooseScheme(s *Source, spec *provider.Spec) (verify.Scheme, error) {
	var scheme verify.Scheme
	switch {
	case s.Signature != nil && len(spec.Schemes) > 0:
		return scheme, fmt.Errorf("signature: provider %s has its own; only %s takes one", spec.Name, provider.HMAC)
	case s.Signature != nil:
		scheme = *s.Signature
	case len(spec.Schemes) == 0:
		return scheme, fmt.Errorf("signature: provider %s needs one", spec.Name)
	case s.Scheme == "":
		scheme = spec.Schemes[0]
	default:
		i := slices.IndexFunc(spec.Schemes, func(c verify.Scheme) bool { return c.ID == s.Scheme })
		if i < 0 {
			ids := make([]string, len(spec.Schemes))
			for j, c := range spec.Schemes {
				ids[j] = c.ID
			}
			return scheme, fmt.Errorf("scheme: provider %s has no %q; it has %s", spec.Name, s.Scheme, strings.Join(ids, ", "))
		}
		scheme = spec.Schemes[i]
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
		return scheme, fmt.Errorf("tolerance: scheme %s of provider %s signs no timestamp", scheme.ID, spec.Name)
	}
	return scheme, nil
}

func mergeRules(of provider.EventRules, by provider.EventRules) provider.EventRules {
	for _, field := range []struct{ to, from *string }{
		{&of.ID, &by.ID}, {&of.Type, &by.Type}, {&of.Time, &by.Time}, {&of.Batch, &by.Batch},
	} {
		if *field.from != "" {
			*field.to = *field.from
		}
	}
	return of
}

func (s *source) checkSecrets(scheme *verify.Scheme) error {
	if scheme.Family == verify.FamilyNone {
		if s.Secrets != nil || s.Key != "" {
			return errors.New("secrets: an unsigned source has none")
		}
		return nil
	}
	if s.Secrets == nil && s.Key == "" {
		return errors.New("secrets: there is none, and no key")
	}
	if s.Key != "" {
		if scheme.Algorithm != verify.AlgorithmEd25519 {
			return errors.New("key: this scheme is checked with secrets, and a public key is none")
		}
		if _, err := s.verifier.ParseKey(s.Key); err != nil {
			return fmt.Errorf("key: %w", err)
		}
	}
	if static, ok := s.Secrets.(staticSecrets); ok {
		if len(static) == 0 && s.Key == "" {
			return errors.New("secrets: the list is empty")
		}
		for i, secret := range static {
			if _, err := s.verifier.ParseKey(secret); err != nil {
				return fmt.Errorf("secrets[%d]: %w", i, err)
			}
		}
	}
	return nil
}

func (s *source) setDefaults(spec *provider.Spec) error {
	if s.MaxBody == 0 {
		s.MaxBody = max(spec.MaxBody, DefaultMaxBody)
	}
	if s.AckTimeout == 0 {
		s.AckTimeout = DefaultAckTimeout
		if t := spec.Retry.Timeout * 8 / 10; t > 0 {
			s.AckTimeout = min(s.AckTimeout, t)
		}
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
	s.verified = newBucket(s.Rate)
	if id := s.extractor.ID(); !s.verifier.Covers(id) && !s.unsigned() {
		s.guard = driver.BodyWatch
		if s.ReplayGuard {
			s.guard = driver.BodyRefuse
		}
	} else if s.ReplayGuard {
		return errors.New("replay guard: the event id is signed, so there is nothing to guard")
	}
	return nil
}

// setPolicies fills in what is left out, and refuses words that are not known:
// another spelling of one must not silently mean something else.
func (s *source) setPolicies() error {
	setDefault(&s.Malformed, MalformedReject)
	setDefault(&s.Redelivery, RedeliveryReopen)
	setDefault(&s.Consume, ConsumeRoutes)
	setDefault(&s.DeadLetter, AfterAttempts(DefaultInlineAttempts))
	setDefault(&s.RefetchTimeout, DefaultRefetchTimeout)
	var faults []error
	if s.Malformed != MalformedReject && s.Malformed != MalformedQuarantine {
		faults = append(faults, fmt.Errorf("malformed: %q is neither reject nor quarantine", s.Malformed))
	}
	if s.Redelivery != RedeliveryReopen && s.Redelivery != RedeliveryAck {
		faults = append(faults, fmt.Errorf("redelivery: %q is neither reopen nor ack", s.Redelivery))
	}
	if s.Consume != ConsumeRoutes && s.Consume != ConsumeSQL {
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

func (s *source) unsigned() bool { return s.Provider == provider.None }

// activeKeys returns the keys of the secrets that are active for r.
func (s *source) activeKeys(ctx context.Context, r *http.Request) ([]verify.Key, error) {
	var secrets []string
	if s.Secrets != nil {
		var err error
		if secrets, err = s.Secrets.Secrets(ctx, r); err != nil {
			return nil, fmt.Errorf("getting the secrets: %w", err)
		}
	}
	if last := s.keys.Load(); last != nil && slices.Equal(last.secrets, secrets) {
		return last.keys, nil
	}
	var keys []verify.Key
	for i, text := range append(slices.Clone(secrets), s.Key) {
		if text == "" && i == len(secrets) {
			continue // no Key
		}
		key, err := s.verifier.ParseKey(text)
		if err != nil {
			return nil, fmt.Errorf("secret %d: %w", i, err)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 && !s.unsigned() {
		return nil, errors.New("there are no active secrets")
	}
	s.keys.Store(&keySet{secrets: slices.Clone(secrets), keys: keys})
	return keys, nil
}

// verify checks r's signature. Only what it returns can be claimed.
func (s *source) verify(r *http.Request, body []byte, keys []verify.Key, now time.Time) (*delivery, error) {
	err := s.verifier.Verify(&verify.Request{
		Method:   r.Method,
		URL:      s.URL,
		RawQuery: r.URL.RawQuery,
		Header:   r.Header,
		Body:     body,
		Now:      now,
	}, keys)
	if err != nil {
		return nil, err
	}
	return &delivery{
		source:   s,
		header:   r.Header,
		visible:  visibleHeader(r.Header, s.hidden),
		rawQuery: r.URL.RawQuery,
		wire:     body,
		body:     body,
	}, nil
}
