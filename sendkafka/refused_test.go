package sendkafka_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/hookonce/hookonce/internal/test/eventually"
)

// TestRefusedID has Kafka refuse the id of a producer once. The next message goes out: the operator may have allowed
// it by then.
func TestRefusedID(t *testing.T) {
	t.Parallel()
	for _, reason := range []*kerr.Error{kerr.ClusterAuthorizationFailed, kerr.UnknownServerError} {
		c := newCluster(t)
		c.ControlKey(int16(kmsg.InitProducerID), func(req kmsg.Request) (kmsg.Response, error, bool) {
			resp := req.ResponseKind().(*kmsg.InitProducerIDResponse)
			resp.ErrorCode = reason.Code
			return resp, nil, true
		})
		sender := newSender(t, url(c, "", "/orders"))
		if err := sender.Send(t.Context(), outgoing("1")); err == nil || !strings.Contains(err.Error(), reason.Message) {
			t.Errorf("%s: error %v", reason.Message, err)
		}
		if err := sender.Send(t.Context(), outgoing("1")); err != nil {
			t.Errorf("after %s: %v", reason.Message, err)
		}
		if got := stored(c); got != 1 {
			t.Errorf("%d records, want 1", got)
		}
	}
}

// TestRefusedRecord has Kafka refuse a record for itself. The Sender keeps its producer, whose id lets Kafka recognise
// the repetitions of other records.
func TestRefusedRecord(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	var ids atomic.Int64
	c.ControlKey(int16(kmsg.InitProducerID), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		ids.Add(1)
		return nil, nil, false
	})
	c.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		return refusal(req.(*kmsg.ProduceRequest), kerr.TopicAuthorizationFailed), nil, true
	})
	sender := newSender(t, url(c, "", "/orders"))
	if err := sender.Send(t.Context(), outgoing("1")); err == nil || !strings.Contains(err.Error(), "allow Write") {
		t.Errorf("error %v", err)
	}
	if err := sender.Send(t.Context(), outgoing("1")); err != nil {
		t.Error(err)
	}
	if got := ids.Load(); got != 1 {
		t.Errorf("asked for %d ids, want 1", got)
	}
}

// TestEndedNeighbour ends the context of a message while another one waits behind it. Only the first one fails.
func TestEndedNeighbour(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	waiting, until := make(chan struct{}), make(chan struct{})
	wait := sync.OnceFunc(func() { close(waiting) })
	c.ControlKey(int16(kmsg.InitProducerID), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.SleepControl(func() { wait(); <-until })
		return nil, nil, false
	})
	sender := newSender(t, url(c, "", "/orders"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { first <- sender.Send(ctx, outgoing("1")) }()
	<-waiting
	go func() { second <- sender.Send(t.Context(), outgoing("2")) }()
	eventually.True(t, "two records are buffered", func() bool { return sender.Buffered() == 2 })
	cancel()
	if err := <-first; err == nil {
		t.Error("sent though its context ended")
	}
	// Both records have failed by then, or the second one was produced again.
	eventually.True(t, "a record has left the buffer", func() bool { return sender.Buffered() < 2 })
	close(until)
	if err := <-second; err != nil {
		t.Errorf("the neighbour: %v", err)
	}
	if got := stored(c); got != 1 {
		t.Errorf("%d records, want 1", got)
	}
}
