package hookonce

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/hookonce/hookonce/internal/defaults"
	"github.com/hookonce/hookonce/internal/guard"
	"github.com/hookonce/hookonce/internal/keyfetch"
	"github.com/hookonce/hookonce/internal/limit"
	"github.com/hookonce/hookonce/internal/pasted"
	"github.com/hookonce/hookonce/internal/reconcile"
	"github.com/hookonce/hookonce/internal/tell"
	"github.com/hookonce/hookonce/provider"
	"github.com/hookonce/hookonce/verify"
)

// keySet holds the parsed keys of the last secrets.
type keySet struct {
	secrets []string
	keys    []verify.Key
}

// checkKeys checks the secrets and the key of the source.
func (s *source) checkKeys(scheme *verify.Scheme, at place) {
	if s.unsigned {
		if s.Secrets != nil {
			at.fault("secrets", "an unsigned source has none")
		}
		if s.Key != "" {
			at.fault("key", "an unsigned source has none")
		}
		return
	}
	if s.Secrets == nil && s.Key == "" {
		s.checkKeyless(scheme, at)
		return
	}
	if s.Key != "" && !s.verifier.PublicKey() {
		at.faultHint("key", "use secrets", "the sender signs with a shared secret and has no public key")
	} else if s.Key != "" {
		s.checkKey("key", s.Key, at)
	}
	if f, ok := s.Secrets.(SecretsFunc); ok && f == nil {
		at.fault("secrets", "SecretsFunc(nil) has no function to call: give it one, or use StaticSecrets")
	}
	static, ok := s.Secrets.(staticSecrets)
	if ok && len(static) == 0 && s.Key == "" {
		at.fault("secrets", "the list is empty")
	}
	for i, secret := range static {
		s.checkKey(fmt.Sprintf("secrets[%d]", i), secret, at)
	}
}

// checkKey checks the secret or public key of a setting. It never quotes it.
func (s *source) checkKey(setting, text string, at place) {
	key, err := s.verifier.ParseKey(text)
	slip := ""
	if !s.verifier.PublicKey() {
		slip = pasted.Slip(text)
	}
	switch {
	case slip != "" && errors.Is(err, verify.ErrSecretForm):
		at.fault(setting, "%s: it %s", err, slip)
	case err != nil:
		at.judge(setting, false, err)
	case key.Private():
		at.faultHint(setting, "remove it, and set the public key", "this is a private key: the source needs the public one")
	default:
		if what := pasted.OtherKey(text, s.Provider); slip != "" {
			at.warn(setting, "the secret %s; it is used as it stands", slip)
		} else if what != "" && !s.verifier.PublicKey() {
			at.warn(setting, "the secret looks like %s, with which no sender signs", what)
		}
		at.judge(setting, key.Weak(), nil)
	}
}

// checkKeyless checks a source that has neither secrets nor a key.
func (s *source) checkKeyless(scheme *verify.Scheme, at place) {
	s.fetches = s.verifier.FetchesKeys()
	switch {
	case s.fetches || s.canLearn():
	case scheme.Keys != nil && scheme.Keys.Unset(scheme) != nil:
		p := scheme.Keys.Unset(scheme)
		at.faultHint("params."+p.Name, p.About, "missing; the provider's keys cannot be fetched without it: set it, or set key")
	case s.verifier.PublicKey():
		at.fault("key", "the source has no key, the sender's public key")
	default:
		at.fault("secrets", "the source has no secrets")
	}
}

// ownKeys reports whether the keys are in the settings, so that no database and no provider is
// asked.
func (s *source) ownKeys() bool {
	_, static := s.Secrets.(staticSecrets)
	return !s.fetches && (static || s.Secrets == nil)
}

// secretsFor returns the secrets that are active for r. The user's code may panic, end its goroutine
// or outlive ctx: each is an error.
func (s *source) secretsFor(ctx context.Context, r *http.Request) ([]string, error) {
	if static, ok := s.Secrets.(staticSecrets); ok {
		return static, nil
	}
	var secrets []string // valid once done has received
	done := guard.Call("Secrets", func() (err error) {
		secrets, err = s.Secrets.Secrets(ctx, r)
		return err
	})
	select {
	case err := <-done:
		if err != nil {
			return nil, fmt.Errorf("getting the secrets: %w", guard.Loggable(err))
		}
		return secrets, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("getting the secrets: Secrets did not return in time: %w", ctx.Err())
	}
}

