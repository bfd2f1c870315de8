//go:build unix

package sendnats_test

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A server that answers nothing any more, but whose machine keeps the connection open, is left for another one.
func TestFrozenServerIsLeft(t *testing.T) {
	t.Parallel()
	servers := []*server{startServer(t), startServer(t)}
	for _, s := range servers {
		s.stream(t.Context(), -1)
	}
	sender := newSender(t, strings.Replace(servers[0].url(""), servers[0].Addr, servers[0].Addr+","+servers[1].Addr, 1))
	sender.PingEvery(50 * time.Millisecond)
	if err := sender.Send(t.Context(), outgoing("before")); err != nil {
		t.Fatal(err)
	}
	used := servers[0]
	if servers[1].open(t) > 0 {
		used = servers[1]
	}
	if err := syscall.Kill(used.Pid(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	// The deadline of the test bounds the attempts.
	for {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		err := sender.Send(ctx, outgoing("after"))
		cancel()
		if err == nil {
			return
		}
		t.Log(err)
	}
}
