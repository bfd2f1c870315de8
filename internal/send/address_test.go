package send

import (
	"errors"
	"testing"
)

// The check sees every spelling that the resolver or the kernel understands.
func TestSendRefusesAddresses(t *testing.T) {
	t.Parallel()
	metadata := []string{
		"169.254.169.254", "[::ffff:169.254.169.254]", "[::ffff:a9fe:a9fe]", "[fe80::1]", "[fe80::1%25lo]", "0.0.0.0", "[::]",
		"[fd00:ec2::254]", "[64:ff9b::a9fe:a9fe]", "224.0.0.1",
	}
	for _, host := range metadata {
		for _, allow := range []bool{true, false} {
			target := to("http://" + host + ":80/")
			target.AllowPrivate = allow
			got := newSender(t).Send(t.Context(), target, message())
			if !errors.Is(got.Err, ErrAddress) || got.Permanent || got.StatusCode != 0 {
				t.Errorf("%s, private %v: %+v", host, allow, got)
			}
		}
	}
	for _, host := range []string{"127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "10.1.2.3"} {
		target := to("http://" + host + ":80/")
		target.AllowPrivate = false
		if got := newSender(t).Send(t.Context(), target, message()); !errors.Is(got.Err, ErrAddress) {
			t.Errorf("%s: %+v", host, got)
		}
	}
}

// A strict target must not reuse a connection that a lax one left open.
func TestSendKeepsPoolsApart(t *testing.T) {
	t.Parallel()
	server, connections := countingServer(t, startHTTP2) // HTTP/1 leaves none open
	s := senderFor(t, server)
	strict := to(server.URL)
	lax := *strict
	strict.AllowPrivate = false
	for range 3 {
		if got := s.Send(t.Context(), &lax, message()); got.Err != nil {
			t.Fatal(got.Err)
		}
		if got := s.Send(t.Context(), strict, message()); !errors.Is(got.Err, ErrAddress) {
			t.Fatalf("got %+v", got)
		}
	}
	if got := connections.Load(); got != 1 {
		t.Errorf("%d connections, want 1: nothing was left open", got)
	}
}
