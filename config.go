package hookonce

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/defaults"
	"github.com/hookonce/hookonce/internal/guard"
	"github.com/hookonce/hookonce/internal/limit"
	"github.com/hookonce/hookonce/observe"
	"github.com/hookonce/hookonce/provider"
	"github.com/hookonce/hookonce/verify"
)

// Config is the configuration of an Inbox. The zero value of every field is usable. New reads a
// Config once; later changes have no effect.
type Config struct {
	Sources      []Source
	Destinations []Destination
	Routes       []Route

	// DedupeWindow is how long the identity of an event stays claimed, after the event was last delivered, processed,
	// sent, skipped, given up or changed by an operator. Defaults to 30 days.
	DedupeWindow time.Duration
	// Retention is how long bodies and headers of finished events are kept. Defaults to 30 days.
	Retention time.Duration

	// UnverifiedRate bounds the unverified requests per address that are answered 401; beyond it
	// the answer is 429. It never holds back a request that verifies. Defaults to 100 a second.
	UnverifiedRate Rate
	// TrustedProxies are the networks of proxies whose X-Forwarded-For names the client, for limits by address and the
	// log: the last address in it outside of these networks. Otherwise the client is the address of the connection.
	TrustedProxies []netip.Prefix
	// Queue is the number of deliveries that may wait for their claim; beyond it the answer is 503
	// to a delivery of the source with the most of them. Defaults to 8,192.
	Queue int
	// BodyBytes bounds the memory of all bodies, from their first byte to their answer; beyond it the
	// answer is 503. One source gets three quarters of it at most. Defaults to 256 MiB.
	BodyBytes int64
	// QuarantineRows is the number of malformed requests kept per source; the oldest go first. Defaults to 10,000.
	QuarantineRows int

	// Workers is the number of handler transactions that this process runs at a time, and as many again for Inline
	// handlers; at most 1,000, and fewer on a small pool of connections. Defaults to 4 on PostgreSQL and to 1 on SQLite,
	// which has one writer. With handlers for several sources, each leaves one worker to the others.
	Workers int
	// Batch is the largest number of events in one transaction; docs/library.md says how a batch runs.
	// At most 1,000; defaults to 200.
	Batch int
	// HandlerTimeout bounds one run of a handler. Defaults to 30 s on PostgreSQL, with a maximum of
	// 55 s, and to 1 s on SQLite, with a maximum of 30 s: a handler there holds the only writer.
	HandlerTimeout time.Duration
	Retry          Retry // of failed handlers

	// AllowUnsafe names the settings of the database that may lose acknowledged events: "fsync" and "full_page_writes"
	// on PostgreSQL, "synchronous", "journal_mode" and "sqlite_version" on SQLite. While another one is weak, Run
	// returns an UnsafeError when it starts, Ready returns one too, and deliveries are answered 503.
	AllowUnsafe []string

	// OnDead names a destination that is told of events that are dead in the handlers of this Inbox,
	// as Destination.OnDead. Source.OnDead names another one.
	OnDead string

	Logger   *slog.Logger      // defaults to slog.Default()
	Observer *observe.Observer // gets metrics; nil observes nothing
	// Tracer makes spans; nil makes none. The traceparent of a delivery is passed on in either case.
	Tracer observe.Tracer
}

