package sendkafka_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/internal/guard"
	"github.com/hookonce/hookonce/internal/test/brokertest"
	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/sendkafka"
)

func newCluster(t *testing.T, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1), kfake.SeedTopics(1, "orders")}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func newSender(t *testing.T, url string) *sendkafka.Sender {
	t.Helper()
	return newKeyed(t, url, "")
}

func newKeyed(t *testing.T, url, key string) *sendkafka.Sender {
	t.Helper()
	s, err := sendkafka.New(url, sendkafka.Options{AllowPrivate: true, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func url(c *kfake.Cluster, user, rest string) string {
	return "kafka://" + user + c.ListenAddrs()[0] + rest
}

func outgoing(id string) *hookonce.Outgoing {
	return &hookonce.Outgoing{
		ID: id, Source: "shop", EventID: "evt_" + id, Attempt: 1, Body: []byte(`{"id":"` + id + `"}`),
		Header:     http.Header{"X-Shop": {"a", "b"}},
		HTTPHeader: http.Header{"Content-Type": {"application/json"}, "Webhook-Id": {id}, "X-Shop": {"a", "b"}},
	}
}

// read returns n records of a topic.
func read(t *testing.T, n int, opts ...kgo.Opt) []*kgo.Record {
	t.Helper()
	client, err := kgo.NewClient(append(opts, kgo.ConsumeTopics("orders"))...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var got []*kgo.Record
	for len(got) < n {
		fetches := client.PollFetches(t.Context())
		if err := fetches.Err(); err != nil {
			t.Fatalf("%d of %d records: %v", len(got), n, err)
		}
		got = append(got, fetches.Records()...)
	}
	return got
}

// stored returns how many records the topic has.
func stored(c *kfake.Cluster) int64 { return c.PartitionInfo("orders", 0).HighWatermark }

func idOf(r *kgo.Record) string {
	for _, h := range r.Headers {
		if h.Key == "webhook-id" {
			return string(h.Value)
		}
	}
	return ""
}

func TestRecord(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		checkDurable(t, req.(*kmsg.ProduceRequest))
		return nil, nil, false
	})
	if err := newSender(t, url(c, "", "/orders")).Send(t.Context(), outgoing("1")); err != nil {
		t.Fatal(err)
	}
	keyed := newKeyed(t, url(c, "", "/orders"), "body:id | body:other")
	absent := outgoing("3")
	absent.Body = []byte("{}")
	none := outgoing("4")
	none.Body, none.EventID = nil, ""
	for _, m := range []*hookonce.Outgoing{outgoing("2"), absent, none} {
		if err := keyed.Send(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, r := range read(t, 4, kgo.SeedBrokers(c.ListenAddrs()...)) {
		got = append(got, fmt.Sprintf("%s %s %s", r.Key, idOf(r), r.Value))
	}
	if diff := cmp.Diff([]string{`evt_1 1 {"id":"1"}`, `2 2 {"id":"2"}`, `evt_3 3 {}`, `4 4 `}, got); diff != "" {
		t.Errorf("key, id and value (-want +got):\n%s", diff)
	}
	headers := make(map[string]string)
	for _, h := range read(t, 1, kgo.SeedBrokers(c.ListenAddrs()...))[0].Headers {
		headers[h.Key] = string(h.Value)
	}
	if diff := cmp.Diff(map[string]string{"content-type": "application/json", "webhook-id": "1", "x-shop": "a, b"}, headers); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
}

// checkDurable checks that all in-sync replicas must store a request, and that its producer is idempotent.
func checkDurable(t *testing.T, req *kmsg.ProduceRequest) {
	if req.Acks != -1 {
		t.Errorf("acks %d, want -1, which means all", req.Acks)
	}
	for _, topic := range req.Topics {
		for _, partition := range topic.Partitions {
			var batch kmsg.RecordBatch
			if err := batch.ReadFrom(partition.Records); err != nil || batch.ProducerID < 0 {
				t.Errorf("producer %d (%v), want an id", batch.ProducerID, err)
			}
		}
	}
}

// incompressible returns bytes that no compression makes smaller.
func incompressible(size int) []byte {
	b := make([]byte, size)
	_, _ = rand.Read(b)
	return b
}

// replies lets a test lose or hold the replies of a cluster, which has done its work by then.
type replies struct {
	lose atomic.Int64 // replies left to lose, each with its connection
	lost atomic.Int64
	hold atomic.Pointer[hold]
}

// hold makes replies wait.
type hold struct{ waiting, until chan struct{} }

func (r *replies) holdAll() *hold {
	h := &hold{make(chan struct{}, 1), make(chan struct{})}
	r.hold.Store(h)
	return h
}

func (r *replies) listen(network, address string) (net.Listener, error) {
	l, err := net.Listen(network, address)
	return &listener{l, r}, err
}

type listener struct {
	net.Listener

	replies *replies
}

func (l *listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return &faulty{conn, l.replies}, err
}

type faulty struct {
	net.Conn

	replies *replies
}

func (c *faulty) Write(p []byte) (int, error) {
	if h := c.replies.hold.Load(); h != nil {
		select {
		case h.waiting <- struct{}{}:
		default:
		}
		<-h.until
	}
	if c.replies.lose.Add(-1) >= 0 {
		c.replies.lost.Add(1)
		c.Close()
		return 0, net.ErrClosed
	}
	return c.Conn.Write(p)
}

// TestLostReplies loses the replies to produce requests, so the producer repeats these. Kafka has each record once.
func TestLostReplies(t *testing.T) {
	t.Parallel()
	var r replies
	c := newCluster(t, kfake.ListenFn(r.listen))
	sender := newSender(t, url(c, "", "/orders"))
	const n = 5
	for i := range n {
		if err := sender.Send(t.Context(), outgoing(strconv.Itoa(i))); err != nil {
			t.Fatal(err)
		}
		r.lose.Store(1)
	}
	if lost := r.lost.Load(); lost < n-1 {
		t.Errorf("%d replies were lost, want %d", lost, n-1)
	}
	if got := stored(c); got != n {
		t.Errorf("%d records, want %d", got, n)
	}
}

// TestLateReply has an attempt time out whose record Kafka has. The next attempt waits for the outcome of that one.
func TestLateReply(t *testing.T) {
	t.Parallel()
	var r replies
	c := newCluster(t, kfake.ListenFn(r.listen))
	sender := newSender(t, url(c, "", "/orders"))
	if err := sender.Send(t.Context(), outgoing("0")); err != nil {
		t.Fatal(err)
	}
	held := r.holdAll()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-held.waiting
		cancel()
	}()
	if err := sender.Send(ctx, outgoing("1")); err == nil {
		t.Fatal("sent without a reply")
	}
	r.hold.Store(nil)
	again := make(chan error, 1)
	waits := newWatched(t.Context())
	go func() { again <- sender.Send(waits, outgoing("1")) }()
	<-waits.asked
	close(held.until)
	if err := <-again; err != nil {
		t.Error(err)
	}
	if got := stored(c); got != 2 {
		t.Errorf("%d records, want 2", got)
	}
}

// TestRestart restarts the cluster under load. It has what Send reported as sent.
func TestRestart(t *testing.T) {
	t.Parallel()
	_, port, _ := strings.Cut(dbtest.FreeAddress(t), ":")
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	start := func() *kfake.Cluster {
		return newCluster(t, kfake.Ports(number), kfake.DataDir(folder), kfake.SyncWrites())
	}
	c := start()
	sender := newSender(t, "kafka://127.0.0.1:"+port+"/orders")
	const each, senders, restarts = 150, 4, 3
	var wg sync.WaitGroup
	progress := make(chan struct{}, each*senders)
	for n := range senders {
		wg.Go(func() {
			for i := range each {
				for t.Context().Err() == nil {
					ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
					err := sender.Send(ctx, outgoing(fmt.Sprintf("m%d-%d", n, i)))
					cancel()
					if err == nil {
						break
					}
				}
				progress <- struct{}{}
			}
		})
	}
	for range restarts {
		for range cap(progress) / (restarts + 1) {
			<-progress
		}
		c.Close()
		c = start()
	}
	wg.Wait()
	seen := make(map[string]int)
	for _, r := range read(t, int(stored(c)), kgo.SeedBrokers(c.ListenAddrs()...)) {
		seen[idOf(r)]++
	}
	for n := range senders {
		for i := range each {
			if id := fmt.Sprintf("m%d-%d", n, i); seen[id] == 0 {
				t.Errorf("%s was sent, and is not in the topic", id)
			}
		}
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	open := newCluster(t)
	locked := newCluster(t, kfake.EnableSASL(), kfake.EnableACLs(), kfake.Superuser("PLAIN", "admin", "admin"),
		kfake.User("SCRAM-SHA-256", "reader", "canary"), kfake.Superuser("SCRAM-SHA-512", "writer", "canary"))
	cert, key := brokertest.Certificate(t)
	secure := newCluster(t, kfake.TLS(brokertest.ServerTLS(t, cert, key)))
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	large := outgoing("large")
	large.Body = incompressible(1_100_000)
	forbidding := newCluster(t, kfake.EnableSASL())
	forbidding.ControlKey(int16(kmsg.SASLAuthenticate), func(req kmsg.Request) (kmsg.Response, error, bool) {
		forbidding.KeepControl()
		resp := req.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		resp.ErrorCode = kerr.SaslAuthenticationFailed.Code
		return resp, nil, true
	})
	failing := newCluster(t)
	failing.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicas, Count: -1})
	refusing := newCluster(t)
	refusing.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.InvalidRecord, Count: -1})
	secured := "kafkas://" + secure.ListenAddrs()[0] + "/orders"
	for _, c := range []struct {
		name, url string
		m         *hookonce.Outgoing
		want      string // "" for success
		permanent bool
	}{
		{"no topic", url(open, "", "/none"), outgoing("1"), `topic "none" does not exist; create it`, false},
		{"too large", url(open, "", "/orders"), large, "too large for Kafka", true},
		{"too large for Kafka", url(open, "", "/orders?max_message_bytes=2000000"), large, "too large for Kafka", true},
		{"too few replicas", url(failing, "", "/orders"), outgoing("1"), "did not confirm", false},
		{"refused", url(refusing, "", "/orders"), outgoing("1"), "INVALID_RECORD", false},
		{"plain", url(locked, "admin:admin@", "/orders"), outgoing("1"), "", false},
		{"scram-sha-512", url(locked, "writer:canary@", "/orders?sasl=scram-sha-512"), outgoing("1"), "", false},
		{"wrong password", url(locked, "admin:canary@", "/orders"), outgoing("1"), "check the user name, the password", false},
		{"wrong scram password", url(locked, "writer:wrongcanary@", "/orders?sasl=scram-sha-512"), outgoing("1"), "check the user name, the password", false},
		{"refused password", url(forbidding, "admin:canary@", "/orders?sasl=scram-sha-256"), outgoing("1"), "refused the user name or password", false},
		{"no permission", url(locked, "reader:canary@", "/orders?sasl=scram-sha-256"), outgoing("1"), `allow Write on topic "orders"`, false},
		{"TLS", secured + "?ca=" + cert, outgoing("1"), "", false},
		{"unknown authority", secured, outgoing("1"), "?ca=FILE", false},
		{"broker down", "kafka://" + dbtest.FreeAddress(t) + "/orders", outgoing("1"), "check that it is up", false},
		{"silent broker", "kafka://" + silent.Addr().String() + "/orders", outgoing("1"), "did not confirm", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			// Some failures show only when the time of a send is over, so it is short. On a slow machine another one hides them.
			sender := newSender(t, c.url)
			var err error
			eventually.Succeeds(t, "a send that ends as it must", func() error {
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				defer cancel()
				if err = sender.Send(ctx, c.m); err == nil != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
					return fmt.Errorf("error %w, want %q", err, c.want)
				}
				return nil
			})
			if err == nil {
				return
			}
			if strings.Contains(err.Error(), "canary") {
				t.Errorf("the error shows a secret: %v", err)
			}
			if got := guard.IsPermanent(err); got != c.permanent {
				t.Errorf("%v: permanent %v, want %v", err, got, c.permanent)
			}
		})
	}
	public, err := sendkafka.New(url(open, "", "/orders"), sendkafka.Options{})
	if err != nil {
		t.Fatal(err)
	}
	eventually.Succeeds(t, "a send that tells of a private address", func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if err := public.Send(ctx, outgoing("1")); err == nil || !strings.Contains(err.Error(), "must not be dialled") {
			return fmt.Errorf("error %w", err)
		}
		return nil
	})
}

// TestRecovery has one Sender go on after errors: a topic that is created later, and a broker that answers an error
// for a while.
func TestRecovery(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	sender := newSender(t, url(c, "", "/later"))
	if err := sender.Send(t.Context(), outgoing("1")); err == nil {
		t.Fatal("sent to no topic")
	}
	if err := c.CreateTopic("later", 1, nil); err != nil {
		t.Fatal(err)
	}
	for sender.Send(t.Context(), outgoing("1")) != nil {
		if t.Context().Err() != nil {
			t.Fatal("not sent")
		}
	}
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicas, Count: 2})
	if err := sender.Send(t.Context(), outgoing("2")); err != nil {
		t.Error(err)
	}
	if err := sender.Close(); err != nil {
		t.Fatal(err)
	}
	if err := sender.Send(t.Context(), outgoing("3")); err != nil {
		t.Errorf("after Close: %v", err)
	}
}
