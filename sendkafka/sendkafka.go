// Package sendkafka sends the messages of a destination to a topic of Kafka.
//
// A message counts as sent when all in-sync replicas of its partition have stored it (acks=all). Each Sender has one
// idempotent producer, so Kafka stores a record once that the producer itself repeats. A message that is sent again
// later, or by another process, is stored again: its header webhook-id tells that it is the same. The headers and body
// are those of a request over HTTP.
package sendkafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/internal/broker"
	"github.com/hookonce/hookonce/internal/locate"
)

// Options are the options of a Sender. The zero value is the default.
type Options struct {
	// Key is the location of a record's key in the message, such as body:data.object.id or header:Name. The key of a
	// message without such a value, and of all messages by default, is the id of its event.
	Key string
	// AllowPrivate allows brokers on addresses that are not public, such as those of a private network. The
	// addresses of link-local networks and metadata services are never dialled.
	AllowPrivate bool
}

// Sender is a hookonce.Sender. It connects when it sends first. It is safe for concurrent use.
type Sender struct {
	url     *broker.URL
	options Options
	key     *locate.Expr // nil for the event's id
	most    int          // max_message_bytes
	opts    []kgo.Opt

	mu       sync.Mutex
	producer *producer // nil before the first Send, and after Close
}

// The parameters of a URL.
const (
	mechanism = "sasl"
	maxBytes  = "max_message_bytes"
)

// DefaultMaxMessageBytes is max_message_bytes without the parameter. It fits what Kafka's brokers take by default.
const DefaultMaxMessageBytes = 1_000_012

// The permitted values of max_message_bytes.
const (
	leastBytes = 512
	mostBytes  = 64 << 20
)

var form = broker.Form{
	Schemes: map[string]string{"kafka": "9092", "kafkas": "9092"},
	Example: "kafka://host:9092/topic",
	Query:   []string{mechanism, maxBytes},
}

// New returns a Sender for kafka://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]...]/TOPIC[?sasl=MECHANISM&max_message_bytes=N].
// MECHANISM is plain, the default, scram-sha-256 or scram-sha-512. A message over N bytes is dead at once; set it to
// the max.message.bytes of the topic if that is not Kafka's default. kafkas:// means TLS; ca=FILE names a file with the
// authorities that sign the brokers' certificates, in PEM form. New checks that it can read the file, and each connect
// reads it again. New does not connect. The error quotes nothing of raw but the name of that file.
func New(raw string, options Options) (*Sender, error) {
	u, err := form.Parse(raw)
	if err != nil {
		return nil, err
	}
	switch {
	case !validTopic(u.Path):
		return nil, errors.New("the path of the URL must be a topic of letters, digits, '.', '_' and '-': kafka://host:9092/orders")
	case u.Scheme == "kafka" && u.Get(broker.CA) != "":
		return nil, errors.New("the URL has ca, which is for kafkas://")
	}
	if err := u.CheckFiles(); err != nil {
		return nil, err
	}
	s := &Sender{url: u, options: options}
	if options.Key != "" {
		if s.key, err = parseKey(options.Key); err != nil {
			return nil, fmt.Errorf("key: %w", err)
		}
	}
	bytes, err := strconv.ParseInt(cmp.Or(u.Get(maxBytes), strconv.Itoa(DefaultMaxMessageBytes)), 10, 32)
	if err != nil || bytes < leastBytes || bytes > mostBytes {
		return nil, fmt.Errorf("max_message_bytes of the URL must be a number from %d to %d", leastBytes, mostBytes)
	}
	login, err := s.login()
	if err != nil {
		return nil, err
	}
	s.most = int(bytes)
	const length = 4 // of a batch, which the client counts in and Kafka does not
	s.opts = append(login,
		kgo.ClientID("hookonce"), kgo.SeedBrokers(u.Hosts...), kgo.DefaultProduceTopic(u.Path), kgo.Dialer(s.dial),
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerBatchMaxBytes(int32(bytes)+length), kgo.ProducerLinger(0),
		kgo.UnknownTopicRetries(0), kgo.MetadataMinAge(time.Second), kgo.DisableClientMetrics(),
	)
	return s, nil
}