// Source is one configured sender. It has the URL /webhooks/{Name}.
type Source struct {
	Name     string // [a-z0-9], followed by up to 62 of [a-z0-9_-]
	Provider provider.Name
	// Scheme names a scheme of the provider other than its default. A weak scheme, or one that checks nothing, is used
	// only if it is named here; the exception is the provider None, whose name says it.
	Scheme string
	// Signature describes how the sender signs, for provider.HMAC. For provider.Token it locates the
	// secret; provider.TokenScheme makes it.
	Signature *verify.Scheme
	// Secrets returns the active secrets; any one of them may match. For basic authentication a
	// secret is user:password. It is nil if Key is set, if the provider publishes its keys, if
	// nothing is signed, or if the provider hands the secret over in a handshake.
	Secrets Secrets
	// Key is the sender's public key, for schemes with public keys: PEM, a certificate, a JWK or
	// JWKS, or the provider's raw form; see verify.Verifier.ParseKey. Without Key, keys that the
	// provider publishes are fetched from its own hosts, and cached. With Key nothing is fetched.
	Key string
	URL string // the public URL of this source, if the signature covers it
	// Params are further inputs of the scheme and the handshakes, such as the id of a webhook; see
	// verify.Scheme.Params, provider.Spec.Params and `hookonce providers NAME`.
	Params map[string]string
	Event  provider.EventRules // overrides, field by field, the provider's locations
	// Tolerance is how far a signed timestamp may lie from now. Defaults to that of the scheme, 5 minutes for most.
	Tolerance time.Duration

	// MaxBody is the largest body in bytes, also inflated. Defaults to the provider's limit, or else 1 MiB.
	MaxBody int64
	// AckTimeout bounds the time from the last byte of the body to the answer. Defaults to 0.8 of
	// the provider's own timeout, and at most 3 s.
	AckTimeout time.Duration
	Rate       Rate // of verified requests; the zero value sets no bound
	Ack        *Ack // the answer to an accepted event; defaults to the one that the provider asks for, if any
	// AckKey is your own private key, a secret. It signs every 2xx answer for providers that verify answers
	// (provider.Spec.AckSignature); without it they may count every delivery as failed. It is PEM (PKCS #8 or PKCS #1),
	// the base64 of the same in DER, or a JWK; not encrypted, and at least 2048 bits for RSA.
	AckKey string

	Malformed  Malformed
	Redelivery Redelivery
	// ReplayGuard answers a body that was seen before under another event id as a duplicate. It is
	// for sources whose event id is not signed.
	ReplayGuard bool
	// ContentEncodings lists the accepted compressed encodings; only "gzip" is known. The signature
	// covers the bytes as sent.
	ContentEncodings []string
	Consume          Consume
	// Order is the order in which the function take gives events to SQL consumers. It needs ConsumeSQL, PostgreSQL, and
	// a source that neither a route nor a handler of this process takes from.
	Order *Order
	// OnDead names a destination that is told of events of this source that are dead themselves: in a
	// handler, in an SQL consumer, or because a route was undecided. Otherwise see Destination.OnDead.
	// Defaults to Config.OnDead for a source with handlers.
	OnDead     string
	Inline     bool // runs the handler before the answer, in the transaction of the claim
	DeadLetter DeadLetterPolicy
	Stale      []StaleRule // the first one that matches an event's type applies
	// Refetch fetches the current state of the event's object from its source of truth, before the handler runs and
	// outside its transaction. The handler finds the state in Event.Current. Return nil, nil if there is nothing to
	// fetch; an error is a failed attempt, see Permanent and RetryAfter.
	Refetch        func(ctx context.Context, ev *Event) ([]byte, error)
	RefetchTimeout time.Duration // of one call of Refetch; defaults to 10 s

	Reconcile *Reconcile // nil: Engine.Reconcile does not read the provider's API

	// DedupeWindow and Retention override those of Config. DedupeWindow defaults to at least the time that the provider
	// retries. The longest window of all processes of the last seven days holds.
	DedupeWindow time.Duration
	Retention    time.Duration
}

// Reconcile is how Engine.Reconcile reads the events of a source from the API of its provider, which
// provider.Spec.List describes.
type Reconcile struct {
	Key string // of the API, a secret; it needs no right but to read that list
	// Params are the parameters of the list, such as the number of the webhook; see provider.List.Params.
	Params map[string]string
	// Types are patterns of the event types to look for, as in Route.Types; empty: all that a route or a handler takes.
	Types []string
	// Delay is how old an event must be: a younger one may still arrive by itself. Defaults to 10 minutes; at most a day.
	Delay time.Duration
	// Every makes Run look at the list so often, from a minute to a day; 0: never. The first time it begins at that
	// moment, and later where it left off. One process at a time looks.
	Every time.Duration
	// URL replaces scheme and host of the API, such as https://ghe.example.com, which may be a private address. It
	// gets the key, so it must be https, or http on this machine.
	URL string
}

// Secrets returns the active secrets of a source for one request.
type Secrets interface {
	// Secrets is called for every request of the source before the request is verified, so it must not trust anything in
	// r. It must be fast and safe for concurrent use, and must not read the body. ctx ends with the time for the answer,
	// not with the client. An error, or an empty list, is answered 503: the fault is ours, not the sender's.
	Secrets(ctx context.Context, r *http.Request) ([]string, error)
}

