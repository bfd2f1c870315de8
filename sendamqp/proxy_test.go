//go:build unix

package sendamqp_test

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/internal/test/brokertest"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/sendamqp"
)

// proxied returns a proxy before the server, and the URL of a queue through it.
func proxied(t *testing.T, r *brokertest.Rabbit, queue string) (*brokertest.Proxy, string) {
	t.Helper()
	p := brokertest.StartProxy(t, r.Addr)
	return p, strings.Replace(r.URL("", "?queue="+queue), r.Addr, p.Addr, 1)
}

// testFrozen has a server answer no more. Each attempt ends, also one that needs another channel.
func testFrozen(t *testing.T, r *brokertest.Rabbit) {
	eventually.True(t, "the attempts end before heartbeats end the connection, after 15 s", func() bool {
		p, url := proxied(t, r, "orders")
		var took time.Duration
		left := brokertest.RunMarked(t, func(context.Context) {
			sender := open(t, url)
			defer sender.Close()
			sendEach(t, sender, 1)
			p.Freeze()
			began := time.Now()
			sendFrozen(t, sender, 2, 100)
			took = time.Since(began)
		})
		eventually.True(t, "nothing of the Sender is left", func() bool { return !left() })
		return took < 10*time.Second // a slow machine may need several trials
	})
}

// testFull has a server read no more, and sends more than fits into the buffers. Each attempt ends, and the Sender goes
// on with another connection.
func testFull(t *testing.T, r *brokertest.Rabbit) {
	const messages = 40
	p, url := proxied(t, r, "orders")
	left := brokertest.RunMarked(t, func(ctx context.Context) {
		sender := open(t, url)
		defer sender.Close()
		sendEach(t, sender, messages)
		p.Freeze()
		sendFrozen(t, sender, messages, 400<<10)
		eventually.True(t, "a message is sent", func() bool { return sender.Send(ctx, outgoing("after")) == nil })
	})
	eventually.True(t, "nothing of the Sender is left", func() bool { return !left() })
}

// testLostConfirmation loses the confirmation of a message that the queue has. The attempt fails, and the next one
// stores the message again.
func testLostConfirmation(t *testing.T, r *brokertest.Rabbit, ch *amqp.Channel) {
	declare(t, ch, "lost", nil)
	p, url := proxied(t, r, "lost")
	sender := newSender(t, url)
	take := func() string {
		m, _, err := ch.Get("lost", true)
		if err != nil {
			t.Fatal(err)
		}
		return m.MessageId
	}
	if err := sender.Send(t.Context(), outgoing("before")); err != nil {
		t.Fatal(err)
	}
	p.Mute(true)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- sender.Send(ctx, outgoing("lost")) }()
	eventually.True(t, "the queue has the message", func() bool { return take() == "lost" })
	cancel()
	if err := <-ended; err == nil {
		t.Error("sent without a confirmation")
	}
	p.Mute(false)
	p.Cut()
	eventually.True(t, "the message is sent again", func() bool { return sender.Send(t.Context(), outgoing("lost")) == nil })
	if got := take(); got != "lost" {
		t.Errorf("message %q, want the lost one again", got)
	}
}

// open returns a Sender that the test closes itself.
func open(t *testing.T, url string) *sendamqp.Sender {
	t.Helper()
	s, err := sendamqp.New(url, sendamqp.Options{AllowPrivate: true})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// sendEach sends messages at a time. Then the Sender has idle channels.
func sendEach(t *testing.T, sender hookonce.Sender, messages int) {
	t.Helper()
	var wg sync.WaitGroup
	for i := range messages {
		wg.Go(func() {
			if err := sender.Send(t.Context(), outgoing("before"+strconv.Itoa(i))); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// sendFrozen sends messages of a size to a frozen server.
func sendFrozen(t *testing.T, sender hookonce.Sender, messages, size int) {
	t.Helper()
	brokertest.EndInTime(t, messages, func(ctx context.Context, i int) error {
		m := outgoing("frozen" + strconv.Itoa(i))
		m.Body = make([]byte, size)
		return sender.Send(ctx, m)
	})
}
