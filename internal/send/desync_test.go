package send

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hookonce/hookonce/internal/test/group"
)

// twice is a destination that refuses a quarter of the messages, and says 200 once more after a share
// of its answers.
type twice struct {
	share float64
	after time.Duration

	verdicts sync.Map // the last one by webhook-id: true for taken
	reused   atomic.Int64
	again    atomic.Int64
	all      *tried
}

// tried counts the messages of all trials.
type tried struct{ reused, again atomic.Int64 }

func (a *tried) enough() bool { return a.reused.Load() > 0 && a.again.Load() > 0 }

// shared is a connection whose answers come from two goroutines.
type shared struct {
	net.Conn
	mu sync.Mutex
}

func (d *twice) answer(x *exchangeNo, out *shared) bool {
	<-time.After(rand.N(4 * time.Millisecond)) // its work
	taken := rand.N(4) > 0
	d.verdicts.Store(x.id, taken)
	if x.request > 1 {
		d.reused.Add(1)
		d.all.reused.Add(1)
	}
	text := ok200
	if !taken {
		text = "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"
	}
	out.mu.Lock()
	defer out.mu.Unlock()
	if _, err := io.WriteString(out, text); err != nil || x.header.Get("Connection") == "close" {
		return false
	}
	if rand.Float64() < d.share {
		d.again.Add(1)
		d.all.again.Add(1)
		time.AfterFunc(d.after, func() {
			out.mu.Lock()
			defer out.mu.Unlock()
			_, _ = io.WriteString(out, ok200)
		})
	}
	return true
}

// TestDesync holds the rules for kept connections against destinations that answer twice. A message
// is lost if it counts as sent although the destination refused it. A destination that is barred is
// followed by a new one. The trials go on until connections were used again, and answers were doubled.
func TestDesync(t *testing.T) {
	t.Parallel()
	// A busy machine delays answers, so confirming takes longer. Watching takes less, so that more
	// connections are used again.
	last, r := 2500*time.Millisecond, defaultRules
	r.watch, r.confirm = 50*time.Millisecond, 250*time.Millisecond
	if group.Long() {
		last, r = 2*time.Minute, defaultRules
	}
	var all tried
	var trials sync.WaitGroup
	for _, share := range []float64{0.002, 0.01, 0.05, 0.2, 1} {
		for _, after := range []time.Duration{time.Millisecond, 20 * time.Millisecond, 300 * time.Millisecond} {
			trials.Go(func() {
				desync(t, &twice{share: share, after: after, all: &all}, r, last)
			})
		}
	}
	trials.Wait()
}

func desync(t *testing.T, d *twice, r rules, last time.Duration) {
	var outs sync.Map
	url := serveEach(t, func(x *exchangeNo) bool {
		out, _ := outs.LoadOrStore(x.connection, &shared{Conn: x.Conn})
		return d.answer(x, out.(*shared))
	})
	s, barred := keeping(t, r, nil)
	var sent sync.Map
	var next, doubts atomic.Int64
	ctx, cancel := context.WithTimeout(t.Context(), last)
	defer cancel()
	var workers sync.WaitGroup
	for range 16 {
		workers.Go(func() {
			for ctx.Err() == nil || !d.all.enough() {
				target, msg := to(url), message()
				target.Name, msg.ID = fmt.Sprint(barred.Load()), fmt.Sprintf("m%d", next.Add(1))
				switch got := s.Send(t.Context(), target, msg); {
				case got.Err == nil:
					sent.Store(msg.ID, true)
				case got.StatusCode == 200:
					doubts.Add(1)
				}
			}
		})
	}
	workers.Wait()
	lost := 0
	sent.Range(func(id, _ any) bool {
		if taken, _ := d.verdicts.Load(id); taken != true {
			lost++
		}
		return true
	})
	t.Logf("share %g, after %s: %d messages, %d on used connections, %d answered twice, barred %d times, %d doubts, %d lost",
		d.share, d.after, next.Load(), d.reused.Load(), d.again.Load(), barred.Load(), doubts.Load(), lost)
	if lost > 0 {
		t.Errorf("share %g, after %s: %d messages are lost", d.share, d.after, lost)
	}
}
