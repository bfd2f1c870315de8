// Package send delivers one message to one destination over HTTP.
//
// A Sender makes exactly one attempt and tells what came of it. When to try
// again, and what an outcome means for the message, is decided elsewhere. An
// attempt succeeds only if the destination answered 2xx and its answer arrived
// whole within the time: an answer that breaks off may belong to work that
// broke off, and a repeat carries the same webhook-id, so that the destination
// can tell.
//
// Addresses are checked when they are dialled, after name resolution, so that
// neither a spelling of an address nor a name that changes its mind leads past
// the check (see Target.AllowPrivate). Redirects are never followed and no
// proxy is used, because both would.
//
// A connection of HTTP/1 serves one attempt. On a kept one nothing tells the
// answer to a request from what the destination, or a proxy, still had to say
// about the request before it: a late second answer of 200 would be taken for
// the next message. Nor does net/http send a request once only there: it repeats
// what has an Idempotency-Key when a kept connection breaks. HTTP/2 tells
// answers apart, so its connections are kept.
package send

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/hookonce/hookonce/internal/dial"
)

// Limits of one attempt.
const (
	// DefaultTimeout is the Timeout of a Target that names none.
	DefaultTimeout = 15 * time.Second

	maxResponseHeader = 64 << 10
	maxResponseBody   = 64 << 10
	maxRetryAfter     = 24 * time.Hour

	idleTimeout = 60 * time.Second // of a kept HTTP/2 connection
	// Dialling may outlive the attempt that began it, for the benefit of the
	// next one; these bound it.
	dialTimeout = 30 * time.Second
	// A dead HTTP/2 connection would otherwise be handed to attempt after
	// attempt until the kernel gives it up.
	pingAfter = 15 * time.Second
)

// Target is where a message goes.
type Target struct {
	// URL is an http or https URL without a user name or password, see CheckURL.
	URL string
	// Secret signs what is sent, as Standard Webhooks; "" sends unsigned. With
	// the prefix whsec_ the rest is base64; any other text is used as it is.
	Secret string
	// Timeout bounds the attempt from dialling to the last byte of the answer.
	// Defaults to 15 s.
	Timeout time.Duration
	// AllowPrivate permits addresses that are not public: private networks,
	// loopback, carrier-grade NAT and the like. Link-local addresses and those
	// of cloud metadata services are refused in any case.
	AllowPrivate bool
}

// Message is what is sent. Send does not change it.
type Message struct {
	// ID is the webhook-id: the same on every attempt, visible ASCII without
	// a '.', at most 255 bytes.
	ID string
	// Source, EventID and Type say where the message came from; "" is left out.
	Source, EventID, Type string
	// Attempt counts from 1.
	Attempt int
	// Generation counts replays; 0 is the original.
	Generation int
	// Header is the sender's; what of it is passed on is said at header.
	Header http.Header
	// Body is sent byte for byte.
	Body []byte
}

// Result is what came of one attempt.
type Result struct {
	// StatusCode is the status of the answer, 0 if there was none. A 2xx with
	// an Err is an answer that did not arrive whole.
	StatusCode int
	// RetryAfter is how long the destination asked to be left alone, at most
	// 24 h; 0 if it did not ask.
	RetryAfter time.Duration
	// Err is nil after a success and only then. It matches
	// context.DeadlineExceeded after a timeout, context.Canceled if the
	// caller's context ended, ErrAddress, ErrStatus and ErrRequest. Its text
	// never holds the URL's path, query, user or password.
	Err error
	// Permanent says that no attempt will ever succeed: the destination
	// answered 410.
	Permanent bool
	// Detail is for people: the beginning of the answer's body or, if there is
	// none, the text of Err. At most 4 KiB of valid UTF-8 in which everything
	// unprintable is escaped, and what an answer quotes of the URL's path and
	// query is "<secret>".
	Detail string
}

