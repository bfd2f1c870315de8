package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hookonce/hookonce/internal/test/eventually"
)

func TestGracefulStop(t *testing.T) {
	anyStore(t, func(t *testing.T, db *database) {
		w := newWorld(t, db, standardSettings)
		g := w.start(t)
		var (
			mu       sync.Mutex
			acked    []string
			enough   = make(chan struct{})
			stopped  atomic.Bool
			senders  sync.WaitGroup
			statuses = make(map[string]int)
		)
		for sender := range 8 {
			senders.Go(func() {
				for i := 0; !stopped.Load(); i++ {
					id := fmt.Sprintf("s%d-%d", sender, i)
					a, err := g.tryDeliver(push(id))
					if err != nil {
						continue // the gateway refused or cut the connection
					}
					mu.Lock()
					statuses[a.short()]++
					if a.status == http.StatusOK {
						acked = append(acked, id)
						if len(acked) == 200 {
							close(enough)
						}
					}
					mu.Unlock()
				}
			})
		}
		eventually.Receive(t, "200 deliveries", enough)
		g.stop(t) // checks the exit code and the time
		stopped.Store(true)
		senders.Wait()
		for status := range statuses {
			if status != "200 ok" && status != "503" {
				t.Errorf("%d answers %s, want 200 ok and 503 only", statuses[status], status)
			}
		}
		listed := make(map[string]bool)
		for _, ev := range w.start(t).waitAllDone(t, "github") {
			listed[ev.EventID] = true
		}
		for _, id := range acked {
			if !listed[id] {
				t.Errorf("%s was acknowledged, but does not exist", id)
			}
		}
		// A graceful stop releases or completes every lease.
		for _, id := range acked {
			if got := w.sink.requests(id); len(got) != 1 {
				t.Errorf("%s was forwarded %d times, want once", id, len(got))
			}
		}
	})
}

// arriving sends all of a delivery except its last bytes.
func arriving(t *testing.T, g *gateway) (conn net.Conn, rest string) {
	t.Helper()
	conn, err := net.Dial("tcp", g.public)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // the gateway may have closed it
	request := rawRequest("late", good)
	cut := len(request) - 5
	if _, err := io.WriteString(conn, request[:cut]); err != nil {
		t.Fatal(err)
	}
	return conn, request[cut:]
}

// A second SIGTERM forces a stop that still waits.
func TestSecondSignalForces(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newDatabase(t, "sqlite"), standardSettings)
	g := w.start(t)
	arriving(t, g)
	g.expect(t, push("first"), "200 ok")
	g.Signal(t, syscall.SIGTERM)
	g.killed = true
	g.Eventually(t, "the gateway stops", func() bool { return g.readiness() != http.StatusOK })
	select {
	case <-g.Exited:
		t.Error("the gateway ended while a body was arriving")
	default:
	}
	began := time.Now()
	g.Signal(t, syscall.SIGTERM)
	eventually.Receive(t, "the gateway ends after the second SIGTERM", g.Exited)
	if g.Cmd.ProcessState.ExitCode() == 0 {
		t.Errorf("a forced stop ended with code 0 after %s", time.Since(began))
	}
}

// Two gateways start on an empty PostgreSQL at the same moment.
func TestGatewaysMigrateTogether(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newDatabase(t, "postgres"), standardSettings)
	args := []string{"--config", "hookonce.yaml"}
	var gateways []*gateway
	for range 3 {
		gateways = append(gateways, w.spawn(t, args...))
	}
	for i, g := range gateways {
		g.public, g.admin = g.Addresses(t)
		g.waitReady(t)
		g.expect(t, push("gh-1"), map[bool]string{true: "200 ok", false: "200 duplicate"}[i == 0])
	}
}
