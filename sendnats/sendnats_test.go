package sendnats_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/internal/test/brokertest"
	"github.com/hookonce/hookonce/sendnats"
)

// server is a NATS server with JetStream, whose files outlive its process.
type server struct {
	*brokertest.NATS

	t *testing.T
}

func startServer(t *testing.T, args ...string) *server {
	t.Helper()
	return &server{brokertest.StartNATS(t, args...), t}
}

// connections returns how many connections of hookonce the server has in a state: open or closed.
func (s *server) connections(t *testing.T, state string) (n int) {
	t.Helper()
	resp, err := http.Get(fmt.Sprintf("http://%s/connz?state=%s", s.Monitor, state))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var got struct {
		Connections []struct{ Name string }
	}
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil {
		t.Fatal(err)
	}
	for _, c := range got.Connections {
		if c.Name == "hookonce" {
			n++
		}
	}
	return n
}

func (s *server) open(t *testing.T) int { return s.connections(t, "open") }

// made returns how many connections there ever were.
func (s *server) made(t *testing.T) int { return s.connections(t, "open") + s.connections(t, "closed") }

func (s *server) url(user string) string {
	return fmt.Sprintf("nats://%s%s/orders.created", user, s.Addr)
}

// stream connects, waits for the server, and returns a stream for the subject.
func (s *server) stream(ctx context.Context, maxSize int32) jetstream.Stream {
	s.t.Helper()
	return s.streamAs(ctx, maxSize)
}

// streamAs is stream with options for the connection.
func (s *server) streamAs(ctx context.Context, maxSize int32, options ...nats.Option) jetstream.Stream {
	s.t.Helper()
	options = append(options, nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond))
	nc, err := nats.Connect("nats://"+s.Addr, options...)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		s.t.Fatal(err)
	}
	for began := time.Now(); ; {
		stream, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
			Name: "ORDERS", Subjects: []string{"orders.>"}, MaxMsgSize: maxSize, AllowRollup: true, Duplicates: time.Hour,
		})
		if err == nil {
			return stream
		}
		if ctx.Err() != nil || time.Since(began) > time.Minute { // another program may have its port
			s.t.Fatalf("no stream: %v", err)
		}
	}
}

