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
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/internal/broker"
)

// Options are the options of a Sender. The zero value is the default.
type Options struct {
	// AllowPrivate allows servers on addresses that are not public, such as those of a private network. The
	// addresses of link-local networks and metadata services are never dialled.
	AllowPrivate bool
}

// Sender is a hookonce.Sender. It connects when it sends first. It is safe for concurrent use.
type Sender struct {
	url     *broker.URL
	options Options
	ping    time.Duration
	link    broker.Link[*connection]
}

// connection is a connection to a server.
type connection struct {
	nc     *nats.Conn
	js     jetstream.JetStream
	closed atomic.Bool // for good, as after refused credentials; nc.IsClosed waits for writes

	mu      sync.Mutex
	refusal error // the last refusal since a success: the reason why a publish gets no answer
}

// creds is the parameter that names a file with credentials.
const creds = "creds"

// pingInterval is the time between questions whether a server still lives. The third one without an answer ends the
// connection.
const pingInterval = 5 * time.Second

var form = broker.Form{
	Schemes: map[string]string{"nats": "4222", "tls": "4222"},
	Example: "nats://host:4222/subject",
	Files:   []string{creds},
}

// New returns a Sender for nats://[USER:PASSWORD@|TOKEN@]HOST[:PORT][,HOST[:PORT]...]/SUBJECT[?creds=FILE&ca=FILE].
// creds names a file with the credentials of a NATS user, and ca one with the authorities that sign the servers'
// certificates, in PEM form. New checks both, and each connect reads them again. tls:// instead of
// nats:// insists on TLS. New does not connect. The error quotes nothing of raw but the name of such a file.
func New(raw string, options Options) (*Sender, error) {
	u, err := form.Parse(raw)
	if err != nil {
		return nil, err
	}
	if !validSubject(u.Path) {
		return nil, errors.New("the path of the URL must be a subject without wildcards: nats://host:4222/orders.created")
	}
	if err := u.CheckFiles(); err != nil {
		return nil, err
	}
	s := &Sender{url: u, options: options, ping: pingInterval}
	if u.Get(creds) != "" {
		if _, err := s.credentials(); err != nil {
			return nil, err
		}
	}
	s.link = broker.Link[*connection]{
		Dial:  s.dial,
		Ended: func(c *connection) bool { return c.closed.Load() },
		Close: func(c *connection) { c.nc.Close() },
	}
	return s, nil
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
func (s *Sender) Address() string { return s.url.Address() }

// String returns the result of Address: a Sender that is printed shows no credentials.
func (s *Sender) String() string { return s.Address() }

// GoString returns the result of Address.
func (s *Sender) GoString() string { return s.Address() }

// Equal reports whether other sends to the same subject with the same credentials.
func (s *Sender) Equal(other hookonce.Sender) bool {
	o, ok := other.(*Sender)
	return ok && s.url.Equal(o.url) && s.options == o.options
}

// Send publishes m and waits for the confirmation of the stream.
func (s *Sender) Send(ctx context.Context, m *hookonce.Outgoing) error {
	msg := &nats.Msg{Subject: s.url.Path, Header: make(nats.Header, len(m.HTTPHeader)+1), Data: m.Body}
	for name, values := range m.HTTPHeader {
		// NATS obeys its own headers: Nats-Rollup, for one, empties the stream. Only this package may set them.
		if !strings.HasPrefix(strings.ToLower(name), "nats-") {
			msg.Header[name] = values
		}
	}
	c, err := s.link.Get(ctx)
	if err != nil {
		return explain(err, s.url.Path)
	}
	if _, err := c.js.PublishMsg(ctx, msg, jetstream.WithMsgID(m.ID)); err != nil {
		if refusal := c.refused(); refusal != nil && ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", refusal, err)
		}
		return explain(err, s.url.Path)
	}
	c.setRefusal(nil)
	return nil
}

// Close closes the connection. A later Send makes another one.
func (s *Sender) Close() error {
	s.link.Drop()
	return nil
}

