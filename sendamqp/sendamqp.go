// Package sendamqp sends the messages of a destination to RabbitMQ, over AMQP 0-9-1.
//
// A message counts as sent when the broker has confirmed it, and a queue has taken it. Its id is the message-id.
// RabbitMQ stores a message that is sent again once more, so consumers recognise repetitions by the message-id. The
// headers and body are those of a request over HTTP.
package sendamqp

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

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
	vhost   string
	target  target
	link    broker.Link[*connection]
}

// target is where messages are published. The default exchange, "", routes to the queue named by the key.
type target struct{ exchange, key string }

// The parameters of a URL.
const (
	queueName    = "queue"
	exchangeName = "exchange"
	routingKey   = "routing_key"
)

var form = broker.Form{
	Schemes: map[string]string{"amqp": "5672", "amqps": "5671"},
	Example: "amqp://user:password@host:5672/vhost?queue=orders",
	Query:   []string{queueName, exchangeName, routingKey},
	Shown:   []string{queueName, exchangeName, routingKey},
}

// maxShort is the length of AMQP's short strings, such as names and keys.
const maxShort = 255

// New returns a Sender for amqp://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]...][/VHOST]?queue=QUEUE, or with
// ?exchange=EXCHANGE&routing_key=KEY in place of the queue, where the key may be missing. VHOST is
// percent-encoded; without it, it is "/". Without USER it is guest. ca=FILE names a file with the authorities that sign
// the servers' certificates, in PEM form. New checks that it can read the file, and each connect reads it again. amqps://
// means TLS. New does not connect. The error quotes nothing of raw but the name of that file.
func New(raw string, options Options) (*Sender, error) {
	u, err := form.Parse(raw)
	if err != nil {
		return nil, err
	}
	queue, exchange, key := u.Get(queueName), u.Get(exchangeName), u.Get(routingKey)
	switch {
	case (queue == "") == (exchange == ""):
		return nil, errors.New("the URL must name a queue or an exchange: amqp://host/vhost?queue=orders, or ?exchange=events&routing_key=orders.created")
	case queue != "" && key != "":
		return nil, errors.New("the URL has a routing_key beside queue; the routing key of a queue is its name")
	case u.Scheme == "amqp" && u.Get(broker.CA) != "":
		return nil, errors.New("the URL has ca, which is for amqps://")
	case max(len(queue), len(exchange), len(key), len(u.Path)) > maxShort:
		return nil, errors.New("a vhost, queue, exchange or routing_key of the URL is longer than 255 bytes")
	}
	if err := u.CheckFiles(); err != nil {
		return nil, err
	}
	s := &Sender{url: u, options: options, vhost: u.Path, target: target{exchange, queue + key}}
	if s.vhost == "" {
		s.vhost = "/"
	}
	s.link = broker.Link[*connection]{
		Dial:  s.dial,
		Ended: func(c *connection) bool { return c.IsClosed() },
		Close: func(c *connection) { _ = c.CloseDeadline(time.Now().Add(broker.ConnectTimeout)) },
	}
	return s, nil
}

// Address returns the URL without credentials.
func (s *Sender) Address() string { return s.url.Address() }

// String returns the result of Address: a Sender that is printed shows no credentials.
func (s *Sender) String() string { return s.Address() }

// GoString returns the result of Address.
func (s *Sender) GoString() string { return s.Address() }

// Equal reports whether other sends to the same queue or exchange with the same credentials.
func (s *Sender) Equal(other hookonce.Sender) bool {
	o, ok := other.(*Sender)
	return ok && s.url.Equal(o.url) && s.options == o.options
}

// Send publishes m and waits for the confirmation of the broker.
func (s *Sender) Send(ctx context.Context, m *hookonce.Outgoing) error {
	c, err := s.link.Get(ctx)
	if err != nil {
		return s.explain(err)
	}
	if err := c.publish(ctx, s.target, publishing(m)); err != nil {
		return s.explain(err)
	}
	return nil
}

// Close closes the connection. A later Send makes another one.
func (s *Sender) Close() error {
	s.link.Drop()
	return nil
}

// dial connects to one of the hosts.
func (s *Sender) dial() (c *connection, err error) {
	for _, i := range rand.Perm(len(s.url.Hosts)) {
		if c, err = s.dialHost(s.url.Hosts[i]); err == nil {
			break
		}
	}
	return c, err
}

