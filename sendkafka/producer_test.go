package sendkafka_test

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/internal/guard"
	"github.com/hookonce/hookonce/internal/test/eventually"
)

// TestLargeBatch sends messages at a time that fit, while two of them in a batch do not. Kafka refuses that batch.
func TestLargeBatch(t *testing.T) {
	t.Parallel()
	var r replies
	c := newCluster(t, kfake.ListenFn(r.listen), kfake.BrokerConfigs(map[string]string{"message.max.bytes": "2000"}))
	sender := newSender(t, url(c, "", "/orders"))
	random := func(id string, size int) *hookonce.Outgoing {
		m := outgoing(id)
		m.Body = incompressible(size)
		return m
	}
	// The first request waits, so that the next messages gather behind it.
	if err := sender.Send(t.Context(), random("0", 1000)); err != nil {
		t.Fatal(err)
	}
	held := r.holdAll()
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			if err := sender.Send(t.Context(), random(strconv.Itoa(i), 1500)); err != nil {
				t.Error(err)
			}
		})
	}
	<-held.waiting
	r.hold.Store(nil)
	close(held.until)
	wg.Wait()
	if err := sender.Send(t.Context(), random("x", 3000)); !guard.IsPermanent(err) {
		t.Errorf("too large: %v", err)
	}
	if got := stored(c); got != 41 {
		t.Errorf("%d records, want 41", got)
	}
}

// TestLargest sends messages around max_message_bytes. While a reply is late, one that is too large fails at once, and
// holds up no other.
func TestLargest(t *testing.T) {
	t.Parallel()
	var r replies
	c := newCluster(t, kfake.ListenFn(r.listen), kfake.BrokerConfigs(map[string]string{"message.max.bytes": "20000"}))
	sender := newSender(t, url(c, "", "/orders?max_message_bytes=20000"))
	const rest = 132 // of the batch: all but the body
	ofSize := func(id string, size int) *hookonce.Outgoing {
		m := outgoing(id)
		m.Body = incompressible(size - rest)
		return m
	}
	for _, id := range []string{"0", "1"} { // the first one before the client knows what the broker supports
		if err := sender.Send(t.Context(), ofSize(id, 20000)); err != nil {
			t.Fatal(err)
		}
	}
	// Kafka counts as the Sender does.
	if err := newSender(t, url(c, "", "/orders")).Send(t.Context(), ofSize("x", 20001)); !guard.IsPermanent(err) {
		t.Errorf("too large for Kafka: %v", err)
	}
	held := r.holdAll()
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := sender.Send(t.Context(), outgoing("2")); err != nil {
			t.Error(err)
		}
	})
	<-held.waiting
	refused := make(chan error, 1)
	go func() { refused <- sender.Send(t.Context(), ofSize("x", 20001)) }()
	err := eventually.Receive(t, "a message that is too large waits for no other", refused)
	if !guard.IsPermanent(err) || !strings.Contains(err.Error(), "20001 bytes") {
		t.Errorf("too large: %v", err)
	}
	r.hold.Store(nil)
	close(held.until)
	wg.Wait()
}

// TestRefusedBatch has Kafka refuse a batch, and then not answer the request with a record of that batch alone. Other
// messages go on, and the attempt ends with its context.
func TestRefusedBatch(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	sender := newSender(t, url(c, "", "/orders"))
	waiting, until := make(chan struct{}), make(chan struct{})
	requests := 0
	c.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		requests++
		switch requests {
		case 1:
			c.KeepControl()
			return refusal(req.(*kmsg.ProduceRequest), kerr.MessageTooLarge), nil, true
		case 2:
			c.SleepControl(func() { close(waiting); <-until })
		}
		return nil, nil, false
	})
	ctx, cancel := context.WithCancel(eventually.Context(t))
	defer cancel()
	refused := make(chan error, 1)
	go func() { refused <- sender.Send(ctx, outgoing("refused")) }()
	<-waiting
	if err := sender.Send(eventually.Context(t), outgoing("other")); err != nil {
		t.Errorf("another message: %v", err)
	}
	cancel()
	if err := <-refused; err == nil || guard.IsPermanent(err) {
		t.Errorf("without an answer: %v", err)
	}
	// The next attempt waits for the record of that one.
	waits := newWatched(t.Context())
	go func() { refused <- sender.Send(waits, outgoing("refused")) }()
	<-waits.asked
	close(until)
	if err := <-refused; err != nil {
		t.Error(err)
	}
	if got := stored(c); got != 2 {
		t.Errorf("%d records, want 2", got)
	}
}

// watched is a context that tells when somebody waits for its end.
type watched struct {
	context.Context

	asked chan struct{}
	once  sync.Once
}

func newWatched(ctx context.Context) *watched {
	return &watched{Context: ctx, asked: make(chan struct{})}
}

func (w *watched) Done() <-chan struct{} {
	w.once.Do(func() { close(w.asked) })
	return w.Context.Done()
}

// refusal answers req with an error for each partition.
func refusal(req *kmsg.ProduceRequest, err *kerr.Error) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.ProduceResponse)
	for _, topic := range req.Topics {
		t := kmsg.NewProduceResponseTopic()
		t.Topic, t.TopicID = topic.Topic, topic.TopicID
		for _, partition := range topic.Partitions {
			p := kmsg.NewProduceResponseTopicPartition()
			p.Partition, p.ErrorCode = partition.Partition, err.Code
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp
}
