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
// An HTTP/1 connection serves one attempt. On a kept connection, nothing separates the answer to a
// request from late bytes of the answer before it: a late second 200 would count for the next
// message. Also, net/http sends a request again if a kept connection breaks and the request has an
// Idempotency-Key. HTTP/2 separates answers, so its connections are kept.
package send

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/hookonce/hookonce/internal/dial"
)

// MaxResponse bounds Result.Response in bytes.
const MaxResponse = 4 << 10

// Limits of one attempt.
const (
	// DefaultTimeout is the default of Target.Timeout.
	DefaultTimeout = 15 * time.Second

	maxResponseHeader = 64 << 10
	maxResponseBody   = 64 << 10
	maxResponseType   = 255
	maxRetryAfter     = 24 * time.Hour

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
	// Timeout bounds the attempt from dialling to the last byte of the answer.
	// Defaults to 15 s.
	Timeout time.Duration
	// AllowPrivate allows addresses that are not public: private networks, loopback, carrier-grade
	// NAT and others. Link-local addresses and those of cloud metadata services are always refused.
	AllowPrivate bool
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
}

// Result is the result of one attempt.
type Result struct {
	// StatusCode is the status of the answer, or 0 without one. A 2xx with an Err is an answer that
	// did not arrive completely.
	StatusCode int
	// RetryAfter is how long the destination asked us to wait, at most 24 h; otherwise 0.
	RetryAfter time.Duration
	// Err is nil only after a success. It matches context.DeadlineExceeded after a timeout,
	// context.Canceled if the caller's context ended, ErrAddress, ErrStatus and ErrRequest. Its
	// text never holds the URL's path, query, user or password.
	Err error
	// Permanent says that no attempt can succeed: the destination answered 410.
	Permanent bool
	// Detail is for people: the beginning of the answer's body without space around it or, without a
	// body, the text of Err. It is at most 4 KiB of valid UTF-8, with unprintable characters escaped.
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
)

// Options configures a Sender. The zero value is usable.
type Options struct {
	// Now is the clock for webhook-timestamp and Retry-After dates. Defaults to time.Now.
	Now func() time.Time
	// RootCAs verifies destinations. Defaults to the system's roots.
	RootCAs *x509.CertPool
}

// Sender sends messages. It is safe for concurrent use. All its messages share its HTTP/2
// connections.
type Sender struct {
	now func() time.Time
	// A connection that was dialled under the lax rule must not be reused under the strict one, so
	// each rule has its own pool.
	public, private *http.Transport
}

// New returns a Sender. opts may be nil.
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

// CloseIdle closes connections without an attempt.
func (s *Sender) CloseIdle() {
	s.public.CloseIdleConnections()
	s.private.CloseIdleConnections()
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
	// Uses the transport, because a client follows redirects and puts the whole URL into its
	// errors.
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return failed(0, describe(ctx, req, timeout, err))
	}
	defer resp.Body.Close()
	return s.result(ctx, target, req, timeout, resp)
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
	// The side that closes first holds its pair of ports for a minute. That must be the
	// destination, whose port is always the same. Over TLS the connection may be HTTP/2.
	req.Close = u.Scheme == "http"
	return req, nil
}
