package sendamqp_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/internal/test/brokertest"
	"github.com/hookonce/hookonce/sendamqp"
)

func TestNew(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"amqp://canary:canary@h":                     "must name a queue or an exchange",
		"amqp://h?queue=a&exchange=b":                "must name a queue or an exchange",
		"amqp://h?queue=canary&routing_key=b":        "beside queue",
		"amqp://h?queue=a&queue=canary":              "each once",
		"amqp://h?heartbeat=canary":                  "may hold only queue, exchange, routing_key, ca",
		"amqp://h?queue=a&ca=canary":                 "amqps://",
		"amqp://?queue=a":                            "neither a name nor an address",
		"amqp://h,?queue=a":                          "neither a name nor an address",
		"amqp://h:canary?queue=a":                    "not a URL",
		"amqp://u:can/ary@h?queue=a":                 "percent-encode",
		"amqp://h?queue=a#canary":                    "fragment",
		"amqps://u:canary@h?queue=a&ca=/missing":     "file of the URL's ca, /missing, cannot be read: no such file",
		"amqps://u:canary@h?queue=a&ca=new_test.go":  "no certificate in PEM form",
		"http://h?queue=canary":                      "must begin with amqp:// or amqps://",
		"amqp://h?queue=" + strings.Repeat("q", 256): "longer than 255",
	} {
		if _, err := sendamqp.New(url, sendamqp.Options{}); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: error %v, want %q", url, err, want)
		}
	}
	parse := func(url string) *sendamqp.Sender {
		s, err := sendamqp.New(url, sendamqp.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	cert, _ := brokertest.Certificate(t)
	rest := "@a,b:1/v%2Fw?queue=orders&ca=" + cert
	s := parse("amqps://u:canary" + rest)
	if got, want := s.Address(), "amqps://a:5671,b:1/v%2Fw?queue=orders"; got != want {
		t.Errorf("address %s, want %s", got, want)
	}
	if got := fmt.Sprintf("%s %v %+v %#v", s, s, s, s); strings.Contains(got, "canary") || strings.Contains(got, cert) {
		t.Errorf("printed %s", got)
	}
	if !s.Equal(parse("amqps://u:canary"+rest)) || s.Equal(parse("amqps://u:other"+rest)) {
		t.Error("Equal")
	}
}
