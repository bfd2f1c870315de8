// Package send delivers one message to one destination over HTTP.
//
// A Sender makes exactly one attempt and returns its result. Other packages decide about retries
// and about the message. An attempt succeeds only if the destination answers 2xx and the whole
// answer arrives in time: an answer that breaks off may mean that the work broke off. A retry
// carries the same webhook-id, so the destination can recognise it.
//
// Addresses are checked when they are dialled, after name resolution, so neither the spelling of an
// address nor a name that resolves differently the next time evades the check (see
// Target.AllowPrivate). Redirects are never followed and no proxy is used, because either would
// evade it.
//
// # Connections
//
// On a kept HTTP/1 connection nothing separates the answer to a request from a late second answer to
// the one before. Counted for the next message, a late 200 would lose that message. HTTP/2 separates
// answers. So an HTTP/1 connection serves another request only under these rules, and the first sign
// of a second answer ends reuse for the destination for an hour:
//
//   - The last answer was a complete 2xx with an explicit end, and nothing followed it.
//   - The connection has rested for 5 ms, and a look at the socket shows no bytes.
//   - The first 16 connections to a destination serve one request each, and stay quiet for a second.
//   - A 2xx on a connection that was used before counts only after that stayed quiet for twice the
//     time in which the destination lately answered, from 5 ms to 1 s. Otherwise the attempt failed.
//     A close is quiet only if the answer announced it.
//   - A connection begins no request after 3 s, so that a changed address takes effect.
//
// net/http cannot hold these rules: its transport reads ahead in a goroutine, and offers a connection
// to the next request before anyone can look for bytes behind an answer. It also sends a request with
// an Idempotency-Key again by itself. So package send speaks HTTP/1 itself on connections that it
// keeps, with the parser of net/http. Requests of more than 32 KiB, and those on connections of their
// own, use the transport.
package send

import (
	"context"
	"crypto/x509"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/hookonce/hookonce/internal/dial"
)

// MaxResponse bounds Result.Response in bytes.
const MaxResponse = 4 << 10

// Limits of one attempt.
const (
	maxResponseHeader = 64 << 10
	maxResponseBody   = 64 << 10
	maxResponseType   = 255

	idleTimeout = 60 * time.Second // of a kept HTTP/2 connection
	// Dialling may continue after its attempt has ended, for the next one; this bounds it.
	dialTimeout = 30 * time.Second
	// Without pings, attempt after attempt would use a dead HTTP/2 connection until the kernel
	// closes it.
	pingAfter = 15 * time.Second
)

// Target is the destination of a message.
type Target struct {
	// URL is an http or https URL without a user name or password, see CheckURL.
	URL string
	// Secret signs the message by Standard Webhooks; "" sends it unsigned. After the prefix whsec_
	// the rest is base64; any other text is used as it is.
	Secret string
	// Timeout bounds the attempt from dialling to the last byte of the answer; 0 leaves no time.
	Timeout time.Duration
	// AllowPrivate allows addresses that are not public: private networks, loopback, carrier-grade
	// NAT and others. Link-local addresses and those of cloud metadata services are always refused.
	AllowPrivate bool
	// Name separates the connections of this destination from those of others on the same host.
	Name string
	// Fresh makes a connection for every attempt, also with HTTP/2.
	Fresh bool
}

// Message is a message to send. Send does not change it.
type Message struct {
	// ID is the webhook-id, the same on every attempt: visible ASCII without '.', at most 255
	// bytes.
	ID string
	// Source, EventID and Type describe the event; "" is left out.
	Source, EventID, Type string
	// Attempt counts from 1.
	Attempt int
	// Generation counts replays; 0 is the original.
	Generation int
	// Traceparent is that of the attempt's own span; "" makes one from Header.
	Traceparent string
	// Header holds the sender's headers; see header for those that are passed on.
	Header http.Header
	// Body is sent byte for byte.
	Body []byte
	// Fresh sends this attempt on a new HTTP/1 connection.
	Fresh bool
	// Answered, unless it is nil, is called when the answer is complete but Send goes on, for up to a
	// second, to see whether the connection stays quiet.
	Answered func()
}