// SecretsFunc is a function as Secrets, for example one secret per tenant.
type SecretsFunc func(ctx context.Context, r *http.Request) ([]string, error)

// Secrets calls f.
func (f SecretsFunc) Secrets(ctx context.Context, r *http.Request) ([]string, error) {
	return f(ctx, r)
}

// StaticSecrets returns Secrets that never change. New checks them.
func StaticSecrets(secrets ...string) Secrets { return staticSecrets(secrets) }

type staticSecrets []string

func (s staticSecrets) Secrets(context.Context, *http.Request) ([]string, error) { return s, nil }

// Ack is the answer that a sender expects for an accepted event.
type Ack struct {
	Status      int    // 2xx; 0 means 200
	ContentType string // "" means text/plain; charset=utf-8
	Body        string
}

// Malformed sets the answer to a verified request without a usable event, and to an event that the
// database refuses. The request is kept in the quarantine in either case. "" means 400 for the request,
// and 503 for the event.
type Malformed string

const (
	malformedReject     Malformed = "reject"     // 400, or 503 if the database refuses the event; the default
	MalformedQuarantine Malformed = "quarantine" // 200
)

// Redelivery sets the effect of a delivery of a dead event. "" reopens the event, with full attempts.
type Redelivery string

const (
	redeliveryReopen Redelivery = "reopen" // a new generation with full attempts; the default
	RedeliveryAck    Redelivery = "ack"    // the event is only acknowledged
)

// Consume sets the consumer of events that no handler of this process takes. "" means the routes alone.
type Consume string

const (
	consumeRoutes Consume = "routes" // the routes alone; the default
	ConsumeSQL    Consume = "sql"    // an application takes them by SQL, or with its own handlers
)

// StaleRule says which events can be stale. An event is stale if its version is lower than the
// highest applied version of the same object; equal versions are applied. For messages, a sent
// version counts as applied, separately for each route.
// Versions compare as numbers, as times or as text; see docs/order.md.
type StaleRule struct {
	// Types are event types; a '*' stands for any text. None means all.
	Types []string
	// Key is the location of the object's id, and Version that of its version, as "body:data.object.id", or "item:id" in
	// a batch; "query:" is not allowed, because the query is not stored. An event that lacks one of them is applied. So
	// is one with an unreadable value, or a version of more than about 250 digits or bytes; then a log line says so.
	Key, Version string
}

// DeadLetterPolicy sets how many failures make an event of an Inline handler a dead letter. The zero
// value is AfterAttempts(5).
type DeadLetterPolicy struct{ attempts int }

// AfterAttempts answers the sender 500 until the n-th failure, which files the dead letter and is
// answered 200. It panics if n is less than 1.
func AfterAttempts(n int) DeadLetterPolicy {
	if n < 1 {
		panic("hookonce: AfterAttempts needs at least 1")
	}
	return DeadLetterPolicy{n}
}

// Immediate makes the first failure a dead letter.
var Immediate = AfterAttempts(1)

// Destination is the receiver of messages: an HTTP endpoint, or a Sender.
type Destination struct {
	Name   string
	URL    string // http or https; "" with a Sender
	Sender Sender // sends instead of HTTP; URL, Secret, AllowPrivate and FreshConnections are then errors
	// Secret signs messages as Standard Webhooks; "" sends unsigned. After the prefix whsec_ it is
	// base64; any other text is used as it is.
	Secret string
	// Timeout bounds one attempt, from dialling to the last byte of the answer. Defaults to 15 s; an hour at most.
	Timeout     time.Duration
	Retry       Retry
	Concurrency int  // messages that one process sends at a time; defaults to 16
	Rate        Rate // of the attempts of one process; the zero value sets no bound
	// FreshConnections makes a connection for every attempt. Otherwise connections are kept for a few
	// seconds, unless the destination answers more than it was asked; see docs/destinations.md.
	FreshConnections bool
	// OnDead names another destination that is told of this one's dead letters, and of events that a route
	// to this one was undecided about: one message a minute while some die, see docs/destinations.md. Two
	// destinations may name each other.
	OnDead string
	// AllowPrivate permits addresses that are not public, such as private networks, loopback and
	// carrier-grade NAT. New refuses a URL with such an address, or with localhost, without it; the address
	// of another name is checked when it is dialled. Link-local and metadata addresses are always refused.
	AllowPrivate bool
}

