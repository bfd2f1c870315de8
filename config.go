package hookonce

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/guard"
	"github.com/hookonce/hookonce/provider"
	"github.com/hookonce/hookonce/verify"
)

// Defaults of Config, Source and Destination.
const (
	DefaultDedupeWindow   = 30 * 24 * time.Hour
	DefaultRetention      = 30 * 24 * time.Hour
	DefaultAckTimeout     = 3 * time.Second
	DefaultMaxBody        = 1 << 20
	DefaultSendTimeout    = 15 * time.Second
	DefaultSendAttempts   = 20
	DefaultFirstRetry     = 10 * time.Second
	DefaultMaxRetry       = 12 * time.Hour
	DefaultConcurrency    = 16
	DefaultQueue          = 8192
	DefaultBodyBytes      = 256 << 20
	DefaultQuarantineRows = 10_000
	DefaultBatch          = 200
	DefaultInlineAttempts = 5
	DefaultRefetchTimeout = 10 * time.Second
)

// DefaultUnverifiedRate is the default of Config.UnverifiedRate.
var DefaultUnverifiedRate = Rate{Count: 100, Per: time.Second}

// Config is what an Inbox works with. The zero value of every field is usable.
// A Config is read once, by New; changing it later changes nothing.
type Config struct {
	Sources      []Source
	Destinations []Destination
	Routes       []Route

	// DedupeWindow is how long the identity of an event stays claimed, counted
	// from its first delivery. Defaults to 30 days.
	DedupeWindow time.Duration
	// Retention is how long bodies and headers of finished events are kept.
	// Defaults to 30 days.
	Retention time.Duration

	// UnverifiedRate bounds how many unverified requests from one address are
	// answered 401; those beyond it are answered 429. A request that verifies
	// is never held back by it. Defaults to 100 a second.
	UnverifiedRate Rate
	// Queue is how many deliveries may wait for their claim; beyond it the
	// answer is 503. Defaults to 8,192.
	Queue int
	// BodyBytes bounds the memory of all bodies from their first byte to their
	// answer; beyond it the answer is 503. Defaults to 256 MiB.
	BodyBytes int64
	// QuarantineRows is how many malformed requests are kept of each source,
	// the newest. Defaults to 10,000.
	QuarantineRows int

	// Workers is how many transactions of handlers run at a time in this process, and
	// how many of Inline handlers besides; at most 1,000.
	// Defaults to what suits the database: 4 on PostgreSQL, 1 on SQLite, which has
	// one writer.
	Workers int
	// Batch is how many events are worked on in one transaction at most, and so share
	// what one of their handlers sets for it (SET LOCAL). It takes about as many as are
	// worked off in 100 ms: fewer of those whose handlers are slow. 1 gives each its own;
	// at most 1,000. Defaults to 200.
	Batch int
	// HandlerTimeout bounds one run of a handler. Defaults to 30 s on PostgreSQL,
	// where it must be at most 55 s, and 1 s on SQLite, whose only writer it is, and
	// where it must be at most 30 s.
	HandlerTimeout time.Duration
	// Retry is the schedule of handlers that fail. Defaults to that of a
	// destination: 20 attempts, from 10 s to 12 h.
	Retry Retry

	// Logger takes the log. Defaults to slog.Default().
	Logger *slog.Logger
	// Observer is told what happens; nil tells nobody.
	Observer *Observer
}

