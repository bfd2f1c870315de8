package cli

import (
	"fmt"
	"time"
)

// progress is one line on a terminal that shows how far a command has come. It prints nothing if
// stderr is not a terminal.
type progress struct {
	p     *program
	on    bool
	shown time.Time
}

func (p *program) newProgress() *progress { return &progress{p: p, on: isTerminal(p.stderr)} }

// show replaces the line, at most ten times a second. It is not safe for concurrent use.
func (g *progress) show(format string, args ...any) {
	const pause = 100 * time.Millisecond
	if now := time.Now(); g.on && now.Sub(g.shown) >= pause {
		g.shown = now
		fmt.Fprintf(g.p.stderr, "\r"+format+"\x1b[K", args...)
	}
}

// watch calls show, in this goroutine, until done is closed.
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

// end removes the line.
func (g *progress) end() {
	if !g.shown.IsZero() {
		g.shown = time.Time{}
		fmt.Fprint(g.p.stderr, "\r\x1b[K")
	}
}
