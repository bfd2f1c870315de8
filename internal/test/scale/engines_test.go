package scale

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/hookonce/hookonce/internal/test/brokertest"
	"github.com/hookonce/hookonce/internal/test/dbtest"
)

// engine is a message broker that a gateway sends to.
type engine struct {
	name  string
	start func(t *testing.T) (url string) // of a subject, a queue or a topic
}

var engines = []engine{
	{"NATS JetStream", startNATS},
	{"RabbitMQ", startRabbit},
	{"kfake, an imitation of Kafka", startKafka},
}

// sending returns how many messages of a backlog a gateway sends to an engine in a second. Each counts once the engine
// has confirmed it.
func sending(t *testing.T, server *dbtest.Server, e engine, events int) (perSecond float64) {
	t.Run("send/"+e.name, func(t *testing.T) {
		c := bare(t, server, 1)
		c.configure(t, "database: ${DATABASE_URL}\nsources:\n  stripe: {provider: stripe, secrets: [\"${SECRET}\"]}\n"+
			"destinations:\n  app: {url: \""+e.start(t)+"\"}\nroutes: [{to: app}]\n")
		c.start(t, c.gateways[0], thisBuild(t))
		conn, err := pgx.Connect(t.Context(), c.database)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(t.Context())
		c.destination(t, "pause")
		deliver(t, c.gateways, events, 64)
		began := time.Now()
		c.destination(t, "resume")
		c.gateways[0].Eventually(t, "all messages are sent", func() bool {
			return number(t, conn, "SELECT count(*) FROM hookonce.message WHERE state = 2") == events
		})
		perSecond = float64(events) / time.Since(began).Seconds()
		c.stopAll(t)
	})
	return perSecond
}

func startNATS(t *testing.T) string {
	server := brokertest.StartNATS(t)
	nc, err := nats.Connect("nats://"+server.Addr, nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err == nil {
		_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"events"}})
	}
	if err != nil {
		t.Fatal(err)
	}
	return "nats://" + server.Addr + "/events"
}

func startRabbit(t *testing.T) string {
	server := brokertest.StartRabbit(t)
	conn, err := amqp.Dial(server.URL("", ""))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	ch, err := conn.Channel()
	if err == nil {
		const durable = true
		_, err = ch.QueueDeclare("events", durable, false, false, false, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return server.URL("", "?queue=events")
}

func startKafka(t *testing.T) string {
	server, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(4, "events"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return "kafka://" + server.ListenAddrs()[0] + "/events"
}