// Source is one configured sender. It has the URL /webhooks/{Name}.
type Source struct {
	// Name matches [a-z0-9] followed by up to 62 of [a-z0-9_-].
	Name     string
	Provider provider.Name
	// Scheme names a scheme of the provider that is not its default. One that is weak,
	// or that checks nothing, is used only where it is named, whatever else there is;
	// the provider None is the one name of a provider that says so itself.
	Scheme string
	// Signature says how the sender signs, for provider.HMAC.
	Signature *verify.Scheme
	// Secrets returns the active secrets; any one may match. For basic authentication
	// a secret is user:password. nil where Key is set, where keys are got from the
	// provider, where nothing is signed, and where the provider hands the secret over in
	// a handshake.
	Secrets Secrets
	// Key is the sender's public key, for schemes that have one: PEM, a certificate, a
	// JWK or JWKS, or the provider's raw form; see verify.Verifier.ParseKey. It is an
	// error for the others: whoever knows it could sign. Without it, keys that the
	// provider publishes are got from there, by https and from its own hosts alone, and
	// kept for a while; with it nothing is ever fetched.
	Key string
	// URL is the public URL of this source, where the signature covers it.
	URL string
	// Params are what the scheme and the handshakes need to know beside secrets and
	// keys, such as the id of a webhook; see verify.Scheme.Params, provider.Spec.Params
	// and `hookonce providers NAME`.
	Params map[string]string
	// Event overrides, field by field, where the provider's fields stand.
	Event provider.EventRules
	// Tolerance is how far a signed timestamp may lie from now, in both
	// directions. 0 means the scheme's own, which is 5 minutes for most.
	Tolerance time.Duration

	// MaxBody is the largest body in bytes; a compressed one must fit before
	// and after inflating. Defaults to the provider's, else 1 MiB.
	MaxBody int64
	// AckTimeout bounds the time from the body's last byte to the answer.
	// Defaults to 0.8 of the provider's own time-out, at most 3 s.
	AckTimeout time.Duration
	// Rate bounds verified requests; the zero value does not.
	Rate Rate
	// Ack replaces the answer that accepts an event. Defaults to what the provider wants
	// there, if it wants anything.
	Ack *Ack
	// AckKey is your own private key, a secret, with which every answer of 2xx to a
	// delivery is signed, that of Ack too: for providers that want their answers signed
	// (provider.Spec.AckSignature; Alipay). The provider knows its public half. PEM
	// (PKCS #8 or PKCS #1), the base64 of the same in DER, or a JWK; not encrypted, and of
	// RSA at least 2048 bits. It is an error for the others. Without it answers are not
	// signed, which is logged when the source is set up: the provider may then take all
	// its deliveries as failed, and repeat them.
	AckKey string

	// Malformed says how a verified request without a usable event is
	// answered. It is kept in the quarantine in either case.
	Malformed Malformed
	// Redelivery says what a delivery of a dead event does.
	Redelivery Redelivery
	// ReplayGuard answers a body that was seen before under another event id
	// as a duplicate, where the id is not signed.
	ReplayGuard bool
	// ContentEncodings lists the compressed encodings that are accepted; only
	// "gzip" is known. The signature covers the bytes as sent.
	ContentEncodings []string
	// Consume says who works on the events that no handler of this process takes.
	Consume Consume
	// Inline runs the handler before the answer, in the transaction of the claim.
	Inline bool
	// DeadLetter says when the failures of an Inline handler end in a dead letter.
	// Defaults to AfterAttempts(5).
	DeadLetter DeadLetterPolicy
	// Stale are the rules by which events are skipped that are older than what was
	// applied. The first one that names an event's type holds.
	Stale []StaleRule
	// Refetch gets the current state of the object that an event is about from its
	// source of truth, before the handler runs and outside of its transaction. The
	// handler finds it in Event.Current. nil, nil means that there is nothing to
	// get; an error is a failed attempt, see Permanent and RetryAfter.
	Refetch func(ctx context.Context, ev *Event) ([]byte, error)
	// RefetchTimeout bounds one call of Refetch. Defaults to 10 s.
	RefetchTimeout time.Duration

	// DedupeWindow and Retention override those of Config. Where the provider is known to
	// retry for longer than Config.DedupeWindow, that is the default of DedupeWindow; one
	// that is set to less is warned of.
	DedupeWindow time.Duration
	Retention    time.Duration
}

// Secrets gives the active secrets of a source for one request. See
// StaticSecrets and SecretsFunc.
type Secrets interface {
	// Secrets is called for every request of the source, before it is
	// verified, so it may trust nothing in r; it must be fast and safe for
	// concurrent use, and must not read the body. ctx ends with the time for
	// the answer, not with the client. An error, or no secrets at all, is
	// answered 503: the fault is ours, not the sender's.
	Secrets(ctx context.Context, r *http.Request) ([]string, error)
}

// SecretsFunc is a function as Secrets, for example one secret per tenant.
type SecretsFunc func(ctx context.Context, r *http.Request) ([]string, error)

// Secrets calls f.
func (f SecretsFunc) Secrets(ctx context.Context, r *http.Request) ([]string, error) {
	return f(ctx, r)
}