func validTopic(s string) bool {
	const longest = 249
	return s != "" && s != "." && s != ".." && len(s) <= longest && !strings.ContainsFunc(s, func(r rune) bool {
		isLetter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		return !isLetter && (r < '0' || r > '9') && r != '.' && r != '_' && r != '-'
	})
}

// CheckKey returns an error unless key may be the Key of Options.
func CheckKey(key string) error {
	_, err := parseKey(key)
	return err
}

func parseKey(key string) (*locate.Expr, error) {
	e, err := locate.Parse(key)
	if err != nil {
		return nil, err
	}
	for _, ref := range e.Refs() {
		if k := ref.Kind; k != locate.Header && k != locate.Body && k != locate.Form || ref.Each {
			return nil, fmt.Errorf("%q is not stored with a message: use a location of a header:, the body: or a form: field", ref)
		}
	}
	return e, nil
}

// login returns the options for SASL.
func (s *Sender) login() ([]kgo.Opt, error) {
	asked := s.url.Get(mechanism)
	if s.url.User == nil {
		if asked != "" {
			return nil, errors.New("the URL has sasl, but no user name and password")
		}
		return nil, nil
	}
	user := s.url.User.Username()
	password, _ := s.url.User.Password()
	switch asked {
	case "", "plain":
		return []kgo.Opt{kgo.SASL(plain.Auth{User: user, Pass: password}.AsMechanism())}, nil
	case "scram-sha-256":
		return []kgo.Opt{kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha256Mechanism())}, nil
	case "scram-sha-512":
		return []kgo.Opt{kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha512Mechanism())}, nil
	}
	return nil, errors.New("sasl of the URL must be plain, scram-sha-256 or scram-sha-512")
}

// Address returns the URL without credentials.
func (s *Sender) Address() string { return s.url.Address() }

// MaxMessageBytes returns the size over which a message is dead at once. Its key and headers count, too.
func (s *Sender) MaxMessageBytes() int { return s.most }

// String returns the result of Address: a Sender that is printed shows no credentials.
func (s *Sender) String() string { return s.Address() }

// GoString returns the result of Address.
func (s *Sender) GoString() string { return s.Address() }

// Equal reports whether other sends to the same topic with the same credentials and keys.
func (s *Sender) Equal(other hookonce.Sender) bool {
	o, ok := other.(*Sender)
	return ok && s.url.Equal(o.url) && s.options == o.options
}

// Send produces m and waits until all in-sync replicas have it.
func (s *Sender) Send(ctx context.Context, m *hookonce.Outgoing) error {
	r := s.record(m)
	if size := sizeOf(r); size > s.most {
		return s.explain(fmt.Errorf("%w: it has %d bytes", kerr.MessageTooLarge, size))
	}
	p, err := s.get()
	if err != nil {
		return s.explain(err)
	}
	if err := p.produce(ctx, m.ID, r); err != nil {
		if errors.Is(err, errNoID) {
			s.drop(p) // the next Send asks for an id again
		}
		return s.explain(err)
	}
	return nil
}

// Close closes the producer. A later Send makes another one.
func (s *Sender) Close() error {
	s.mu.Lock()
	p := s.producer
	s.mu.Unlock()
	if p != nil {
		s.drop(p)
	}
	return nil
}

// drop closes p without waiting for that, unless another call did.
func (s *Sender) drop(p *producer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.producer == p {
		s.producer = nil
		go p.close()
	}
}

func (s *Sender) get() (*producer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.producer == nil {
		p, err := newProducer(s.opts)
		if err != nil {
			return nil, err
		}
		s.producer = p
	}
	return s.producer, nil
}

// record returns m in Kafka's form. Names of headers are in lower case, as in HTTP/2.
func (s *Sender) record(m *hookonce.Outgoing) *kgo.Record {
	r := &kgo.Record{Key: []byte(s.keyOf(m)), Value: m.Body}
	for name, values := range m.HTTPHeader {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: strings.ToLower(name), Value: []byte(strings.Join(values, ", "))})
	}
	return r
}

// keyOf returns the value at the location of keys. Without one it is the event's id, and the message's if no event
// caused it.
func (s *Sender) keyOf(m *hookonce.Outgoing) string {
	if s.key != nil {
		if value, err := s.key.Eval(&locate.Input{Header: m.Header, Body: m.Body}); err == nil {
			return value.Shown()
		}
	}
	return cmp.Or(m.EventID, m.ID)
}
