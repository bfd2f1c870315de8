package cli

import (
	"fmt"
	"time"
)

// progress is one line on a terminal that says how far something came;
// elsewhere it is nothing.
type progress struct {
	p     *program
	on    bool
	shown time.Time
}

func (p *program) newProgress() *progress { return &progress{p: p, on: isTerminal(p.stderr)} }

// show replaces the line, a few times a second.
func (g *progress) show(format string, args ...any) {
	const pause = 100 * time.Millisecond
	if now := time.Now(); g.on && now.Sub(g.shown) >= pause {
		g.shown = now
		fmt.Fprintf(g.p.stderr, "\r"+format+"\x1b[K", args...)
	}
}

// watch calls show until done is closed: from one goroutine, as show wants.
func (g *progress) watch(done <-chan struct{}, show func()) {
	if !g.on {
		<-done
		return
	}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
			show()
		}
	}
}

// end takes the line away.
func (g *progress) end() {
	if !g.shown.IsZero() {
		g.shown = time.Time{}
		fmt.Fprint(g.p.stderr, "\r\x1b[K")
	}
}