// StaticSecrets returns Secrets that are always the same; New checks them.
func StaticSecrets(secrets ...string) Secrets { return staticSecrets(secrets) }

type staticSecrets []string

func (s staticSecrets) Secrets(context.Context, *http.Request) ([]string, error) { return s, nil }

// Ack is the answer that a sender wants for an accepted event.
type Ack struct {
	Status      int    // 2xx; 0 means 200
	ContentType string // "" means text/plain; charset=utf-8
	Body        string
}

// Malformed says how a verified but unusable request is answered.
type Malformed string

// The values of Source.Malformed.
const (
	MalformedReject     Malformed = "reject"     // 400; the default
	MalformedQuarantine Malformed = "quarantine" // 200
)

// Redelivery says what a delivery of a dead event does.
type Redelivery string

// The values of Source.Redelivery.
const (
	RedeliveryReopen Redelivery = "reopen" // a new generation with full attempts; the default
	RedeliveryAck    Redelivery = "ack"    // it is only acknowledged
)

// Consume says who works on the events of a source that no handler of this
// process takes.
type Consume string

// The values of Source.Consume.
const (
	ConsumeRoutes Consume = "routes" // the routes alone; the default
	ConsumeSQL    Consume = "sql"    // an application takes them, with SQL or with handlers of its own
)

// StaleRule says which events can be stale, and how that is seen: an event is
// older than what was applied if its version is lower than the highest version of
// the same object that was. Numbers compare as numbers, also where they are text,
// times (RFC 3339) as times, and any other text byte by byte; where a sender mixes
// them, all numbers are below all times, and those below all other text. Equal
// versions are applied. For messages what was sent counts as applied, each route by
// itself.
type StaleRule struct {
	// Types are event types; a '*' stands for any text. None means all.
	Types []string
	// Key is where the id of the object stands, Version where its version does:
	// locations, as "body:data.object.id", or of a batch "item:id", but not "query:",
	// which is not stored. An event without one of them is applied; and so is one
	// where they cannot be read, or the version is too long to be compared (about
	// 250 digits or bytes), which is logged.
	Key, Version string
}

// DeadLetterPolicy says when the failures of an Inline handler end in a dead
// letter. See AfterAttempts and Immediate.
type DeadLetterPolicy struct{ attempts int }

// AfterAttempts answers the sender 500 until the n-th failure, which files the
// dead letter and is answered 200. It panics where n is less than 1.
func AfterAttempts(n int) DeadLetterPolicy {
	if n < 1 {
		panic("hookonce: AfterAttempts needs at least 1")
	}
	return DeadLetterPolicy{n}
}

// Immediate files the dead letter at the first failure, and answers 200.
var Immediate = AfterAttempts(1)

// Destination is where messages are sent to: an HTTP endpoint, or a Sender.
type Destination struct {
	Name string
	URL  string // http or https; "" with a Sender
	// Sender sends in place of HTTP. With it URL, Secret and AllowPrivate are faults.
	Sender Sender
	// Secret signs what is sent, as Standard Webhooks; "" sends unsigned. With
	// the prefix whsec_ the rest is base64; any other text is used as it is.
	Secret string
	// Timeout bounds one attempt, from dialling to the last byte of the
	// answer. Defaults to 15 s.
	Timeout time.Duration
	Retry   Retry
	// Concurrency is how many messages are sent at a time by one process.
	// Defaults to 16.
	Concurrency int
	// Rate bounds the attempts of one process; the zero value does not.
	Rate Rate
	// AllowPrivate permits addresses that are not public: private networks,
	// loopback, carrier-grade NAT and the like. Addresses are checked when they
	// are dialled. Link-local and metadata addresses are refused in any case.
	AllowPrivate bool
}

// Retry is the schedule of a destination, or of handlers: attempt n+1 follows
// attempt n after a random time of up to First·2ⁿ⁻¹, and at most Max. What is due is
// found within a second.
type Retry struct {
	Attempts int           // in all; defaults to 20
	First    time.Duration // defaults to 10 s
	Max      time.Duration // defaults to 12 h; a year at most
}

