package hookonce

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/locate"
	"github.com/hookonce/hookonce/internal/tell"
	"github.com/hookonce/hookonce/provider"
)

// errSignable refuses a body that the answer to a handshake would sign: an attacker could ask for
// that signature and send it with the body.
var errSignable = errors.New("the answer to a handshake would sign this body")

// handshake answers a handshake. It returns nil for a request that may be a delivery. It stores and
// claims nothing.
func (in *Engine) handshake(r *http.Request, src *source, body []byte, deadline time.Time) *answer {
	if src.shakes == nil {
		return nil
	}
	req := &provider.HandshakeRequest{Method: r.Method, RawQuery: r.URL.RawQuery, Header: r.Header, Body: body}
	shake := src.shakes.Match(req)
	switch {
	case shake != nil:
		a := in.shake(r, src, shake, req, deadline)
		if a.Status >= 400 && shake.Bare() {
			a.contentType, a.body = "text/plain; charset=utf-8", nil
		}
		return a
	case r.Method != http.MethodPost:
		return refused(http.StatusBadRequest, "This is not a request that the provider of this source makes.",
			"no handshake of the provider", nil).because(tell.ReasonHandshake)
	case src.shakes.Signable(req):
		return in.refuseUnverified(r, time.Now(), errSignable)
	}
	return nil
}

// shake checks a handshake and answers it.
func (in *Engine) shake(r *http.Request, src *source, shake *provider.Shake, req *provider.HandshakeRequest, deadline time.Time) *answer {
	ctx, cancel := context.WithDeadline(context.WithoutCancel(r.Context()), deadline)
	defer cancel()
	input := &locate.Input{Header: req.Header, Body: req.Body, RawQuery: req.RawQuery}
	if shake.Signed() == provider.SignedAlways || shake.Signed() == provider.SignedIfPresent && src.isSigned(input) {
		if _, a := in.authenticate(r, src, req.Body, time.Now(), deadline); a != nil {
			return a
		}
	} else if a := in.clients.limitUnverified(r, time.Now(), nil); a != nil {
		return a
	}
	setup := &provider.HandshakeSetup{Params: src.Params, URL: src.URL}
	if shake.NeedsSecret() && src.Secrets != nil {
		secrets, err := src.secretsFor(ctx, r)
		if err != nil {
			return unavailable("the source's secrets are not usable", err)
		}
		if len(secrets) > 0 && secrets[0] != "" {
			// New checks no secrets of functions, and none may sign that anyone can guess.
			if _, err := src.verifier.ParseKey(secrets[0]); err != nil {
				return unavailable("the source's secrets are not usable", err)
			}
			setup.Secret = secrets[0]
		}
	}
	reply, err := shake.Reply(setup)
	if err != nil {
		return refuseHandshake(shake, err)
	}
	if reply.Delivered != "" {
		if a := in.learn(ctx, src, reply.Delivered); a != nil {
			return a
		}
	}
	if reply.ConfirmURL != "" {
		if a := in.confirmations.confirm(src.Name, reply.ConfirmURL); a != nil {
			return a
		}
	}
	in.tell.Handshake(src.Name, shake.ID())
	return answerHandshake(reply)
}

func refuseHandshake(shake *provider.Shake, err error) *answer {
	why := "handshake " + shake.ID()
	switch {
	case errors.Is(err, provider.ErrHandshakeSetup):
		return refused(http.StatusForbidden, "This source is not set up for that.", why, err).because(tell.ReasonHandshake)
	case errors.Is(err, provider.ErrHandshakeCheck):
		return refused(http.StatusForbidden, "The request lacks a required value.", why, err).because(tell.ReasonHandshake)
	default:
		return refused(http.StatusBadRequest, "The request is not one that the provider makes.", why, err).because(tell.ReasonHandshake)
	}
}

func answerHandshake(reply *provider.HandshakeReply) *answer {
	a := answered(reply.Status, reply.ContentType, reply.Body)
	a.header = map[string]string{"Cache-Control": "no-store"}
	a.Outcome, a.Why = tell.Handshake, "the request was a handshake, which holds no event"
	for name, value := range reply.Header {
		a.header[name] = value
	}
	return a
}