// Retry is the schedule of a destination, or of handlers: attempt n+1 follows attempt n after a
// random time of up to First·2ⁿ⁻¹, and at most Max. A due attempt starts within a second.
type Retry struct {
	Attempts int           // in all; defaults to 20
	First    time.Duration // defaults to 10 s
	Max      time.Duration // defaults to 12 h; a year at most
}

// Rate is a count per time. The zero value means the default of a field, or else no limit.
type Rate struct {
	Count int
	Per   time.Duration
}

// bucket returns a full token bucket of this rate.
func (r Rate) bucket() *limit.Bucket { return limit.New(r.Count, r.Per) }

// Route makes messages for a destination out of matching events.
type Route struct {
	Name    string
	Sources []string // their names; none means all
	// Types are the matching event types; a '*' stands for any text. None means all.
	Types []string
	// Where decides on an event that matches Sources and Types; nil means yes. An error or a panic
	// counts as no, and is logged. It must be fast and safe for concurrent use.
	Where func(ev *Event) (bool, error)
	To    string // the name of a destination
	Order *Order // nil sends messages as they come
}

// Order is the order of a route: of each object it sends one message at a time, the lowest version first,
// and none that is older than a sent one. Other objects never wait. While a message is retried, the later
// ones about its object wait. It takes the place of the stale rules of the sources.
//
// As an option of Handle, it orders the runs of a handler in the same way.
type Order struct {
	// Key is the location of the object's id, and Version that of its version, as in a StaleRule. Without
	// Version the order is that of the claims, and no message is stale. A message that lacks one of them is
	// sent without order, and counted.
	Key, Version string
	OnDead       DeadOrder // defaults to DeadHold
}

// handlerSet is what an Engine knows of its handlers. The zero value has none.
type handlerSet struct {
	sources  []string                              // that have handlers, sorted
	types    map[string][]string                   // by source
	orders   map[string][]*Order                   // by source
	orderFor func(source, eventType string) *Order // nil for a handler without one
}

// DeadOrder says what becomes of the messages behind a dead letter.
type DeadOrder string

const (
	// DeadHold: they wait until it is replayed and sent, or discarded.
	DeadHold DeadOrder = "hold"
	// DeadPass: they are sent. A replay of the dead letter is then stale, unless no later version was sent.
	DeadPass DeadOrder = "pass"
)

// withDefaults returns a copy of c with its defaults, apart from those of setWorkDefaults. c may be
// nil.
func (c *Config) withDefaults() Config {
	var out Config
	if c != nil {
		out = *c
	}
	setDefault(&out.DedupeWindow, defaults.DedupeWindow)
	setDefault(&out.Retention, defaults.Retention)
	setDefault(&out.UnverifiedRate, Rate(defaults.UnverifiedRate))
	setDefault(&out.Queue, defaults.Queue)
	setDefault(&out.BodyBytes, defaults.BodyBytes)
	setDefault(&out.QuarantineRows, defaults.QuarantineRows)
	if out.Logger == nil {
		out.Logger = slog.Default()
	}
	out.Logger = guard.Logger(out.Logger)
	return out
}

// setWorkDefaults fills in the defaults of handlers, which depend on the database.
func (c *Config) setWorkDefaults(l driver.WorkLimits) {
	setDefault(&c.Workers, l.Transactions)
	setDefault(&c.Batch, defaults.Batch)
	setDefault(&c.HandlerTimeout, l.HandlerTimeout)
	c.Retry.setDefaults()
	if most := l.MaxTransactions; most > 0 && c.Workers > most {
		c.Logger.Warn("Config.Workers is larger than the store's pool allows: give the pool more connections, or use fewer workers",
			slog.Int("workers", c.Workers), slog.Int("using", most))
		c.Workers = most
	}
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (r *Retry) setDefaults() {
	setDefault(&r.Attempts, defaults.SendAttempts)
	setDefault(&r.First, defaults.FirstRetry)
	setDefault(&r.Max, max(defaults.MaxRetry, r.First))
}