func (s *Sender) dial() (*connection, error) {
	c := new(connection)
	options := []nats.Option{
		nats.Name("hookonce"), nats.Timeout(broker.ConnectTimeout), nats.MaxReconnects(-1),
		// A server that has gone without a word is left for another one.
		nats.PingInterval(s.ping), nats.MaxPingsOutstanding(2),
		nats.SetCustomDialer(broker.BoundedDialer{Dialer: broker.Dialer(s.options.AllowPrivate)}),
		nats.ClosedHandler(func(*nats.Conn) { c.closed.Store(true) }),
		// Without a connection a publish fails at once: nothing waits in memory.
		nats.ReconnectBufSize(-1),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { c.setRefusal(err) }),
		nats.ReconnectHandler(func(*nats.Conn) { c.setRefusal(nil) }),
	}
	if s.url.Get(creds) != "" {
		options = append(options, nats.UserJWT(s.token, s.sign))
	}
	if s.url.User != nil {
		// Not in the URLs of the servers: errors quote those.
		if password, ok := s.url.User.Password(); ok {
			options = append(options, nats.UserInfo(s.url.User.Username(), password))
		} else {
			options = append(options, nats.Token(s.url.User.Username()))
		}
	}
	if s.url.Scheme == "tls" || s.url.Get(broker.CA) != "" {
		config, err := s.url.TLS()
		if err != nil {
			return nil, err
		}
		options = append(options, nats.Secure(config))
	}
	servers := make([]string, len(s.url.Hosts))
	for i, host := range s.url.Hosts {
		servers[i] = s.url.Scheme + "://" + host
	}
	var err error
	if c.nc, err = nats.Connect(strings.Join(servers, ","), options...); err != nil {
		return nil, err
	}
	c.js, err = jetstream.New(c.nc)
	return c, err
}

// credentials reads the file of creds. Without a look at it, the server would get any other file as the token.
func (s *Sender) credentials() (*nats.Options, error) {
	data, err := s.url.ReadFile(creds)
	if err != nil {
		return nil, err
	}
	read := new(nats.Options)
	err = nats.UserCredentialBytes(data)(read)
	if err == nil {
		_, err = read.SignatureCB(nil)
	}
	if err == nil {
		if token, _ := read.UserJWT(); strings.Count(token, ".") != 2 || strings.ContainsFunc(token, unicode.IsSpace) {
			err = errors.New("it holds no token")
		}
	}
	if err != nil { // of nkeys: it quotes nothing
		return nil, fmt.Errorf("the file of the URL's creds holds no credentials of a NATS user, as nsc writes them: %w", err)
	}
	return read, nil
}

// token returns the token of the file of creds, for each connect.
func (s *Sender) token() (string, error) {
	read, err := s.credentials()
	if err != nil {
		return "", err
	}
	return read.UserJWT()
}

// sign signs the nonce of a server with the key in the file of creds.
func (s *Sender) sign(nonce []byte) ([]byte, error) {
	read, err := s.credentials()
	if err != nil {
		return nil, err
	}
	return read.SignatureCB(nonce)
}

func (c *connection) refused() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refusal
}

func (c *connection) setRefusal(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refusal = err
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
	case errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(err.Error(), "Subscription"):
		return fmt.Errorf("NATS does not let this user receive confirmations; allow it to subscribe to _INBOX.>: %w", err)
	case errors.Is(err, nats.ErrPermissionViolation):
		return fmt.Errorf("NATS does not let this user publish; allow subject %q: %w", subject, err)
	case errors.Is(err, nats.ErrNoServers), errors.Is(err, nats.ErrReconnectBufExceeded), errors.Is(err, nats.ErrConnectionClosed):
		return fmt.Errorf("not connected to NATS; check that the server is up and its address is right: %w", err)
	}
	if explained := broker.Explain(err); explained != nil {
		return explained
	}
	return fmt.Errorf("NATS did not confirm the message: %w", err)
}
