package sendkafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/internal/broker"
)

// producer is an idempotent producer of Kafka with the records that it has not finished.
type producer struct {
	client *kgo.Client

	// alone makes, once, a second client that gives each record a batch to itself.
	alone func() (*kgo.Client, error)

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
	opts = append(slices.Clip(opts), kgo.WithHooks(p))
	p.alone = sync.OnceValues(func() (*kgo.Client, error) {
		return kgo.NewClient(append(slices.Clip(opts), kgo.MaxBufferedRecords(1))...)
	})
	client, err := kgo.NewClient(opts...)
	p.client = client
	return p, err
}

func (p *producer) close() {
	p.client.Close()
	// If there is no second client yet, a late produce must find a closed one.
	if alone, err := p.alone(); err == nil {
		alone.Close()
	}
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

// errNoID tells that Kafka gave a producer no id. kgo keeps such an answer for good, so the producer is of no more use.
var errNoID = errors.New("the producer got no id from Kafka")

// produce returns nil once Kafka has r. Kafka may refuse a batch as too large though each of its records fits; then
// produce sends r again, through the second client, which no other record has to wait for.
func (p *producer) produce(ctx context.Context, id string, r *kgo.Record) error {
	err := p.produceOnce(ctx, p.client, id, r)
	if !errors.Is(err, kerr.MessageTooLarge) {
		return err
	}
	alone, err := p.alone()
	if err != nil {
		return err
	}
	return p.produceOnce(ctx, alone, id, r)
}

// produceOnce makes one attempt with a client, and explains its failure. It repeats an attempt that another message
// spoiled: when the context of a record ends, kgo fails the records behind it in the partition with that error, too.
func (p *producer) produceOnce(ctx context.Context, client *kgo.Client, id string, r *kgo.Record) error {
	err := p.attempt(ctx, client, id, r)
	if isOver(err) && ctx.Err() == nil {
		err = p.attempt(ctx, client, id, r)
	}
	if isOver(err) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.connecting != nil {
			return fmt.Errorf("%w: %w", p.connecting, err)
		}
	}
	if hasNoID(ctx, client, err) {
		return fmt.Errorf("%w: %w", errNoID, err)
	}
	return err
}

// isOver reports whether err is that of a context that ended.
func isOver(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// hasNoID reports whether a record failed with err because Kafka refuses the client an id. kgo asks for an id again
// only after an error that it may retry.
func hasNoID(ctx context.Context, client *kgo.Client, err error) bool {
	var refused *kerr.Error
	if !errors.As(err, &refused) || refused.Retriable {
		return false
	}
	_, _, kept := client.ProducerID(ctx)
	return errors.Is(kept, refused)
}

// attempt produces r, or waits for the record of an earlier attempt with the same id whose outcome is not known yet:
// the producer repeats that one until it knows, and Kafka stores it once.
func (p *producer) attempt(ctx context.Context, client *kgo.Client, id string, r *kgo.Record) error {
	p.mu.Lock()
	attempt := p.unfinished[id]
	if attempt == nil {
		attempt = &production{done: make(chan struct{})}
		p.unfinished[id] = attempt
		p.mu.Unlock()
		client.Produce(ctx, r, func(_ *kgo.Record, err error) {
			p.mu.Lock()
			delete(p.unfinished, id)
			p.mu.Unlock()
			attempt.err = err
			close(attempt.done)
		})
	} else {
		p.mu.Unlock()
	}
	select {
	case <-attempt.done:
		return attempt.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// sizeOf returns the size of a batch with r alone, uncompressed, which is what max_message_bytes bounds.
func sizeOf(r *kgo.Record) int {
	prefixed := func(n int) int { return kbin.VarintLen(int32(n)) + n }
	const fixed = 3 // the attributes and two differences from the first record, which are 0
	n := fixed + prefixed(len(r.Key)) + prefixed(len(r.Value)) + kbin.VarintLen(int32(len(r.Headers)))
	for _, h := range r.Headers {
		n += prefixed(len(h.Key)) + prefixed(len(h.Value))
	}
	const header = 61 // of a batch
	return header + prefixed(n)
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
