package sendkafka_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/internal/test/brokertest"
	"github.com/hookonce/hookonce/sendkafka"
)

func TestNew(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"kafka://canary:canary@h":                  "must be a topic",
		"kafka://h/a/canary":                       "must be a topic",
		"kafka://h/..":                             "must be a topic",
		"kafka://h/" + strings.Repeat("t", 250):    "must be a topic",
		"kafka://h/a?acks=canary":                  "may hold only sasl, max_message_bytes, ca",
		"kafka://h/a?sasl=plain":                   "no user name",
		"kafka://u:canary@h/a?sasl=canary":         "must be plain, scram-sha-256 or scram-sha-512",
		"kafka://h/a?max_message_bytes=canary":     "must be a number from 512 to",
		"kafka://h/a?max_message_bytes=1000000000": "must be a number from 512 to",
		"kafka://h/a?ca=canary":                    "kafkas://",
		"kafkas://u:canary@h/a?ca=/missing":        "file of the URL's ca, /missing, cannot be read: no such file",
		"kafka://h,/a":                             "neither a name nor an address",
		"http://h/canary":                          "must begin with kafka:// or kafkas://",
	} {
		if _, err := sendkafka.New(url, sendkafka.Options{}); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: error %v, want %q", url, err, want)
		}
	}
	for key, want := range map[string]string{
		"id":              "",
		"query:id":        "is not stored with a message",
		"body:items[].id": "",
		"item:id":         "is not stored with a message",
	} {
		if err := sendkafka.CheckKey(key); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("key %s: error %v, want %q", key, err, want)
		}
		if _, err := sendkafka.New("kafka://h/a", sendkafka.Options{Key: key}); err == nil || !strings.Contains(err.Error(), "key: ") {
			t.Errorf("key %s: error %v", key, err)
		}
	}
	parse := func(url string, o sendkafka.Options) *sendkafka.Sender {
		s, err := sendkafka.New(url, o)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	cert, _ := brokertest.Certificate(t)
	url := "kafkas://u:canary@a,b:1/orders?sasl=scram-sha-256&ca=" + cert
	s := parse(url, sendkafka.Options{})
	if got, want := s.Address(), "kafkas://a:9092,b:1/orders"; got != want {
		t.Errorf("address %s, want %s", got, want)
	}
	if got := fmt.Sprintf("%s %v %+v %#v", s, s, s, s); strings.Contains(got, "canary") || strings.Contains(got, cert) {
		t.Errorf("printed %s", got)
	}
	if !s.Equal(parse(url, sendkafka.Options{})) || s.Equal(parse(strings.Replace(url, "canary", "other", 1), sendkafka.Options{})) ||
		s.Equal(parse(url, sendkafka.Options{Key: "body:id"})) {
		t.Error("Equal")
	}
}
