package config

import (
	"fmt"
	"strings"
	"testing"
)

func TestDestinationOnNATS(t *testing.T) {
	t.Parallel()
	load := func(lines string) (*Settings, error) {
		dir := dirWith(t, "destinations:\n  orders:\n"+lines)
		s, err := Load(LoadOptions{Dir: dir, Environ: environ()})
		if err != nil { // a nil *Faults is not a nil error
			return nil, err
		}
		return s, nil
	}
	s, err := load("    url: nats://u:canary@127.0.0.1:4222/orders.created\n")
	if err != nil {
		t.Fatal(err)
	}
	if d := s.Engine.Destinations[0]; d.Sender == nil || d.URL != "" || strings.Contains(fmt.Sprintf("%+v", d), "canary") {
		t.Errorf("destination %+v", d)
	}
	for lines, want := range map[string]string{
		"    url: nats://u:canary@127.0.0.1:4222/\n":                           "subject",
		"    url: nats://u:canary@127.0.0.1/a\n    connections: fresh\n":       "leave it out",
		"    url: amqp://u:canary@127.0.0.1/vhost\n":                           "must name a queue or an exchange",
		"    url: amqp://u:canary@127.0.0.1/vhost?queue=a\n    key: body:id\n": "key is for kafka:// and kafkas://",
		"    url: kafka://u:canary@127.0.0.1/\n":                               "must be a topic",
		"    url: kafka://u:canary@127.0.0.1/a\n    key: query:id\n":           "not stored with a message",
		"    url: http://127.0.0.1/a\n    key: body:id\n":                      "leave it out with other URLs",
	} {
		if _, err := load(lines); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: error %v, want %q", lines, err, want)
		}
	}
}

// TestSizes warns of sources whose bodies may be larger than a message to Kafka.
func TestSizes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ body, query, from, want string }{
		{"1MiB", "", "", "max_body of source a (1048576 bytes) is larger than max_message_bytes (1000012)"},
		{"900KB", "", "", ""},
		{"", "", "a", "max_body of source a (26214400 bytes) is larger than max_message_bytes (1000012)"},
		{"", "", "c", ""}, // both defaults
		{"900KB", "?max_message_bytes=1000", "a", "max_body of source a (900000 bytes) is larger than max_message_bytes (1000)"},
		{"1MiB", "?max_message_bytes=2000000", "", ""},
		{"1MiB", "", "b", ""},
	} {
		from, limit := "", ""
		if c.body != "" {
			limit = ", max_body: " + c.body
		}
		if c.from != "" {
			from = ", sources: [" + c.from + "]"
		}
		got, ok := Check(LoadOptions{Environ: environ(), Dir: dirWith(t, `
sources:
  a: {provider: github, secrets: [0123456789abcdef]`+limit+`}
  b: {provider: github, secrets: [0123456789abcdef], max_body: 100KB}
  c: {provider: stripe, secrets: [whsec_0123456789abcdef]}
destinations: {orders: {url: "kafka://h/orders`+c.query+`"}}
routes: [{to: orders`+from+"}]\n")})
		if !ok || strings.Contains(got, "max_body of source a") != (c.want != "") || !strings.Contains(got, c.want) || strings.Contains(got, "max_body of source c") {
			t.Errorf("%+v: %v, %s", c, ok, got)
		}
	}
}