// Route says which events become messages to which destination.
type Route struct {
	Name string
	// Sources are the sources it takes events of; none means all.
	Sources []string
	// Types are event types; a '*' stands for any text. None means all.
	Types []string
	// Where decides on an event that matched Sources and Types; nil means yes.
	// An error or a panic counts as no, and is logged. It must be fast and safe
	// for concurrent use.
	Where func(ev *Event) (bool, error)
	// To is the name of a destination.
	To string
}

// withDefaults returns a copy of c with its defaults, apart from those of setWorkDefaults. c may be
// nil.
func (c *Config) withDefaults() Config {
	var out Config
	if c != nil {
		out = *c
	}
	setDefault(&out.DedupeWindow, DefaultDedupeWindow)
	setDefault(&out.Retention, DefaultRetention)
	setDefault(&out.UnverifiedRate, DefaultUnverifiedRate)
	setDefault(&out.Queue, DefaultQueue)
	setDefault(&out.BodyBytes, DefaultBodyBytes)
	setDefault(&out.QuarantineRows, DefaultQuarantineRows)
	if out.Logger == nil {
		out.Logger = slog.Default()
	}
	return out
}

// setWorkDefaults fills in the defaults of handlers, which depend on the database.
func (c *Config) setWorkDefaults(l driver.WorkLimits) {
	setDefault(&c.Workers, l.Transactions)
	setDefault(&c.Batch, DefaultBatch)
	setDefault(&c.HandlerTimeout, l.HandlerTimeout)
	c.Retry.setDefaults()
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// check checks the settings that newSetup does not check.
func (c *Config) check() error {
	var faults []error
	if c.DedupeWindow < 0 || c.Retention < 0 || c.Queue < 0 || c.BodyBytes < 0 || c.QuarantineRows < 0 {
		faults = append(faults, errors.New("dedupe window, retention, queue, body bytes and quarantine rows must not be negative"))
	}
	if err := c.UnverifiedRate.check(); err != nil {
		faults = append(faults, fmt.Errorf("unverified %w", err))
	}
	return errors.Join(faults...)
}

const (
	maxWorkers = 1000
	maxBatch   = 1000
)

// checkWork checks the settings of handlers. handled are the sources that have handlers.
func (c *Config) checkWork(l driver.WorkLimits, handled []string) error {
	var faults []error
	if c.Workers < 1 || c.Workers > maxWorkers {
		faults = append(faults, fmt.Errorf("Config.Workers is %d: it must be 1 to %d", c.Workers, maxWorkers))
	}
	if c.Batch < 1 || c.Batch > maxBatch {
		faults = append(faults, fmt.Errorf("Config.Batch is %d: it must be 1 to %d", c.Batch, maxBatch))
	}
	if c.HandlerTimeout < 0 || c.HandlerTimeout > l.MaxHandlerTimeout {
		faults = append(faults, fmt.Errorf("Config.HandlerTimeout is %s: it must be positive, and at most %s on this database; "+
			"slow work belongs in the outbox", c.HandlerTimeout, l.MaxHandlerTimeout))
	}
	if err := c.Retry.check(); err != nil {
		faults = append(faults, fmt.Errorf("Config.Retry: %w", err))
	}
	for _, name := range handled {
		if len(c.Sources) > 0 && !slices.ContainsFunc(c.Sources, func(s Source) bool { return s.Name == name }) {
			faults = append(faults, fmt.Errorf("there are handlers for the source %q, which is not configured", name))
		}
	}
	return errors.Join(faults...)
}

func (r *Retry) setDefaults() {
	setDefault(&r.Attempts, DefaultSendAttempts)
	setDefault(&r.First, DefaultFirstRetry)
	setDefault(&r.Max, max(DefaultMaxRetry, r.First))
}

func (r Retry) check() error {
	switch {
	case r.Attempts < 0 || r.First < 0 || r.Max < 0:
		return fmt.Errorf("attempts %d, first %s and max %s must not be negative", r.Attempts, r.First, r.Max)
	case r.First > guard.MaxRetryAfter || r.Max > guard.MaxRetryAfter:
		return fmt.Errorf("first %s and max %s must not be above %s", r.First, r.Max, guard.MaxRetryAfter)
	case r.Max < r.First:
		return fmt.Errorf("max %s must not be below first %s", r.Max, r.First)
	}
	return nil
}
