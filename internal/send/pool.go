package send

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"
)

// rules say when a connection may serve another request. The package comment gives the reasons.
type rules struct {
	rest             time.Duration // between an answer and the next request
	trial            int           // connections that must stay quiet before the first one is used again
	watch            time.Duration // how long a connection of the trial is watched
	age              time.Duration // after it was dialled, a connection begins no request
	confirm, longest time.Duration // bounds of the wait after a success on a connection that was used before
	bar              time.Duration // without reuse, after bytes that answer no request
}

var defaultRules = rules{
	rest: 5 * time.Millisecond, trial: 16, watch: time.Second, age: 3 * time.Second,
	confirm: 5 * time.Millisecond, longest: time.Second, bar: time.Hour,
}

// maxKept bounds the connections of one destination that serve, or may serve, several requests.
const maxKept = 512

// pool holds the HTTP/1 connections to one destination.
type pool struct {
	rules    *rules
	dialer   *dialer
	onBarred func(reason string) // called once when reuse ends for rules.bar

	mu     sync.Mutex
	idle   []*conn // at rest, that of the earliest answer first
	trial  []*conn // watched
	ending []*conn // after their last answer
	// open counts the connections that are idle, watched, ending or in an exchange; trials those of the
	// trial among them, and passed those that stayed quiet.
	open, trials, passed int
	barred               time.Time     // no connection is used again before
	bars                 int           // how often reuse was barred
	http1                bool          // the destination speaks HTTP/1, at least lately; over TLS it may be HTTP/2
	slowest              time.Duration // the longest time to an answer; it fades away
	sweeping             bool
}

// The reasons to bar reuse.
const (
	reasonSpoke = "it sent bytes that answer no request"
	reasonEnded = "it closed a kept connection right after an answer without Connection: close"
	reasonLong  = "it answered with 64 KiB or more on a kept connection"
)

var (
	// errNotKept says that the exchange needs a connection of its own.
	errNotKept    = errors.New("no connection may be kept")
	errSpokeFirst = errors.New("the destination sent bytes before it got a request")
)

// exchange sends req on a connection that has rested or, if the pool has room, on a new one. The
// error is errNotKept if nothing was sent, or if a connection that was used before broke before the
// first byte of an answer: then req may be sent on a connection of its own.
func (p *pool) exchange(ctx context.Context, req *request) (*exchange, error) {
	c, err := p.connection(ctx, req)
	if err != nil {
		return nil, err
	}
	req.begun = true
	x, err := c.exchange(ctx, req)
	if err == nil {
		p.timed(x.took)
		return x, nil
	}
	p.discard(c)
	if c.reused && errors.Is(err, errNoAnswer) && ctx.Err() == nil && time.Now().Before(req.deadline) {
		return nil, errNotKept
	}
	return nil, err
}

func (p *pool) connection(ctx context.Context, req *request) (*conn, error) {
	if c := p.take(); c != nil {
		return c, nil
	}
	trial, ok := p.reserve()
	if !ok {
		return nil, errNotKept
	}
	ctx, cancel := context.WithDeadline(ctx, req.deadline)
	defer cancel()
	req.begun = true
	c, err := p.dialer.open(ctx, req.url)
	if err != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.forget(trial)
		if errors.Is(err, errHTTP2) {
			p.http1 = false
			return nil, errNotKept
		}
		return nil, err
	}
	c.trial = trial
	if c.tls == nil && c.look() == spoke {
		p.bar(reasonSpoke)
		p.discard(c)
		return nil, errSpokeFirst
	}
	return c, nil
}

// take returns a connection that has rested and is quiet; nil if there is none.
func (p *pool) take() *conn {
	for {
		c := p.oldest(time.Now())
		if c == nil {
			return nil
		}
		switch c.look() {
		case quiet:
			c.reused = true
			return c
		case spoke:
			p.bar(reasonSpoke)
		}
		p.discard(c)
	}
}

// oldest removes the idle connection of the earliest answer, if that has rested for long enough.
func (p *pool) oldest(now time.Time) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.idle) > 0 {
		c := p.idle[0]
		if now.Sub(c.rested) < p.rules.rest {
			return nil
		}
		p.idle = p.idle[1:]
		if now.Sub(c.dialled) < p.rules.age {
			return c
		}
		p.close(c)
	}
	return nil
}

// reserve makes room for a new connection, unless none may be kept. trial says that it belongs to the
// trial.
func (p *pool) reserve() (trial, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	trial = p.passed < p.rules.trial
	if !p.http1 || now.Before(p.barred) || p.open >= maxKept || trial && p.passed+p.trials >= p.rules.trial {
		return false, false
	}
	p.open++
	if trial {
		p.trials++
	}
	return trial, true
}

// finish ends x. It reports whether the answer, if it is a success, may count: on a connection that
// was used before, finish calls answered and waits until the answer can hardly be a late one to an
// earlier request.
func (p *pool) finish(x *exchange, success bool, answered func()) bool {
	x.rested = time.Now()
	again := x.detached() && x.mayServeAgain()
	counts := !x.reused || !success || x.body.complete && p.confirm(x, answered)
	if x.reused && success && !x.body.complete {
		p.bar(reasonLong) // else each such answer would cost an attempt
	}
	if x.body.complete && x.br.Buffered() > 0 { // otherwise it is the rest of a long body
		p.bar(reasonSpoke)
		again = false
	}
	switch {
	case counts && again:
		p.keep(x.conn)
	case counts && success:
		p.outlive(x.conn)
	default:
		p.discard(x.conn)
	}
	return counts
}

