package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/hookonce/hookonce/internal/test/brokertest"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/group"
)

const brokerSettings = `
database: ${DATABASE_URL}
sources:
  play: {provider: none, event: {id: "body:id"}}
destinations:
  nats:
    url: nats://gateway:${BROKER_PASSWORD}@127.0.0.1:1,%s/orders.created
    secret: ${DESTINATION_SECRET}
    retry: {attempts: 1000, first: 20ms, max: 50ms}
  rabbit:
    url: amqp://gateway:${BROKER_PASSWORD}@%s?queue=orders
    secret: ${DESTINATION_SECRET}
    retry: {attempts: 1000, first: 20ms, max: 50ms}
  kafka:
    url: kafka://admin:${BROKER_PASSWORD}@%s/orders
    key: body:customer
    retry: {attempts: 1000, first: 20ms, max: 50ms}
routes:
  - {name: nats, to: nats}
  - {name: rabbit, to: rabbit}
  - {name: kafka, to: kafka}
`

// TestBrokers has a gateway send to NATS, RabbitMQ and Kafka by its settings file alone. While NATS refuses its credentials, a
// message stays, and tells why.
func TestBrokers(t *testing.T) {
	group.Need(t, "brokers")
	t.Parallel()
	server := brokertest.StartNATS(t, "--user", "gateway", "--pass", brokerPassword)
	stream := func() jetstream.Stream { return ordersStream(t, server) }
	stream()
	kafka, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "orders"), kfake.EnableSASL(), kfake.Superuser("PLAIN", "admin", brokerPassword))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(kafka.Close)
	rabbit := startRabbit(t)
	queue := ordersQueue(t, rabbit)
	w := newWorld(t, newDatabase(t, "sqlite"), fmt.Sprintf(brokerSettings, server.Addr, rabbit.Addr, kafka.ListenAddrs()[0]))
	w.env = append(w.env, "BROKER_PASSWORD="+brokerPassword)
	if out := w.run(t, "config", "check"); out.code != 0 {
		t.Fatalf("config check: %s%s", out.stdout, out.stderr)
	}
	g := w.start(t)
	g.expect(t, newDelivery("play", `{"id":"1","customer":"c1"}`), "200 ok")
	detail := g.waitState(t, "play", "1", "done")
	message, err := stream().GetMsg(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if string(message.Data) != `{"id":"1","customer":"c1"}` || message.Header.Get("Nats-Msg-Id") != messageTo(detail, "nats") || message.Header.Get("Webhook-Signature") == "" {
		t.Errorf("NATS has %s with %v", message.Data, message.Header)
	}
	if m, _, err := queue.Get("orders", true); err != nil || string(m.Body) != `{"id":"1","customer":"c1"}` || m.MessageId != messageTo(detail, "rabbit") || m.Headers["webhook-signature"] == nil {
		t.Errorf("RabbitMQ has %s with %v, %v", m.Body, m.Headers, err)
	}
	if n := kafka.PartitionInfo("orders", 0).HighWatermark; n != 1 {
		t.Errorf("Kafka has %d records, want 1", n)
	}
	checkAddresses(t, g, map[string]string{
		"nats": "nats://127.0.0.1:1," + server.Addr + "/orders.created", "rabbit": "amqp://" + rabbit.Addr + "?queue=orders",
		"kafka": "kafka://" + kafka.ListenAddrs()[0] + "/orders",
	})

	server.Kill()
	server.Args("--user", "gateway", "--pass", "another")
	server.Start()
	g.expect(t, newDelivery("play", `{"id":"2"}`), "200 ok")
	g.Eventually(t, "the credentials are refused", func() bool {
		for _, a := range g.event(t, "play", "2").Attempts {
			if strings.Contains(a.Error, "NATS refused the credentials") {
				return true
			}
		}
		return false
	})
	server.Kill()
	server.Args("--user", "gateway", "--pass", brokerPassword)
	server.Start()
	g.waitState(t, "play", "2", "done")
	if info, err := stream().Info(t.Context()); err != nil || info.State.Msgs != 2 {
		t.Errorf("the stream has %+v, %v", info, err)
	}
	g.stop(t)
}

// startRabbit starts RabbitMQ with a user for the gateway, who may write through the default exchange and no more.
func startRabbit(t *testing.T) *brokertest.Rabbit {
	t.Helper()
	path := filepath.Join(t.TempDir(), "definitions.json")
	definitions := fmt.Sprintf(`{"vhosts": [{"name": "/"}],
		"users": [{"name": "guest", "password": "guest", "tags": ["administrator"]}, {"name": "gateway", "password": %q, "tags": []}],
		"permissions": [{"user": "guest", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"},
			{"user": "gateway", "vhost": "/", "configure": "^$", "write": "^amq\\.default$", "read": "^$"}]}`, brokerPassword)
	if err := os.WriteFile(path, []byte(definitions), 0o600); err != nil {
		t.Fatal(err)
	}
	return brokertest.StartRabbit(t, "load_definitions = "+path)
}

// ordersQueue makes the queue, and returns a channel that reads it.
func ordersQueue(t *testing.T, rabbit *brokertest.Rabbit) *amqp.Channel {
	t.Helper()
	conn, err := amqp.Dial(rabbit.URL("", ""))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	const durable = true
	if _, err := ch.QueueDeclare("orders", durable, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	return ch
}

// ordersStream connects, waits for the server, and returns its stream, which it makes if there is none.
func ordersStream(t *testing.T, server *brokertest.NATS) jetstream.Stream {
	t.Helper()
	nc, err := nats.Connect("nats://"+server.Addr, nats.UserInfo("gateway", brokerPassword), nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	var stream jetstream.Stream
	eventually.True(t, "there is a stream", func() bool {
		stream, err = js.CreateOrUpdateStream(t.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}})
		return err == nil
	})
	return stream
}

func messageTo(detail *eventDetail, destination string) string {
	for _, m := range detail.Messages {
		if m.Destination == destination {
			return m.ID
		}
	}
	return ""
}

func checkAddresses(t *testing.T, g *gateway, want map[string]string) {
	t.Helper()
	var got struct {
		Destinations []struct {
			Name     string
			Settings struct{ Address string }
		}
	}
	if status := g.api(t, "/api/v1/destinations", &got); status != 200 || len(got.Destinations) != len(want) {
		t.Fatalf("status %d, %+v", status, got)
	}
	for _, d := range got.Destinations {
		if d.Settings.Address != want[d.Name] {
			t.Errorf("address of %s: %s, want %s", d.Name, d.Settings.Address, want[d.Name])
		}
	}
	for _, page := range []string{"/destinations", "/destinations/nats", "/destinations/rabbit", "/destinations/kafka", "/metrics"} {
		if status := g.api(t, page, nil); status != 200 {
			t.Errorf("%s: %d", page, status)
		}
	}
}
