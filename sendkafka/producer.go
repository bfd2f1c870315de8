package sendkafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/internal/broker"
)

// producer is an idempotent producer of Kafka with the records that it has not finished.
type producer struct {
	client *kgo.Client

	// alone is held by a record that must have a batch to itself.
	alone sync.RWMutex

	mu         sync.Mutex
	unfinished map[string]*production // by the message's id
	connecting error                  // why the last attempt to connect failed; nil after a success
}

// production is a record that the producer has. err may be read once done is closed.
type production struct {
	done chan struct{}
	err  error
}

func newProducer(opts []kgo.Opt) (*producer, error) {
	p := &producer{unfinished: make(map[string]*production)}
	client, err := kgo.NewClient(append(opts, kgo.WithHooks(p))...)
	p.client = client
	return p, err
}

// OnBrokerConnect implements kgo.HookBrokerConnect: produce errors only tell that the time is over.
func (p *producer) OnBrokerConnect(_ kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	if errors.Is(err, context.Canceled) || errors.Is(err, kgo.ErrClientClosed) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.connecting = err
}

// produce returns nil once Kafka has r. The batch with r may be too large though r is not; then r gets its own.
func (p *producer) produce(ctx context.Context, id string, r *kgo.Record) error {
	p.alone.RLock()
	err := p.produceOnce(ctx, id, r)
	p.alone.RUnlock()
	if errors.Is(err, kerr.MessageTooLarge) {
		p.alone.Lock()
		defer p.alone.Unlock()
		err = p.produceOnce(ctx, id, r)
	}
	return err
}

// produceOnce produces r, or waits for the record of an earlier attempt with the same id whose outcome is not known
// yet: the producer repeats that one until it knows, and Kafka stores it once.
func (p *producer) produceOnce(ctx context.Context, id string, r *kgo.Record) error {
	p.mu.Lock()
	attempt := p.unfinished[id]
	if attempt == nil {
		attempt = &production{done: make(chan struct{})}
		p.unfinished[id] = attempt
		p.mu.Unlock()
		p.client.Produce(ctx, r, func(_ *kgo.Record, err error) {
			p.mu.Lock()
			delete(p.unfinished, id)
			p.mu.Unlock()
			attempt.err = err
			close(attempt.done)
		})
	} else {
		p.mu.Unlock()
	}
	var err error
	select {
	case <-attempt.done:
		err = attempt.err
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.connecting != nil {
			return fmt.Errorf("%w: %w", p.connecting, err)
		}
	}
	return err
}

// dial connects to a broker that the URL or another broker names.
func (s *Sender) dial(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := broker.Dialer(s.options.AllowPrivate)
	if s.url.Scheme == "kafka" {
		return dialer.DialContext(ctx, network, address)
	}
	config, err := s.url.TLS()
	if err != nil {
		return nil, err
	}
	return (&tls.Dialer{NetDialer: dialer, Config: config}).DialContext(ctx, network, address)
}

// explain adds what to do. No attempt can help a message that is too large.
func (s *Sender) explain(err error) error {
	switch {
	case errors.Is(err, kerr.MessageTooLarge), errors.Is(err, kerr.RecordListTooLarge):
		return hookonce.Permanent(fmt.Errorf("the message is too large for Kafka; raise max.message.bytes of the topic and max_message_bytes of the URL, and replay: %w", err))
	case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.UnknownTopicID):
		return fmt.Errorf("topic %q does not exist; create it: %w", s.url.Path, err)
	case errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.ClusterAuthorizationFailed):
		return fmt.Errorf("the broker does not let this user write; allow Write on topic %q, and before Kafka 3.0 IdempotentWrite on the cluster: %w", s.url.Path, err)
	case errors.Is(err, kerr.SaslAuthenticationFailed), errors.Is(err, kerr.UnsupportedSaslMechanism), errors.Is(err, kerr.IllegalSaslState):
		return fmt.Errorf("the broker refused the user name or password of the URL, or its sasl; renew them: %w", err)
	}
	if explained := broker.Explain(err); explained != nil {
		return explained
	}
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("the broker closed the connection; check the user name, the password and sasl of the URL, and whether the broker wants kafkas://: %w", err)
	}
	return fmt.Errorf("the brokers did not confirm the message: %w", err)
}