// confirm waits twice as long as the destination lately took to answer: if the answer belongs to an
// earlier request, that to this request arrives meanwhile. An end of the connection is quiet only if
// the answer announced it: otherwise the request may have gone unanswered.
func (p *pool) confirm(x *exchange, answered func()) bool {
	p.mu.Lock()
	bars, wait := p.bars, p.patience()
	p.mu.Unlock()
	if answered != nil {
		answered()
	}
	time.Sleep(wait)
	switch x.look() {
	case spoke:
		p.bar(reasonSpoke)
		return false
	case ended:
		if !x.framed() || !x.resp.Close {
			p.bar(reasonEnded)
			return false
		}
	case unclear:
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bars == bars // otherwise another connection of this destination spoke meanwhile
}

// patience returns how long a success waits for its confirmation. The caller holds mu.
func (p *pool) patience() time.Duration {
	return min(max(p.rules.confirm, 2*p.slowest), p.rules.longest)
}

// keep takes c back for another request, or to watch it.
func (p *pool) keep(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	switch {
	case now.Before(p.barred) || now.Sub(c.dialled) >= p.rules.age:
		p.close(c)
		return
	case c.trial:
		p.trial = append(p.trial, c)
	default:
		p.idle = append(p.idle, c)
	}
	p.beginSweep()
}

// outlive closes c some time after a success that was its last answer. A reset could lose what the destination has
// not received yet, because it may answer early. And it should close first, see drop.
func (p *pool) outlive(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ending = append(p.ending, c)
	p.beginSweep()
}

// beginSweep makes sweep run. The caller holds mu.
func (p *pool) beginSweep() {
	if !p.sweeping {
		p.sweeping = true
		time.AfterFunc(p.rules.watch/2, p.sweep)
	}
}

// sweep judges the watched connections, and closes those that are too old for another request or have had their last
// answer. It runs while there are any.
func (p *pool) sweep() {
	now := time.Now()
	period := p.rules.watch / 2
	p.mu.Lock()
	var watched, old []*conn
	p.trial = slices.DeleteFunc(p.trial, func(c *conn) bool { return moved(&watched, c, now.Sub(c.rested) >= p.rules.watch) })
	p.idle = slices.DeleteFunc(p.idle, func(c *conn) bool { return moved(&old, c, now.Sub(c.dialled) >= p.rules.age-period) })
	p.ending = slices.DeleteFunc(p.ending, func(c *conn) bool {
		late := now.Sub(c.rested) >= period
		if late {
			p.close(c)
		}
		return late
	})
	p.mu.Unlock()

	for _, c := range watched {
		// The other side may have closed it, but it said nothing before that.
		found := c.look()
		if found == spoke {
			p.bar(reasonSpoke)
		}
		p.judge(c, found == quiet || found == ended)
	}
	for _, c := range old {
		if c.look() == spoke {
			p.bar(reasonSpoke)
		}
		p.end(c)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sweeping = len(p.trial)+len(p.idle)+len(p.ending) > 0
	if p.sweeping {
		time.AfterFunc(period, p.sweep)
	}
}

// moved appends c to list if it is to be moved there.
func moved(list *[]*conn, c *conn, yes bool) bool {
	if yes {
		*list = append(*list, c)
	}
	return yes
}

// judge ends a watched connection.
func (p *pool) judge(c *conn, good bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if good && !time.Now().Before(p.barred) {
		p.passed++
	}
	p.close(c)
}

// bar ends reuse for rules.bar.
func (p *pool) bar(reason string) {
	p.mu.Lock()
	now := time.Now()
	first := !now.Before(p.barred)
	p.barred = now.Add(p.rules.bar)
	p.bars++
	p.passed = 0
	p.closeIdle()
	p.mu.Unlock()
	if first {
		p.onBarred(reason)
	}
}

// learn notes the protocol of an answer on another connection.
func (p *pool) learn(resp *http.Response) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.http1 = resp.ProtoMajor == 1
}

// speaksHTTP1 reports whether the destination lately spoke HTTP/1.
func (p *pool) speaksHTTP1() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.http1
}

// timed notes the time to an answer.
func (p *pool) timed(took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.slowest = max(took, p.slowest-p.slowest/64)
}

// discard ends a connection without a clean state.
func (p *pool) discard(c *conn) {
	c.drop()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forget(c.trial)
}

// end closes a connection.
func (p *pool) end(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.close(c)
}

// close closes c. The caller holds mu.
func (p *pool) close(c *conn) {
	_ = c.socket().Close()
	p.forget(c.trial)
}

// forget gives up the room of a connection. The caller holds mu.
func (p *pool) forget(trial bool) {
	p.open--
	if trial {
		p.trials--
	}
}

// closeIdle closes all connections without an exchange. The caller holds mu.
func (p *pool) closeIdle() {
	for _, c := range slices.Concat(p.idle, p.trial, p.ending) {
		p.close(c)
	}
	p.idle, p.trial, p.ending = nil, nil, nil
}