// learn stores a secret that the provider hands over, if the source is armed. It returns nil if the
// secret is in force, also if it was learned before: a provider whose answer was lost sends it
// again.
func (in *Engine) learn(ctx context.Context, src *source, secret string) *answer {
	if _, err := src.verifier.ParseKey(secret); err != nil {
		return refused(http.StatusBadRequest, "The secret does not have this provider's form.", "an unusable secret was handed over", err).because(tell.ReasonSecret)
	}
	list := in.learned.of(src.Name)
	// Write only if the source is armed: unverified requests must not cause writes.
	state, err := list.read(ctx)
	if err != nil {
		return unavailable("reading learned secrets", err)
	}
	if state.Armed() {
		taken, err := in.store.LearnSecret(ctx, &driver.LearnParams{Source: src.Name, Secret: secret})
		if err != nil {
			return unavailable("the secret could not be kept", err)
		}
		if state, err = list.read(ctx); err != nil {
			return unavailable("reading learned secrets", err) // the provider sends it again
		}
		if taken {
			in.log.Warn("secret learned from the provider; the source is disarmed", slog.String("source", src.Name))
			return nil
		}
	}
	if knows(state, secret) {
		return nil
	}
	return refused(http.StatusForbidden, "This source does not take a secret now.",
		"a secret was handed over while the source was not armed: to take it, run hookonce sources arm "+src.Name+
			" and make the provider send it again", nil).because(tell.ReasonSecret)
}

const (
	confirmTimeout  = 10 * time.Second // for one try
	confirmInterval = time.Second      // between two looks for due confirmations
	confirmTries    = 12               // within an hour
	firstConfirm    = 2 * time.Second
	maxConfirmPause = 20 * time.Minute
	// maxUnconfirmed bounds the confirmations in progress and those that wait for a retry.
	maxUnconfirmed = 8
)

// confirmations are the unconfirmed subscriptions. The provider gets its answer before the
// confirmation and does not ask twice, so Run retries failed ones. They are lost when the process
// ends.
type confirmations struct {
	log   *slog.Logger
	fetch func(ctx context.Context, url string) error

	mu      sync.Mutex
	pending int // with those in progress
	waiting []confirmation
}

type confirmation struct {
	source, url string
	tries       int
	due         time.Time
}

// confirm starts to fetch a confirmation URL that was verified as the provider's own.
func (c *confirmations) confirm(source, url string) *answer {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending >= maxUnconfirmed {
		return unavailable("too many subscriptions are being confirmed", nil)
	}
	c.pending++
	go c.try(context.Background(), confirmation{source: source, url: url})
	return nil
}

// again starts the due retries. Other maintenance does not wait for them.
func (c *confirmations) again(ctx context.Context) {
	for _, one := range c.takeDue(time.Now()) {
		go c.try(ctx, one)
	}
}

func (c *confirmations) takeDue(now time.Time) (due []confirmation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var waiting []confirmation
	for _, one := range c.waiting {
		if now.Before(one.due) {
			waiting = append(waiting, one)
		} else {
			due = append(due, one)
		}
	}
	c.waiting = waiting
	return due
}

func (c *confirmations) try(ctx context.Context, one confirmation) {
	ctx, cancel := context.WithTimeout(ctx, confirmTimeout)
	defer cancel()
	err := c.fetch(ctx, one.url)
	one.tries++
	log := c.log.With(slog.String("source", one.source), slog.Int("try", one.tries))
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil:
		c.pending--
		log.Info("subscription confirmed")
	case one.tries == confirmTries:
		c.pending--
		log.Error("confirming a subscription failed for good: subscribe again", slog.Any("error", err))
	default:
		one.due = time.Now().Add(driver.Backoff(firstConfirm, maxConfirmPause, one.tries))
		c.waiting = append(c.waiting, one)
		log.Warn("confirming a subscription failed; retrying", slog.Any("error", err))
	}
}
