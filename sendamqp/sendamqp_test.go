//go:build unix

package sendamqp_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/internal/guard"
	"github.com/hookonce/hookonce/internal/test/brokertest"
	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/sendamqp"
)

func newSender(t *testing.T, url string) *sendamqp.Sender {
	t.Helper()
	s, err := sendamqp.New(url, sendamqp.Options{AllowPrivate: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func outgoing(id string) *hookonce.Outgoing {
	return &hookonce.Outgoing{
		ID: id, Source: "shop", EventID: "evt_" + id, Attempt: 1, Body: []byte(`{"id":"` + id + `"}`),
		HTTPHeader: http.Header{
			"Content-Type": {"application/json"}, "Webhook-Id": {id}, "Hookonce-Event-Id": {"evt_" + id}, "X-Shop": {"a", "b"},
			"Cc": {"elsewhere"}, "Bcc": {"elsewhere"}, "X-Delay": {"60000"}, "X-Death": {"forged"}, "X-Delivery-Count": {"9"},
			"X-" + strings.Repeat("Long", 100): {"no short string"},
		},
	}
}

// admin is a channel of the test, which declares and reads.
func admin(t *testing.T, r *brokertest.Rabbit) *amqp.Channel {
	t.Helper()
	conn, err := amqp.Dial(r.URL("", ""))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	return ch
}

func declare(t *testing.T, ch *amqp.Channel, queue string, args amqp.Table) {
	t.Helper()
	if _, err := ch.QueueDeclare(queue, true, false, false, false, args); err != nil {
		t.Fatal(err)
	}
}

// definitions has a second vhost, and a user who may not write.
const definitions = `{
	"vhosts": [{"name": "/"}, {"name": "a/b"}],
	"users": [
		{"name": "guest", "password": "guest", "tags": ["administrator"]},
		{"name": "reader", "password": "canary", "tags": []}],
	"permissions": [
		{"user": "guest", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"},
		{"user": "guest", "vhost": "a/b", "configure": ".*", "write": ".*", "read": ".*"},
		{"user": "reader", "vhost": "/", "configure": "^$", "write": "^$", "read": ".*"}]
}`

func TestRabbitMQ(t *testing.T) {
	t.Parallel()
	cert, key := brokertest.Certificate(t)
	tlsAddr := dbtest.FreeAddress(t)
	defined := filepath.Join(t.TempDir(), "definitions.json")
	if err := os.WriteFile(defined, []byte(definitions), 0o600); err != nil {
		t.Fatal(err)
	}
	r := brokertest.StartRabbit(t, "load_definitions = "+defined, "max_message_size = 100000",
		"listeners.ssl.1 = "+tlsAddr, "ssl_options.certfile = "+cert, "ssl_options.keyfile = "+key)
	ch := admin(t, r)
	declare(t, ch, "orders", nil)
	declare(t, ch, "elsewhere", nil)
	declare(t, ch, "full", amqp.Table{"x-max-length": 1, "x-overflow": "reject-publish"})
	if err := ch.ExchangeDeclare("events", "topic", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	t.Run("message", func(t *testing.T) { testMessage(t, r, ch) })
	t.Run("failures", func(t *testing.T) { testFailures(t, r) })
	t.Run("TLS", func(t *testing.T) {
		url := "amqps://" + tlsAddr + "?queue=orders"
		if err := newSender(t, url).Send(t.Context(), outgoing("1")); err == nil || !strings.Contains(err.Error(), "?ca=FILE") {
			t.Errorf("an unknown authority: %v", err)
		}
		if err := newSender(t, url+"&ca="+cert).Send(t.Context(), outgoing("1")); err != nil {
			t.Error(err)
		}
	})
	t.Run("lost confirmation", func(t *testing.T) { testLostConfirmation(t, r, ch) })
	t.Run("frozen server", func(t *testing.T) { testFrozen(t, r) })
	t.Run("full connection", func(t *testing.T) { testFull(t, r) })
	t.Run("blocked", func(t *testing.T) { testBlocked(t, r) })
}

func testMessage(t *testing.T, r *brokertest.Rabbit, ch *amqp.Channel) {
	m := outgoing("1")
	if err := newSender(t, r.URL("", "/?queue=orders")).Send(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	got, found, err := ch.Get("orders", true)
	if err != nil || !found {
		t.Fatalf("no message: %v", err)
	}
	if got.MessageId != "1" || got.ContentType != "application/json" || got.DeliveryMode != amqp.Persistent || string(got.Body) != string(m.Body) {
		t.Errorf("got %+v", got)
	}
	want := amqp.Table{"content-type": "application/json", "webhook-id": "1", "hookonce-event-id": "evt_1", "x-shop": "a, b"}
	if diff := cmp.Diff(want, got.Headers); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
	// An exchange that routes to no queue yet, and then to one.
	sender := newSender(t, r.URL("", "?exchange=events&routing_key=orders.created"))
	if err := sender.Send(t.Context(), outgoing("2")); err == nil || !strings.Contains(err.Error(), `routes key "orders.created" to no queue`) {
		t.Errorf("unroutable: %v", err)
	}
	if err := ch.QueueBind("orders", "orders.*", "events", false, nil); err != nil {
		t.Fatal(err)
	}
	if err := sender.Send(t.Context(), outgoing("3")); err != nil {
		t.Error(err)
	}
	if got, found, err := ch.Get("orders", true); err != nil || !found || got.MessageId != "3" {
		t.Errorf("got %+v, %v, %v", got, found, err)
	}
}

func testFailures(t *testing.T, r *brokertest.Rabbit) {
	large := outgoing("large")
	large.Body = make([]byte, 200_000)
	wide := outgoing("wide")
	wide.HTTPHeader.Set("X-Wide", strings.Repeat("w", 200_000))
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	full := newSender(t, r.URL("", "?queue=full"))
	if err := full.Send(t.Context(), outgoing("1")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, url string
		m         *hookonce.Outgoing
		want      string
		permanent bool
	}{
		{"no queue", r.URL("", "?queue=canary-none"), outgoing("1"), `there is no queue "canary-none" in vhost "/"; create it`, false},
		{"no queue in another vhost", r.URL("", "/a%2Fb?queue=orders"), outgoing("1"), `there is no queue "orders" in vhost "a/b"`, false},
		{"no exchange", r.URL("", "?exchange=none"), outgoing("1"), `exchange "none" does not exist in vhost "/"; create it`, false},
		{"full queue", r.URL("", "?queue=full"), outgoing("2"), "basic.nack", false},
		{"too large", r.URL("", "?queue=orders"), large, "max_message_size", true},
		{"too wide", r.URL("", "?queue=orders"), wide, "frame_max", true},
		{"no permission", r.URL("reader:canary", "?exchange=events"), outgoing("1"), `may write to exchange "events"`, false},
		{"wrong password", r.URL("guest:canary", "?queue=orders"), outgoing("1"), "refused the user name or password", false},
		{"no vhost", r.URL("", "/none?queue=orders"), outgoing("1"), `does not open vhost "none"`, false},
		{"server down", "amqp://" + dbtest.FreeAddress(t) + "?queue=orders", outgoing("1"), "check that it is up", false},
		{"silent server", "amqp://" + silent.Addr().String() + "?queue=orders", outgoing("1"), "not connected in time", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if c.name == "silent server" {
				go func() {
					if conn, err := silent.Accept(); err == nil {
						defer conn.Close()
						cancel()
						<-t.Context().Done()
					}
				}()
			}
			err := newSender(t, c.url).Send(ctx, c.m)
			text := strings.ReplaceAll(fmt.Sprint(err), "canary-none", "none")
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(text, "canary") {
				t.Fatalf("error %v, want %q", err, c.want)
			}
			if got := guard.IsPermanent(err); got != c.permanent {
				t.Errorf("%v: permanent %v, want %v", err, got, c.permanent)
			}
		})
	}
	public, err := sendamqp.New(r.URL("", "?queue=orders"), sendamqp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := public.Send(t.Context(), outgoing("1")); err == nil || !strings.Contains(err.Error(), "must not be dialled") {
		t.Errorf("a private address: %v", err)
	}
}

// testBlocked restarts the server with an alarm, so that it blocks publishers, and then without.
func testBlocked(t *testing.T, r *brokertest.Rabbit) {
	r.Kill()
	r.Configure("vm_memory_high_watermark.absolute = 1MB")
	r.Start()
	sender := newSender(t, r.URL("", "?queue=orders"))
	// The broker blocks the connection once it publishes, and confirms nothing.
	for {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		err := sender.Send(ctx, outgoing("1"))
		cancel()
		if err != nil && strings.Contains(err.Error(), "blocks publishers") && strings.Contains(err.Error(), "memory") {
			break
		}
		if t.Context().Err() != nil {
			t.Fatalf("error %v", err)
		}
	}
	r.Kill()
	r.Configure()
	r.Start()
	// The connection to the server before ends first.
	for sender.Send(t.Context(), outgoing("2")) != nil {
		if t.Context().Err() != nil {
			t.Fatal("not sent")
		}
	}
}

// TestKilledServer stops the server under load, and kills it. What Send reported as sent is in the queue.
func TestKilledServer(t *testing.T) {
	t.Parallel()
	r := brokertest.StartRabbit(t)
	ch := admin(t, r)
	declare(t, ch, "classic", nil)
	declare(t, ch, "quorum", amqp.Table{"x-queue-type": "quorum"})
	queues := []string{"classic", "quorum"}
	const each, senders = 150, 4
	// RabbitMQ 3.10 loses the leader of a quorum queue that it is killed right after declaring.
	ends := []func(){r.Stop, r.Kill}
	var wg sync.WaitGroup
	var up sync.RWMutex // held while the server is not up
	progress := make(chan struct{}, each*senders*len(queues))
	for _, queue := range queues {
		sender := newSender(t, r.URL("", "?queue="+queue))
		for n := range senders {
			wg.Go(func() {
				for i := range each {
					if !sendAsRelay(t, sender, outgoing(fmt.Sprintf("m%d-%d", n, i)), &up) {
						return
					}
					progress <- struct{}{}
				}
			})
		}
	}
	for _, end := range ends {
		for range cap(progress) / (len(ends) + 1) {
			<-progress
		}
		up.Lock()
		end()
		r.Start()
		up.Unlock()
	}
	wg.Wait()
	ch = admin(t, r)
	for _, queue := range queues {
		seen := drain(t, ch, queue)
		for n := range senders {
			for i := range each {
				if id := fmt.Sprintf("m%d-%d", n, i); seen[id] == 0 {
					t.Errorf("%s was sent, and is not in queue %s", id, queue)
				}
			}
		}
	}
}

// sendAsRelay sends m until it is sent. It pauses while the server is down.
func sendAsRelay(t *testing.T, sender *sendamqp.Sender, m *hookonce.Outgoing, up *sync.RWMutex) (sent bool) {
	for t.Context().Err() == nil {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		err := sender.Send(ctx, m)
		cancel()
		if err == nil {
			return true
		}
		wait(up)
	}
	return false
}

// wait returns once the server is up.
func wait(up *sync.RWMutex) {
	up.RLock()
	defer up.RUnlock()
}

// drain takes all messages out of a queue, and returns how often each is there.
func drain(t *testing.T, ch *amqp.Channel, queue string) map[string]int {
	t.Helper()
	seen := make(map[string]int)
	for {
		m, found, err := ch.Get(queue, true)
		if err != nil {
			t.Fatal(err)
		}
		if !found {
			return seen
		}
		seen[m.MessageId]++
	}
}
