package sendnats_test

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/internal/test/brokertest"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/sendnats"
)

// proxied starts a server with a stream, and a proxy before it, whose URL it returns.
func proxied(t *testing.T) (*server, *brokertest.Proxy, string) {
	t.Helper()
	s := startServer(t)
	s.stream(t.Context(), -1)
	p := brokertest.StartProxy(t, s.Addr)
	return s, p, strings.Replace(s.url(""), s.Addr, p.Addr, 1)
}

// TestFullConnection has a server read no more, and sends more than fits into the buffers. Each attempt ends, and the
// Sender goes on with another connection.
func TestFullConnection(t *testing.T) {
	t.Parallel()
	_, p, url := proxied(t)
	left := brokertest.RunMarked(t, func(ctx context.Context) {
		sender, err := sendnats.New(url, sendnats.Options{AllowPrivate: true})
		if err != nil {
			t.Fatal(err)
		}
		defer sender.Close()
		if err := sender.Send(ctx, outgoing("before")); err != nil {
			t.Fatal(err)
		}
		p.Freeze()
		sendMany(t, sender)
		eventually.True(t, "a message is sent", func() bool { return sender.Send(ctx, outgoing("after")) == nil })
	})
	eventually.True(t, "nothing of the Sender is left", func() bool { return !left() })
}

// sendMany sends many large messages to a server that reads none. Without bounded writes that takes a minute.
func sendMany(t *testing.T, sender hookonce.Sender) {
	t.Helper()
	brokertest.EndInTime(t, 40, func(ctx context.Context, i int) error {
		m := outgoing("large" + strconv.Itoa(i))
		m.Body = make([]byte, 400<<10)
		return sender.Send(ctx, m)
	})
}

// TestLostConfirmation loses the confirmation of a message that the stream has. The attempt fails, and the next one
// stores nothing more.
func TestLostConfirmation(t *testing.T) {
	t.Parallel()
	s, p, url := proxied(t)
	stream := s.stream(t.Context(), -1)
	stored := func() uint64 {
		info, err := stream.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return info.State.Msgs
	}
	sender := newSender(t, url)
	if err := sender.Send(t.Context(), outgoing("before")); err != nil {
		t.Fatal(err)
	}
	p.Mute(true)
	sendUnanswered(t, sender, func() bool { return stored() == 2 })
	p.Mute(false)
	p.Cut()
	eventually.True(t, "the message is sent", func() bool { return sender.Send(t.Context(), outgoing("unanswered")) == nil })
	if got := stored(); got != 2 {
		t.Errorf("%d messages, want 2", got)
	}
}