func (s *Sender) dialHost(host string) (*connection, error) {
	user, password := "guest", "guest" // as the AMQP URI specification has it
	if s.url.User != nil {
		user = s.url.User.Username()
		password, _ = s.url.User.Password()
	}
	config := amqp.Config{
		Vhost:      s.vhost,
		SASL:       []amqp.Authentication{&amqp.PlainAuth{Username: user, Password: password}},
		Properties: amqp.NewConnectionProperties(),
		Dial: func(network, address string) (net.Conn, error) {
			conn, err := broker.BoundedDialer{Dialer: broker.Dialer(s.options.AllowPrivate)}.Dial(network, address)
			if err != nil {
				return nil, err
			}
			// For the handshakes; the library takes it away after them.
			return conn, conn.SetDeadline(time.Now().Add(broker.ConnectTimeout))
		},
	}
	config.Properties.SetClientConnectionName("hookonce")
	if s.url.Scheme == "amqps" {
		var err error
		if config.TLSClientConfig, err = s.url.TLS(); err != nil {
			return nil, err
		}
	}
	conn, err := amqp.DialConfig((&url.URL{Scheme: s.url.Scheme, Host: host}).String(), config)
	if err != nil {
		return nil, err
	}
	return newConnection(conn), nil
}

// publishing returns m in AMQP's form. Names of headers are in lower case, as in HTTP/2.
func publishing(m *hookonce.Outgoing) amqp.Publishing {
	headers := make(amqp.Table, len(m.HTTPHeader))
	for name, values := range m.HTTPHeader {
		name = strings.ToLower(name)
		if len(name) <= maxShort && !obeyed(name) {
			headers[name] = strings.Join(values, ", ")
		}
	}
	out := amqp.Publishing{MessageId: m.ID, DeliveryMode: amqp.Persistent, Headers: headers, Body: m.Body}
	if text := m.HTTPHeader.Get("Content-Type"); len(text) <= maxShort {
		out.ContentType = text
	}
	if text := m.HTTPHeader.Get("Content-Encoding"); len(text) <= maxShort {
		out.ContentEncoding = text
	}
	return out
}

// obeyed reports whether RabbitMQ or one of its plugins obeys a header: CC and BCC add routing keys, x-delay delays,
// a forged x-death or x-received-from makes a message look like one that runs in circles. Only the broker may set
// them.
func obeyed(name string) bool {
	for _, prefix := range []string{
		"x-death", "x-first-death", "x-last-death", "x-received-from", "x-shovelled", "x-delay", "x-delivery-count",
		"x-acquired-count", "x-stream-", "x-opt-", "x-routing-", "x-basic-", "x-exchange", "x-match",
	} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return name == "cc" || name == "bcc"
}

// explain adds what to do. No attempt can help a message that the broker refuses for itself.
func (s *Sender) explain(err error) error {
	var told *amqp.Error
	_ = errors.As(err, &told)
	switch {
	case errors.Is(err, errTooLarge), told != nil && told.Code == amqp.PreconditionFailed:
		return hookonce.Permanent(fmt.Errorf("RabbitMQ does not take this message; raise max_message_size or frame_max if it is too large, and replay: %w", err))
	case errors.Is(err, errUnroutable) && s.target.exchange == "":
		return fmt.Errorf("there is no queue %q in vhost %q; create it: %w", s.target.key, s.vhost, err)
	case errors.Is(err, errUnroutable):
		return fmt.Errorf("exchange %q routes key %q to no queue; bind one: %w", s.target.exchange, s.target.key, err)
	case told != nil && told.Code == amqp.NotFound && s.target.exchange != "":
		return fmt.Errorf("exchange %q does not exist in vhost %q; create it: %w", s.target.exchange, s.vhost, err)
	case errors.Is(err, amqp.ErrChannelMax):
		return fmt.Errorf("RabbitMQ allows no more channels; raise channel_max or lower the destination's concurrency: %w", err)
	case errors.Is(err, amqp.ErrCredentials), errors.Is(err, amqp.ErrSASL):
		return fmt.Errorf("RabbitMQ refused the user name or password of the URL; renew them: %w", err)
	case told != nil && told.Code == amqp.NotAllowed, errors.Is(err, amqp.ErrVhost):
		return fmt.Errorf("RabbitMQ does not open vhost %q to this user; create it, or give permission: %w", s.vhost, err)
	case told != nil && told.Code == amqp.AccessRefused:
		return fmt.Errorf("RabbitMQ refused this user; check its password, and that it may write to exchange %q: %w", s.target.exchange, err)
	}
	if explained := broker.Explain(err); explained != nil {
		return explained
	}
	if told != nil && (told.Code == amqp.FrameError || told.Code == amqp.ConnectionForced) {
		return fmt.Errorf("the connection to RabbitMQ ended before it confirmed the message: %w", err)
	}
	return fmt.Errorf("RabbitMQ did not confirm the message: %w", err)
}
