package sendnats_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/internal/test/eventually"
)

// rights has a user with the rights that docs/destinations.md names, and two who have one of them each.
const rights = `authorization: {users: [
	{user: admin, password: canary}
	{user: both, password: canary, permissions: {publish: "orders.created", subscribe: "_INBOX.>"}}
	{user: reads, password: canary, permissions: {publish: {deny: ">"}, subscribe: "_INBOX.>"}}
	{user: writes, password: canary, permissions: {publish: "orders.created", subscribe: {deny: ">"}}}
]}`

func TestRights(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(path, []byte(rights), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startServer(t, "-c", path)
	s.streamAs(t.Context(), -1, nats.UserInfo("admin", "canary"))
	for user, want := range map[string]string{
		"both":   "",
		"reads":  `let this user publish; allow subject "orders.created"`,
		"writes": "allow it to subscribe to _INBOX.>",
	} {
		sender := newSender(t, s.url(user+":canary@"))
		if want == "" {
			if err := sender.Send(t.Context(), outgoing("1")); err != nil {
				t.Errorf("user %s: %v", user, err)
			}
			continue
		}
		// NATS tells of the refusal while the attempt waits for the confirmation.
		eventually.True(t, "the refusal is named", func() bool { return strings.Contains(sendUnanswered(t, sender, sender.Refused), want) })
	}
}

// sendUnanswered sends a message that gets no answer until the Sender is in a state, and returns the error.
func sendUnanswered(t *testing.T, sender hookonce.Sender, reached func() bool) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- sender.Send(ctx, outgoing("unanswered")) }()
	eventually.True(t, "the server is reached", reached)
	cancel()
	err := <-ended
	if err == nil {
		t.Fatal("sent without an answer")
	}
	return err.Error()
}

// received returns how many messages the server got.
func (s *server) received(t *testing.T) (n int) {
	t.Helper()
	resp, err := http.Get(fmt.Sprintf("http://%s/varz", s.Monitor))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var got struct {
		InMsgs int `json:"in_msgs"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil {
		t.Fatal(err)
	}
	return got.InMsgs
}

// TestRefusal has the server refuse a publish. Attempts without an answer give that as the reason, until one succeeds
// or the Sender connects again.
func TestRefusal(t *testing.T) {
	t.Parallel()
	s, p, url := proxied(t)
	sender := newSender(t, url)
	const violation = "-ERR 'Permissions Violation for Publish to \"orders.created\"'\r\n"
	const told = "does not let this user publish"
	attempt := func(refused bool) {
		t.Helper()
		before := s.received(t)
		p.Mute(true)
		defer p.Mute(false)
		err := sendUnanswered(t, sender, func() bool { return s.received(t) > before })
		if got := strings.Contains(err, told); got != refused {
			t.Errorf("the refusal is in the error: %v, want %v: %s", got, refused, err)
		}
	}
	refuse := func() {
		p.Inject(violation)
		eventually.True(t, "the server refuses", sender.Refused)
	}
	send := func() {
		t.Helper()
		if err := sender.Send(t.Context(), outgoing("sent")); err != nil {
			t.Fatal(err)
		}
	}
	send()
	refuse()
	attempt(true)
	attempt(true)
	send()
	attempt(false)

	refuse()
	p.Cut()
	eventually.True(t, "one connection is open again", func() bool { return s.open(t) == 1 && !sender.Refused() })
	attempt(false)
}