// Result is the result of one attempt.
type Result struct {
	// StatusCode is the status of the answer, or 0 without one. A 2xx with an Err is an answer that
	// did not arrive completely.
	StatusCode int
	// RetryAfter is how long the destination asked us to wait, at most 24 h; otherwise 0.
	RetryAfter time.Duration
	// Err is nil only after a success. It matches context.DeadlineExceeded after a timeout,
	// context.Canceled if the caller's context ended, ErrAddress, ErrDoubt, ErrStatus and ErrRequest. Its
	// text never holds the URL's path, query, user or password.
	Err error
	// Permanent says that no attempt can succeed: the destination answered 410.
	Permanent bool
	// Detail is for people, and "" after a success: the beginning of the answer's body without space
	// around it or, without a body, the text of Err. It is at most 4 KiB of valid UTF-8, with unprintable characters escaped.
	// Quotes of the URL's path and query, of the target's secret and of the signature are replaced by
	// "<secret>".
	Detail string
	// Response is the beginning of the body of an answer that is a failure, at most MaxResponse
	// bytes, as received except for the quotes that Detail replaces too. It is nil after a success,
	// and if the answer broke off. ResponseType is its Content-Type, at most 255 bytes of UTF-8.
	Response     []byte
	ResponseType string
}

// The kinds of failure that Result.Err matches, apart from those of context.
var (
	// ErrStatus is an answer outside 2xx.
	ErrStatus = errors.New("answered")
	// ErrAddress is an address that must not be dialled.
	ErrAddress = dial.ErrAddress
	// ErrRequest is an invalid target or message.
	ErrRequest = errors.New("cannot be sent")
	// ErrDoubt is a success that may be a late answer to an earlier request. It never comes with
	// Message.Fresh.
	ErrDoubt = errors.New("the kept connection did not stay quiet after the answer, so this success does not count")
)

// Options configures a Sender. The zero value is usable.
type Options struct {
	// Now is the clock for webhook-timestamp and Retry-After dates. Defaults to time.Now.
	Now func() time.Time
	// RootCAs verifies destinations. Defaults to the system's roots.
	RootCAs *x509.CertPool
	// Barred is called with Target.Name when a destination broke the rules for kept connections: it gets
	// a new connection for every attempt for an hour. reason is a clause about the destination.
	Barred func(destination, reason string)
}

// Sender sends messages. It is safe for concurrent use.
type Sender struct {
	now    func() time.Time
	barred func(destination, reason string)
	rules  rules
	// A connection that was dialled under the lax rule must not be reused under the strict one, so
	// each rule has its own connections.
	public, private reach

	mu    sync.Mutex
	pools map[poolKey]*pool // of all destinations that were ever sent to
	ways  map[way]*request  // the common parts of the requests of a destination
}

// reach is the way to the addresses of one rule.
type reach struct {
	*http.Transport                 // keeps HTTP/2 connections, and no others
	fresh           *http.Transport // keeps none
	dialer          *dialer
}

type poolKey struct {
	name, scheme, host string
	private            bool
}

// New returns a Sender. opts may be nil.
func New(opts *Options) *Sender {
	if opts == nil {
		opts = &Options{}
	}
	s := &Sender{
		now:     opts.Now,
		barred:  opts.Barred,
		rules:   defaultRules,
		public:  newReach(opts.RootCAs, dial.Public),
		private: newReach(opts.RootCAs, dial.Always),
		pools:   make(map[poolKey]*pool),
		ways:    make(map[way]*request),
	}
	if s.now == nil {
		s.now = time.Now
	}
	return s
}

// CloseIdle closes connections without an attempt.
func (s *Sender) CloseIdle() {
	s.public.CloseIdleConnections()
	s.private.CloseIdleConnections()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.pools {
		p.mu.Lock()
		p.closeIdle()
		p.mu.Unlock()
	}
}

