// Package sendnats sends the messages of a destination to a NATS JetStream.
//
// A message counts as sent when the stream has confirmed that it stored it. Its id is the
// Nats-Msg-Id, so a stream stores a message that is sent again only once, within its duplicate
// window. The header and body are those of a request over HTTP.
package sendnats

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/internal/send"
)

const connectTimeout = 5 * time.Second

// Sender is a hookonce.Sender. It connects when it sends first. It is safe for concurrent use.
type Sender struct {
	server  *url.URL // with credentials
	subject string
	creds   string // path of a file, or ""

	mu      sync.Mutex
	current *connection // connected or being connected; nil before the first Send, and after Close
}

// connection is a connection to the server. Its fields may be read once ready is closed.
type connection struct {
	ready chan struct{}
	nc    *nats.Conn
	js    jetstream.JetStream
	err   error

	mu      sync.Mutex
	refusal error // what the server said about a publish it did not answer
}

// New returns a Sender for nats://[USER:PASSWORD@|TOKEN@]HOST[:PORT]/SUBJECT[?creds=FILE], where FILE
// holds a NATS user's credentials, and is read on each connect. tls:// instead of nats:// insists on
// TLS. New does not connect. The error never quotes raw.
func New(raw string) (*Sender, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return nil, errors.New("this is not a URL; write it as nats://host:4222/subject")
	case u.Scheme != "nats" && u.Scheme != "tls":
		return nil, errors.New("the URL must begin with nats:// or tls://")
	case !send.ValidHost(u.Hostname()):
		return nil, errors.New("the host of the URL is neither a name nor an address")
	case strings.Contains(raw, "#"):
		return nil, errors.New("the URL has a fragment (#...), which is never used")
	}
	subject := strings.TrimPrefix(u.Path, "/")
	if !validSubject(subject) {
		return nil, errors.New("the path of the URL must be a subject without wildcards: nats://host:4222/orders.created")
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, errors.New("the query of the URL cannot be read")
	}
	creds := query.Get("creds")
	delete(query, "creds")
	if len(query) > 0 {
		return nil, errors.New("the query of the URL may hold only creds=FILE")
	}
	return &Sender{server: &url.URL{Scheme: u.Scheme, User: u.User, Host: u.Host}, subject: subject, creds: creds}, nil
}

func validSubject(s string) bool {
	for token := range strings.SplitSeq(s, ".") {
		if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '*' || r == '>' }) {
			return false
		}
	}
	return !strings.HasPrefix(s, "$")
}

// Address returns the URL without credentials.
func (s *Sender) Address() string {
	return s.server.Scheme + "://" + s.server.Host + "/" + s.subject
}

// String returns the result of Address: a Sender that is printed shows no credentials.
func (s *Sender) String() string { return s.Address() }

// GoString returns the result of Address.
func (s *Sender) GoString() string { return s.Address() }

// Equal reports whether other sends to the same subject with the same credentials.
func (s *Sender) Equal(other hookonce.Sender) bool {
	o, ok := other.(*Sender)
	return ok && s.server.String() == o.server.String() && s.subject == o.subject && s.creds == o.creds
}

// Send publishes m and waits for the confirmation of the stream.
func (s *Sender) Send(ctx context.Context, m *hookonce.Outgoing) error {
	msg := &nats.Msg{Subject: s.subject, Header: make(nats.Header, len(m.HTTPHeader)+1), Data: m.Body}
	for name, values := range m.HTTPHeader {
		// NATS obeys its own headers: Nats-Rollup, for one, empties the stream. Only this package may set them.
		if !strings.HasPrefix(strings.ToLower(name), "nats-") {
			msg.Header[name] = values
		}
	}
	c, err := s.connect(ctx)
	if err != nil {
		return explain(err, s.subject)
	}
	if _, err := c.js.PublishMsg(ctx, msg, jetstream.WithMsgID(m.ID)); err != nil {
		if refusal := c.takeRefusal(); refusal != nil && ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", refusal, err)
		}
		return explain(err, s.subject)
	}
	return nil
}

// Close closes the connection. A later Send makes another one.
func (s *Sender) Close() error {
	s.mu.Lock()
	c := s.current
	s.current = nil
	s.mu.Unlock()
	if c != nil {
		go func() {
			<-c.ready
			if c.nc != nil {
				c.nc.Close()
			}
		}()
	}
	return nil
}

// connect returns the connection, and makes it if there is none. Concurrent calls share one attempt.
func (s *Sender) connect(ctx context.Context) (*connection, error) {
	s.mu.Lock()
	c := s.current
	if c == nil || c.ended() {
		c = &connection{ready: make(chan struct{})}
		s.current = c
		go c.dial(s.server.String(), s.creds)
	}
	s.mu.Unlock()
	select {
	case <-c.ready:
		return c, c.err
	case <-ctx.Done():
		return nil, fmt.Errorf("not connected in time: %w", ctx.Err())
	}
}

// ended reports whether the connection failed or was closed for good, as after refused credentials.
func (c *connection) ended() bool {
	select {
	case <-c.ready:
		return c.err != nil || c.nc.IsClosed()
	default:
		return false
	}
}

func (c *connection) dial(server, creds string) {
	defer close(c.ready)
	options := []nats.Option{
		nats.Name("hookonce"), nats.Timeout(connectTimeout), nats.MaxReconnects(-1),
		// Without a connection a publish fails at once: nothing waits in memory.
		nats.ReconnectBufSize(-1),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.refusal = err
		}),
	}
	if creds != "" {
		options = append(options, nats.UserCredentials(creds))
	}
	if c.nc, c.err = nats.Connect(server, options...); c.err != nil {
		return
	}
	c.js, c.err = jetstream.New(c.nc)
}

func (c *connection) takeRefusal() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.refusal
	c.refusal = nil
	return err
}

const codeTooLarge = 10054 // JetStream: "message size exceeds maximum allowed"

// explain adds what to do. No attempt can help a message that is too large.
func explain(err error, subject string) error {
	var api *jetstream.APIError
	switch {
	case errors.Is(err, nats.ErrMaxPayload), errors.As(err, &api) && api.ErrorCode == codeTooLarge:
		return hookonce.Permanent(fmt.Errorf("the message is too large for NATS; raise max_payload or the stream's max_msg_size, and replay: %w", err))
	case errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, nats.ErrNoResponders):
		return fmt.Errorf("no stream takes subject %q; create a stream with this subject, on a server with JetStream: %w", subject, err)
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAuthRevoked):
		return fmt.Errorf("NATS refused the credentials; renew those in the URL or the creds file: %w", err)
	case errors.Is(err, nats.ErrPermissionViolation):
		return fmt.Errorf("NATS does not let this user publish; allow subject %q: %w", subject, err)
	case errors.Is(err, nats.ErrNoServers), errors.Is(err, nats.ErrReconnectBufExceeded), errors.Is(err, nats.ErrConnectionClosed):
		return fmt.Errorf("not connected to NATS; check that the server is up and its address is right: %w", err)
	}
	return fmt.Errorf("NATS did not confirm the message: %w", err)
}