// The kinds of failure that Result.Err matches besides those of context.
var (
	// ErrStatus is an answer outside 2xx.
	ErrStatus = errors.New("answered")
	// ErrAddress is an address that may not be dialled.
	ErrAddress = dial.ErrAddress
	// ErrRequest is a target or message that cannot be sent as it stands.
	ErrRequest = errors.New("cannot be sent")
)

// Options configures a Sender. The zero value is usable.
type Options struct {
	// Now is the clock of webhook-timestamp and of Retry-After dates. Defaults
	// to time.Now.
	Now func() time.Time
	// RootCAs verifies destinations. Defaults to the system's.
	RootCAs *x509.CertPool
}

// Sender sends messages. It is safe for concurrent use; its HTTP/2 connections
// are shared by all that it sends.
type Sender struct {
	now func() time.Time
	// Connections that were dialled under the lax rule must not be reused
	// under the strict one, so each rule has a pool of its own.
	public, private *http.Transport
}

// New returns a Sender. Without options, nil, it has the defaults.
func New(opts *Options) *Sender {
	if opts == nil {
		opts = &Options{}
	}
	s := &Sender{
		now:     opts.Now,
		public:  newTransport(opts.RootCAs, dial.Public),
		private: newTransport(opts.RootCAs, dial.Always),
	}
	if s.now == nil {
		s.now = time.Now
	}
	return s
}

// CloseIdle closes the connections that no attempt is using.
func (s *Sender) CloseIdle() {
	s.public.CloseIdleConnections()
	s.private.CloseIdleConnections()
}

func newTransport(roots *x509.CertPool, check dial.Check) *http.Transport {
	t := dial.Transport(roots, check, dialTimeout)
	t.MaxResponseHeaderBytes = maxResponseHeader
	// Destinations may share a host: a limit would let a slow one keep the
	// others waiting. Whoever sends bounds what each has under way.
	t.MaxConnsPerHost = 0
	t.MaxIdleConnsPerHost = -1 // keep none; HTTP/2 connections are kept elsewhere
	t.IdleConnTimeout = idleTimeout
	t.HTTP2 = &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingAfter}
	return t
}

// Send makes one attempt and waits for its end: at most the target's Timeout,
// less if ctx ends before.
func (s *Sender) Send(ctx context.Context, target *Target, msg *Message) Result {
	timeout := target.Timeout
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()

	req, err := s.request(ctx, target, msg)
	if err != nil {
		return failed(0, err)
	}
	transport := s.public
	if target.AllowPrivate {
		transport = s.private
	}
	// The transport and not a client: a client follows redirects and puts the
	// whole URL into its errors.
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return failed(0, describe(ctx, req, timeout, err))
	}
	defer resp.Body.Close()
	return s.result(ctx, req, timeout, resp)
}

func (s *Sender) request(ctx context.Context, target *Target, msg *Message) (*http.Request, error) {
	u, err := parseURL(target.URL)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	if err := checkID(msg.ID); err != nil {
		return nil, err
	}
	h := header(msg)
	if err := s.sign(h, target.Secret, msg); err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://destination.invalid", bytes.NewReader(msg.Body))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	req.URL, req.Host, req.Header = u, u.Host, h
	// Whoever closes first keeps the pair of ports for a minute: let it be the
	// destination, whose own port is always the same. Over TLS it may be HTTP/2.
	req.Close = u.Scheme == "http"
	return req, nil
}

// CheckURL returns an error if nothing can be sent to raw: it must be an http or
// https URL with a host, and without a user name or password, because who sends
// is told by the signature and credentials would end up wherever URLs are shown.
// The error never quotes raw.
func CheckURL(raw string) error {
	_, err := parseURL(raw)
	return err
}

// parseURL leaves the URL out of its errors: any part of it may be a secret.
func parseURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return nil, errors.New("the destination's URL is malformed")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("the destination's URL must begin with http:// or https://")
	case u.Hostname() == "":
		return nil, errors.New("the destination's URL has no host")
	case u.User != nil:
		return nil, errors.New("the destination's URL must not hold a user name or password")
	}
	return u, nil
}
