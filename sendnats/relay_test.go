package sendnats_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/rig"
	"github.com/hookonce/hookonce/provider"
	"github.com/hookonce/hookonce/sendnats"
)

// TestDestination sends events through an engine, whose destination a reload replaces by an equal one
// and then by another. The server has the connections of the Senders in use only, and after Run none.
func TestDestination(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	stream := s.stream(t.Context(), -1)
	const secret = "0123456789abcdef0123456789abcdef"
	config := func(user string) *hookonce.Config {
		sender, err := sendnats.New(s.url(user), sendnats.Options{AllowPrivate: true})
		if err != nil {
			t.Fatal(err)
		}
		return &hookonce.Config{
			Sources:      []hookonce.Source{{Name: "gh", Provider: provider.GitHub, Secrets: hookonce.StaticSecrets(secret)}},
			Destinations: []hookonce.Destination{{Name: "orders", Sender: sender, Secret: secret}},
			Routes:       []hookonce.Route{{Name: "all", To: "orders"}},
		}
	}
	in, err := hookonce.NewEngine(rig.OpenSQLite(t), config(""))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- in.Run(ctx) }()
	deliver := func(id string, stored uint64) {
		t.Helper()
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte("{}"))
		r := httptest.NewRequest("POST", "/webhooks/gh", strings.NewReader("{}"))
		r.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
		r.Header.Set("X-GitHub-Delivery", id)
		r.Header.Set("X-GitHub-Event", "push")
		w := httptest.NewRecorder()
		if in.ServeHTTP(w, r); w.Code != 200 {
			t.Fatalf("answered %d: %s", w.Code, w.Body)
		}
		eventually.True(t, "the stream has the messages", func() bool { info, err := stream.Info(t.Context()); return err == nil && info.State.Msgs == stored })
	}
	first := config("").Destinations[0].Sender
	deliver("1", 1)
	m, err := stream.GetMsg(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"Webhook-Id", "Webhook-Signature", "Hookonce-Event-Id", "Nats-Msg-Id"} {
		if m.Header.Get(name) == "" {
			t.Errorf("no header %s in %v", name, m.Header)
		}
	}
	if err := in.Reload(config("")); err != nil {
		t.Fatal(err)
	}
	deliver("2", 2)
	if n := s.made(t); n != 1 {
		t.Errorf("%d connections made, want 1: a reload without changes keeps it", n)
	}
	if err := in.Reload(config("someone@")); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "no connection is open", func() bool { return s.open(t) == 0 })
	deliver("3", 3)
	if got, want := in.Operator().Destinations()[0].Address, first.(*sendnats.Sender).Address(); got != want {
		t.Errorf("address %q, want %q", got, want)
	}
	stop()
	if err := eventually.Receive(t, "Run ends", ended); err != nil {
		t.Error(err)
	}
	eventually.True(t, "no connection is open", func() bool { return s.open(t) == 0 })
}