// activeKeys returns the keys of the secrets that are active for r.
func (s *source) activeKeys(ctx context.Context, r *http.Request) ([]verify.Key, error) {
	var secrets []string
	if s.Secrets != nil {
		var err error
		if secrets, err = s.secretsFor(ctx, r); err != nil {
			return nil, err
		}
	}
	if last := s.keys.Load(); last != nil && slices.Equal(last.secrets, secrets) {
		return last.keys, nil
	}
	var keys []verify.Key
	for i, text := range append(slices.Clone(secrets), s.Key) {
		if text == "" && i == len(secrets) {
			continue // there is no Key
		}
		key, err := s.verifier.ParseKey(text)
		if err != nil {
			return nil, fmt.Errorf("secret %d: %w", i, err)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 && !s.unsigned {
		return nil, errors.New("there are no active secrets")
	}
	s.keys.Store(&keySet{secrets: slices.Clone(secrets), keys: keys})
	return keys, nil
}

const (
	// windowMargin is how much younger than the dedupe window an event must be: its identity must not have been
	// pruned, also if a clock is off.
	windowMargin = 24 * time.Hour
	// maxReconcileDelay bounds Reconcile.Delay.
	maxReconcileDelay = 24 * time.Hour
	// minReconcileEvery and maxReconcileEvery bound Reconcile.Every.
	minReconcileEvery = time.Minute
	maxReconcileEvery = 24 * time.Hour
)

// setReconcile checks the settings of Reconcile, and fills in their defaults. window is the dedupe window for all.
func (s *source) setReconcile(spec *provider.Spec, window time.Duration, at place) {
	if s.Reconcile == nil {
		return
	}
	mine := *s.Reconcile
	s.Reconcile, s.list, s.listTypes = &mine, spec.List, typePatterns(mine.Types)
	setDefault(&mine.Delay, defaults.ReconcileDelay)
	if mine.Delay < 0 || mine.Delay > maxReconcileDelay {
		at.fault("reconcile.delay", "it must be more than 0 and at most a day")
	} else if cmp.Or(s.DedupeWindow, window) <= windowMargin+mine.Delay {
		at.faultHint("reconcile", "make dedupe_window longer", "nothing is old enough, and still in the dedupe window less a day")
	}
	if mine.Every != 0 && (mine.Every < minReconcileEvery || mine.Every > maxReconcileEvery) {
		at.fault("reconcile.every", "it must be from a minute to a day")
	}
	switch {
	case spec.List == nil:
		at.faultHint("reconcile", "leave it out", "provider %s has no list of events to read: %s", spec.Name,
			cmp.Or(spec.NoList, "it is not known that its API lists the events of its webhooks"))
		return
	case s.batch && spec.List.Wrap == "":
		at.fault("reconcile", "it does not work with event.batch: the list of provider %s has single events", spec.Name)
	}
	if strings.TrimSpace(mine.Key) == "" || strings.ContainsAny(mine.Key, "\r\n\x00") {
		at.fault("reconcile.key", "it must hold the key of the provider's API, on one line")
	}
	if spec.List.Token != "" && !strings.Contains(mine.Key, ":") {
		at.fault("reconcile.key", "it must be ID:SECRET, which the API of provider %s exchanges for a token", spec.Name)
	}
	if mine.URL != "" {
		if err := reconcile.CheckURL(mine.URL); err != nil {
			at.fault("reconcile.url", "%s", err)
		}
	}
	at.wrong("", spec.List.CheckParams(mine.Params))
}

// clients bounds the requests of one address.
type clients struct {
	proxies    limit.Proxies
	unverified *limit.Addresses
	fetches    *limit.Addresses // of keys that were never fetched before
}

func newClients(cfg *Config) *clients {
	return &clients{
		proxies:    limit.NewProxies(cfg.TrustedProxies),
		unverified: limit.NewAddresses(cfg.UnverifiedRate.Count, cfg.UnverifiedRate.Per),
		fetches:    limit.NewAddresses(fetchRate.Count, fetchRate.Per),
	}
}

// limitUnverified counts an unverified request of r's address, and refuses it beyond the limit.
func (c *clients) limitUnverified(r *http.Request, now time.Time, err error) *answer {
	wait := c.unverified.Take(c.proxies.Client(r), now)
	if wait == 0 {
		return nil
	}
	a := refused(http.StatusTooManyRequests, "Too many unverified requests came from this address.",
		"not verified, and over the address's rate", err).because(tell.ReasonUnverifiedRate)
	a.retryAfter = wait
	return a
}

// fetchRate bounds the unknown keys that one address may name: real senders name few, and an
// attacker must not use up the fetches of all.
var fetchRate = Rate{Count: 5, Per: time.Minute}

// errKeyRef means that the request names a key that the provider does not have.
var errKeyRef = errors.New("the request names no key of the provider")

// keysFor returns the keys to verify req with, the request r. The sender is at fault if the error
// is a *verify.Error (except verify.ErrNoKeys and verify.ErrNoURL), errKeyRef or
// keyfetch.ErrTooMany.
func (c *clients) keysFor(src *source, r *http.Request, req *verify.Request, fetcher *keyfetch.Fetcher, deadline time.Time) ([]verify.Key, error) {
	if src.ownKeys() {
		return src.activeKeys(r.Context(), r) // no database and no provider is asked
	}
	// A client that hangs up or half-closes ends r's context; the look-up goes on.
	ctx, cancel := context.WithDeadline(context.WithoutCancel(r.Context()), deadline)
	defer cancel()
	if !src.fetches {
		return src.activeKeys(ctx, r)
	}
	if err := src.verifier.Plausible(req); err != nil {
		return nil, err
	}
	ref, err := src.verifier.KeyRef(req)
	if err != nil {
		return nil, err
	}
	may := func() bool { return c.fetches.Take(c.proxies.Client(r), req.Now) == 0 }
	keys, err := fetcher.Keys(ctx, src.verifier, ref, may)
	if errors.Is(err, keyfetch.ErrUnknown) {
		return nil, fmt.Errorf("%w: %w", errKeyRef, err)
	}
	return keys, err
}