func newReach(roots *x509.CertPool, check dial.Check) reach {
	r := reach{newTransport(roots, check), newTransport(roots, check), nil}
	r.fresh.DisableKeepAlives = true
	r.dialer = newDialer(r.Transport)
	return r
}

func newTransport(roots *x509.CertPool, check dial.Check) *http.Transport {
	t := dial.Transport(roots, check, dialTimeout)
	t.MaxResponseHeaderBytes = maxResponseHeader
	// Destinations may share a host, and with a limit a slow destination would block the others.
	// The caller bounds the concurrent attempts of each destination.
	t.MaxConnsPerHost = 0
	t.MaxIdleConnsPerHost = -1 // keep none; HTTP/2 connections are kept elsewhere
	t.IdleConnTimeout = idleTimeout
	t.HTTP2 = &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingAfter}
	return t
}

// Send makes one attempt and returns when it ends: after at most target.Timeout, or earlier if ctx
// ends.
func (s *Sender) Send(ctx context.Context, target *Target, msg *Message) Result {
	req, err := s.request(target, msg)
	if err != nil {
		return failed(0, err)
	}
	req.timeout, req.deadline = target.Timeout, time.Now().Add(target.Timeout)
	reach := &s.public
	if target.AllowPrivate {
		reach = &s.private
	}
	pool := s.pool(target, req.url, reach)
	if mayKeep(target, msg, req.url) {
		if res, ok := s.sendKept(ctx, pool, req, msg.Answered); ok {
			return res
		}
	}
	ctx, cancel := context.WithDeadline(ctx, req.deadline)
	defer cancel()
	transport := reach.Transport
	if target.Fresh || pool.speaksHTTP1() {
		// It sends Connection: close. The side that closes first holds its pair of ports for a minute. That must be
		// the destination, whose port is always the same.
		transport = reach.fresh
	}
	// Uses the transport, because a client follows redirects and puts the whole URL into its
	// errors.
	roundTrip := dial.Twice
	if req.begun {
		roundTrip = dial.Once
	}
	resp, err := roundTrip(transport, req.ofTransport(ctx))
	if err != nil {
		return failed(0, req.describe(ctx, err))
	}
	defer resp.Body.Close()
	pool.learn(resp)
	return s.result(ctx, req, resp)
}

// maxKeptBody bounds the body of a request on a kept connection. The system takes that much at once,
// even if the destination reads nothing before it answers.
const maxKeptBody = 32 << 10

func mayKeep(target *Target, msg *Message, u *url.URL) bool {
	// net/http encodes other names, and leaves out the zone of an address.
	plain := !strings.ContainsFunc(u.Host, func(r rune) bool { return r >= utf8.RuneSelf || r == '%' })
	return canPeek && plain && !target.Fresh && !msg.Fresh && len(msg.Body) <= maxKeptBody
}

func (s *Sender) pool(target *Target, u *url.URL, reach *reach) *pool {
	key := poolKey{target.Name, u.Scheme, u.Host, target.AllowPrivate}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pools[key]
	if p == nil {
		p = &pool{rules: &s.rules, dialer: reach.dialer, http1: u.Scheme == "http", onBarred: func(reason string) {
			if s.barred != nil {
				s.barred(key.name, reason)
			}
		}}
		s.pools[key] = p
	}
	return p
}

// sendKept makes the attempt on a kept connection, or on one that may be kept. If ok is false the
// attempt needs a connection of its own.
func (s *Sender) sendKept(ctx context.Context, p *pool, req *request, answered func()) (res Result, ok bool) {
	x, err := p.exchange(ctx, req)
	if errors.Is(err, errNotKept) {
		return Result{}, false
	}
	if err != nil {
		return failed(0, req.describe(ctx, err)), true
	}
	res = s.result(ctx, req, x.resp)
	if !p.finish(x, res.Err == nil, answered) {
		return failed(res.StatusCode, &Error{Host: req.url.Host, Err: ErrDoubt}), true
	}
	// A late 410 would make the next message dead.
	return res, !res.Permanent || !x.reused
}