func newSender(t *testing.T, url string) *sendnats.Sender {
	t.Helper()
	s, err := sendnats.New(url, sendnats.Options{AllowPrivate: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func outgoing(id string) *hookonce.Outgoing {
	return &hookonce.Outgoing{
		ID: id, Source: "shop", EventID: "evt_" + id, Attempt: 1, Body: []byte(`{"id":"` + id + `"}`),
		HTTPHeader: http.Header{"X-Shop": {"yes"}, "Nats-Rollup": {"all"}, "Nats-Msg-Id": {"forged"}, "Webhook-Id": {id}, "Hookonce-Event-Id": {"evt_" + id}},
	}
}

func TestStreamHoldsEachMessageOnce(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	stream := s.stream(t.Context(), -1)
	sender := newSender(t, s.url(""))
	for _, id := range []string{"a", "b", "a"} {
		if err := sender.Send(t.Context(), outgoing(id)); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for seq := uint64(1); seq <= 2; seq++ {
		m, err := stream.GetMsg(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, m.Header.Get("Nats-Msg-Id")+" "+m.Header.Get("Webhook-Id")+" "+m.Header.Get("X-Shop")+" "+string(m.Data))
		if m.Header.Get("Nats-Rollup") != "" {
			t.Errorf("header %v", m.Header)
		}
	}
	if diff := cmp.Diff([]string{`a a yes {"id":"a"}`, `b b yes {"id":"b"}`}, got); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
	if info, err := stream.Info(t.Context()); err != nil || info.State.Msgs != 2 {
		t.Errorf("the stream has %+v, %v", info, err)
	}
}

// TestKilledServer kills the server again and again under load. What Send reported as sent is in the
// stream, and each id is there once.
func TestKilledServer(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.stream(t.Context(), -1)
	sender := newSender(t, s.url(""))
	const each, kills, senders = 150, 3, 4
	var wg sync.WaitGroup
	progress := make(chan struct{}, each*senders)
	for n := range senders {
		wg.Go(func() {
			for i := range each {
				m := outgoing(fmt.Sprintf("m%d-%d", n, i))
				for { // as the relay does
					ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
					err := sender.Send(ctx, m)
					cancel()
					if err == nil {
						break
					}
					if t.Context().Err() != nil {
						return
					}
				}
				progress <- struct{}{}
			}
		})
	}
	for range kills {
		for range each * senders / (kills + 1) {
			<-progress
		}
		s.Kill()
		s.Start()
	}
	wg.Wait()
	stream := s.stream(t.Context(), -1)
	info, err := stream.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]int)
	for seq := info.State.FirstSeq; seq <= info.State.LastSeq; seq++ {
		if m, err := stream.GetMsg(t.Context(), seq); err == nil {
			seen[m.Header.Get("Nats-Msg-Id")]++
		}
	}
	for n := range senders {
		for i := range each {
			if id := fmt.Sprintf("m%d-%d", n, i); seen[id] != 1 {
				t.Errorf("%s is in the stream %d times", id, seen[id])
			}
		}
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	open := startServer(t)
	open.stream(t.Context(), 1000)
	locked := startServer(t, "--user", "u", "--pass", "canary")
	elsewhere := strings.Replace(open.url(""), "orders.created", "nobody.listens", 1)
	large := outgoing("large")
	large.Body = make([]byte, 2000)
	huge := outgoing("huge")
	huge.Body = make([]byte, 2<<20)
	down := startServer(t)
	down.Kill()
	for _, c := range []struct {
		name, url string
		m         *hookonce.Outgoing
		want      string
		permanent bool
	}{
		{"no stream", elsewhere, outgoing("1"), "create a stream", false},
		{"too large for the stream", open.url(""), large, "too large for NATS", true},
		{"too large for the server", open.url(""), huge, "too large for NATS", true},
		{"wrong password", locked.url("u:wrongcanary@"), outgoing("1"), "refused the credentials", false},
		{"server down", down.url(""), outgoing("1"), "check that the server is up", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			sender := newSender(t, c.url)
			var err error
			for { // a server that is just starting is not up yet
				err = sender.Send(t.Context(), c.m)
				if c.name == "server down" || err == nil || !errors.Is(err, nats.ErrNoServers) {
					break
				}
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "canary") {
				t.Fatalf("error %v, want %q", err, c.want)
			}
			if got := strings.Contains(fmt.Sprintf("%T", err), "ermanent"); got != c.permanent {
				t.Errorf("%T: permanent %v, want %v", err, got, c.permanent)
			}
		})
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	cert, key := brokertest.Certificate(t)
	s := startServer(t, "--tls", "--tlscert", cert, "--tlskey", key)
	s.streamAs(t.Context(), -1, nats.RootCAs(cert))
	url := "tls://" + s.Addr + "/orders.created"
	if err := newSender(t, url).Send(t.Context(), outgoing("1")); err == nil || !strings.Contains(err.Error(), "?ca=FILE") {
		t.Errorf("an unknown authority: %v", err)
	}
	if err := newSender(t, url+"?ca="+cert).Send(t.Context(), outgoing("1")); err != nil {
		t.Error(err)
	}
	plain := startServer(t)
	plain.stream(t.Context(), -1)
	if err := newSender(t, strings.Replace(plain.url(""), "nats://", "tls://", 1)).Send(t.Context(), outgoing("1")); err == nil || !strings.Contains(err.Error(), "secure connection") {
		t.Errorf("a server without TLS: %v", err)
	}
}

// TestSeveralServers has a second server take over from one that is gone. A private address needs AllowPrivate.
func TestSeveralServers(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.stream(t.Context(), -1)
	if err := newSender(t, strings.Replace(s.url(""), "nats://", "nats://127.0.0.1:1,", 1)).Send(t.Context(), outgoing("1")); err != nil {
		t.Error(err)
	}
	public, err := sendnats.New(s.url(""), sendnats.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := public.Send(t.Context(), outgoing("1")); err == nil || !strings.Contains(err.Error(), "must not be dialled") {
		t.Errorf("a private address: %v", err)
	}
}

func TestNew(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"nats://canary:canary@h:1/":      "subject",
		"nats://h/a.*":                   "wildcards",
		"nats://h/a..b":                  "subject",
		"nats://h/$JS.API.STREAM.PURGE":  "subject",
		"nats:///a":                      "host",
		"http://h/a":                     "nats://",
		"nats://h/a?x=canary":            "creds",
		"nats://h:canary/a":              "not a URL",
		"nats://h/a?creds=/missing":      "file of the URL's creds, /missing, cannot be read: no such file",
		"tls://u:canary@h/a?ca=/missing": "file of the URL's ca, /missing, cannot be read: no such file",
		"nats://s3cr/canary=@h/a":        "percent-encode",
	} {
		if _, err := sendnats.New(url, sendnats.Options{AllowPrivate: true}); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: error %v, want %q", url, err, want)
		}
	}
	cert, _ := brokertest.Certificate(t)
	creds := filepath.Join(t.TempDir(), "user.creds")
	newAuthority(t).writeCreds(creds, time.Time{})
	rest := "@h:4222/a.b?ca=" + cert + "&creds=" + creds
	s := newSender(t, "nats://u:canary"+rest)
	if got := fmt.Sprintf("%s %v %+v %#v", s.Address(), s, s, s); strings.Contains(got, "canary") || strings.Contains(got, cert) || strings.Contains(got, creds) {
		t.Errorf("printed %s", got)
	}
	if !s.Equal(newSender(t, "nats://u:canary"+rest)) || s.Equal(newSender(t, "nats://u:other"+rest)) {
		t.Error("Equal")
	}
}
