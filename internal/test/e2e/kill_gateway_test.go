package e2e

import (
	"testing"
	"time"

	"github.com/hookonce/hookonce/internal/test/group"
)

// One of two gateways is killed at random moments and started again, many times. No acknowledged
// event is lost, and each is forwarded under one webhook-id.
func TestOneOfTwoGatewaysKilled(t *testing.T) {
	t.Parallel()
	l := newLoad(t, newDatabase(t, "postgres"), loadSettings, "a", "b")
	l.startAll()
	l.killGateways(group.Rounds(8, 100))
	l.finish()
	mustHave(t, interrupted(l.check()))
}

// The only gateway is killed, many times.
func TestOnlyGatewayKilled(t *testing.T) {
	t.Parallel()
	l := newLoad(t, newDatabase(t, "sqlite"), loadSettings, "a")
	l.startAll()
	l.killGateways(group.Rounds(6, 50))
	l.finish()
	mustHave(t, interrupted(l.check()))
}

// killGateways kills the gateway in a random place at a random moment and starts another one there,
// at least times over. Now and then it kills that one while it starts.
func (l *load) killGateways(times int) {
	l.t.Helper()
	l.killAtLeast(times, interrupted, func() {
		p := l.places[l.random.IntN(len(l.places))]
		l.waitRandomMoment(100)
		l.kill(p, p.up.Load())
		if l.random.IntN(8) == 0 {
			g := l.spawn(p)
			<-time.After(time.Duration(l.random.IntN(150)) * time.Millisecond)
			l.kill(p, g)
		}
		l.start(p)
	})
}

func (l *load) kill(p *place, g *gateway) {
	l.t.Helper()
	g.kill()
	p.up.Store(nil)
	l.figures.kills++
}

// interrupted are the faults of a load whose gateways are killed.
func interrupted(f figures) map[string]int {
	return map[string]int{
		"a delivery was cut off":                                  f.cutDeliveries,
		"a request to the destination was cut off":                f.cutSends,
		"a message that the destination had taken was sent again": f.again,
		"a claim was committed and its answer was lost":           f.unheard,
	}
}
