package e2e

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// A destination, or a proxy in front of it, answers each request twice. The second answer must not
// be taken for the answer to another request, because a refused message would then count as sent.
//
// A few events are refused among many that are accepted, so several requests are always under way
// and could get each other's answers.
func TestSecondAnswerBelongsToNobody(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{"empty": "", "with a body": "once"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answersTwice(t, body)
		})
	}
}

func answersTwice(t *testing.T, body string) {
	const refused, atLeast = 20, 200
	h, taken := &hostile{}, answerOf(200, "", body)
	var refusals atomic.Int64
	h.choose = func(r *received) fault {
		first := taken
		if strings.HasPrefix(r.eventID(), "refused") && !h.isHealed() {
			first = answerOf(500, "", body)
			refusals.Add(1)
		} else {
			h.work(r)
		}
		return func(_ *hostile, conn net.Conn) bool { return write(conn, first+taken) }
	}
	h.start(t, false)
	w := newWorld(t, newDatabase(t, "sqlite"), randomSettings)
	w.env = append(w.env, "HOSTILE="+h.url())
	g := w.start(t)
	for i := range refused {
		g.expect(t, play(fmt.Sprintf("refused-%d", i), ""), "200 ok")
	}
	var senders sync.WaitGroup
	var enough atomic.Bool
	for sender := range 8 {
		senders.Go(func() {
			for i := 0; !enough.Load(); i++ {
				g.accept(t, play(fmt.Sprintf("taken-%d-%d", sender, i), ""))
			}
		})
	}
	t.Cleanup(senders.Wait)
	t.Cleanup(func() { enough.Store(true) })
	g.eventually(t, "many requests were refused", func() bool { return refusals.Load() >= atLeast })
	enough.Store(true)
	senders.Wait()
	for i := range refused {
		if id := fmt.Sprintf("refused-%d", i); g.played(t, id).State == "done" {
			t.Errorf("%s is done, but the destination refused it each time", id)
		}
	}
	h.heal()
	for i := range refused {
		id := fmt.Sprintf("refused-%d", i)
		checkCounted(t, g.waitState(t, "play", id, "done"), h.seen(id))
	}
}
