// Package probe tests a webhook endpoint from outside: it holds a real conversation with it, as a
// provider would, and judges the answers. A command of the user tells how often an event took effect,
// because answers cannot show that. Other commands cause what requests cannot: --restart restarts the
// receiver between two deliveries, and --break makes its work fail until --mend. Most receivers lose events
// in these two ways, so probe has the commands for two checks alone.
package probe

import (
	"cmp"
	"context"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hookonce/hookonce/internal/sample"
	"github.com/hookonce/hookonce/verify"
)

// Bounds of a probe: of the conversation, and of counting its effects.
const (
	maxTime   = 4 * time.Minute
	countTime = time.Minute
)

// Config says what to probe, and how.
type Config struct {
	Target    *url.URL
	PublicURL string // for senders that sign it
	Sender    *sample.Sender
	Key       verify.Key
	Header    http.Header    // added to each request
	RootCAs   *x509.CertPool // of the endpoint's certificate; nil: those of the system
	Type      string         // of the events
	Body      []byte         // with {id} for the event's id; nil: one that fits the provider
	// Model returns a body of the provider as the base of an event's body; see
	// sample.Draft. nil: the body has the needed fields alone.
	Model func(id string) []byte
	// Set changes the body of an event before it is signed; nil changes nothing. SetsID says that it
	// writes the id.
	Set    func(req *verify.Request, id string) error
	SetsID bool

	// Effects, Restart, Break and Mend are commands for sh; "" for none. Effects prints how often the
	// event {id} took effect. Restart kills and starts the receiver. Break makes the receiver's work
	// fail until Mend has run.
	Effects, Restart, Break, Mend string

	Checks  []string      // the names of the checks to run; none: all
	Timeout time.Duration // for one answer
	Wait    time.Duration // for an effect
	Count   time.Duration // for one run of Effects; 0: 15 s
	// Progress is called before each check with its title. May be nil.
	Progress func(title string)
}

// Verdict is the outcome of a check.
type Verdict string

// The verdicts.
const (
	Pass    Verdict = "pass"
	Fail    Verdict = "fail"
	Unknown Verdict = "unknown"
)

// Result is the outcome of one check, in the shape of --json.
type Result struct {
	Name    string  `json:"name"`
	Verdict Verdict `json:"verdict"`
	Sent    string  `json:"sent"`
	Saw     string  `json:"saw"`
	Why     string  `json:"why"`
	Fix     string  `json:"fix"`

	Remedy string        `json:"-"` // Fix without the address
	Title  string        `json:"-"`
	Took   time.Duration `json:"-"`
	NotRun bool          `json:"-"` // it would show nothing; Saw tells why
}

// LeftOut is a check that does not apply, and why.
type LeftOut struct{ Name, Why string }

// Report is the outcome of a probe, in the shape of --json.
type Report struct {
	Checks  []Result `json:"checks"`
	Passed  int      `json:"passed"`
	Failed  int      `json:"failed"`
	Unknown int      `json:"unknown"`

	LeftOut  []LeftOut `json:"-"`
	Requests int       `json:"-"`

	Refused bool  `json:"-"` // the valid event was not accepted: the first check tells why
	Asking  int   `json:"-"` // checks that are unknown because --effects was not given
	Effects error `json:"-"` // of the command of --effects
}

// probe is one run.
type probe struct {
	*sender
	client  *client
	unsent  string         // the id of an event that is never sent
	counted bool           // the effects of events can be counted
	failed  error          // of the command of --effects, as a whole
	most    map[string]int // the largest number of effects that was found, by id
	lag     time.Duration  // the longest wait for an effect

	mu    sync.Mutex
	times []time.Duration // of accepted deliveries
}

// trial is a check that has run, and waits for the effects of its events.
type trial struct {
	*check
	outcome
	left string // why the check does not apply; "" if it does
	took time.Duration
}

// Check reports a configuration that makes no event, or whose events have no ids of their own.
func Check(c *Config) error {
	s, err := newSender(c)
	if err != nil {
		return err
	}
	one, err := s.signed(newEvent(), variant{})
	if err != nil || c.Body == nil && c.Set == nil || s.extractor == nil {
		return err
	}
	two, err := s.signed(newEvent(), variant{})
	if err != nil {
		return err
	}
	if ids := s.ids(one); len(ids) == 0 || slices.Equal(ids, s.ids(two)) {
		return fmt.Errorf("--body, --set: write {id} where the event's id is, at %s", c.Sender.Rules.ID)
	}
	return nil
}

// Run probes an endpoint. The error is about the configuration, or it is that of ctx; every fault of
// the endpoint and of the commands is in the report.
func Run(ctx context.Context, c *Config) (*Report, error) {
	s, err := newSender(c)
	if err != nil {
		return nil, err
	}
	p := &probe{
		sender: s, client: &client{target: c.Target, roots: c.RootCAs, timeout: c.Timeout}, unsent: newEvent().id, most: make(map[string]int),
	}
	if c.Effects != "" {
		p.failed = p.checkEffects(ctx)
		p.counted = p.failed == nil
	}
	talking, cancel := context.WithTimeoutCause(ctx, maxTime, errTime)
	defer cancel()
	trials := p.runAll(talking)
	counting, cancel := context.WithTimeoutCause(ctx, countTime, errCountTime)
	defer cancel()
	p.settle(counting, trials)
	return p.report(trials), ctx.Err()
}

var (
	errTime      = fmt.Errorf("a probe ends after %d minutes", maxTime/time.Minute)
	errCountTime = fmt.Errorf("the %d seconds for counting effects are over", countTime/time.Second)
)

// runAll runs the checks in their order. The first is always that of a valid event: the meaning of the
// others depends on it. It is reported if it was chosen, or did not pass.
func (p *probe) runAll(ctx context.Context) []*trial {
	valid := p.try(ctx, &checks[0], nil)
	if p.counted && valid.verdict == Pass {
		p.counted, p.failed = p.appears(ctx, valid.once)
	}
	trials := []*trial{valid}
	confirmed := false
	for i := range checks[1:] {
		k := &checks[i+1]
		if !k.refuses && !confirmed {
			p.confirm(ctx, trials[1:])
			confirmed = true
		}
		if p.chosen(k) {
			trials = append(trials, p.try(ctx, k, valid))
		}
	}
	return trials
}

// confirm delivers a valid event after the forged ones. A refusal shows nothing if the endpoint answers
// the valid event alike by now.
func (p *probe) confirm(ctx context.Context, refusals []*trial) {
	passed := slices.DeleteFunc(slices.Clone(refusals), func(t *trial) bool { return t.verdict != Pass })
	if len(passed) == 0 {
		return
	}
	a := p.deliver(ctx, newEvent())
	for _, t := range passed {
		if t.saw == a.String() {
			t.verdict, t.saw = Unknown, fmt.Sprintf("%s; then a valid event got %s, too", t.saw, a)
		}
	}
}

func (p *probe) chosen(k *check) bool { return len(p.Checks) == 0 || slices.Contains(p.Checks, k.name) }

// try runs one check. valid is the outcome of the first one, or nil.
func (p *probe) try(ctx context.Context, k *check, valid *trial) *trial {
	if p.Progress != nil {
		p.Progress(k.title)
	}
	t := &trial{check: k}
	began := time.Now()
	plan := k.plan(p)
	// Where valid events are not accepted, refusals prove nothing. Accepting a forged one still does.
	refused := valid != nil && valid.verdict == Fail
	switch {
	case plan.left != "":
		t.left = plan.left
	case ctx.Err() != nil:
		t.outcome = notRun(context.Cause(ctx).Error())
	case refused && valid.silent:
		t.outcome = notRun("no answer to a valid event")
	case refused && !k.refuses:
		t.outcome = notRun("a valid event is not accepted")
	default:
		t.outcome = p.converse(ctx, plan)
		if refused && !t.let && t.verdict != Unknown {
			t.outcome = unknown(t.saw + "; a valid event is not accepted, either")
		}
	}
	t.took = time.Since(began)
	return t
}

// converse runs a check. A failure is none of the endpoint if the probe had no more time or requests.
func (p *probe) converse(ctx context.Context, plan plan) outcome {
	o := plan.talk(ctx)
	if o.verdict != Fail || o.let {
		return o
	}
	switch {
	case ctx.Err() != nil:
		return unknown("not complete: " + context.Cause(ctx).Error())
	case p.client.sent.Load() > maxRequests:
		return unknown("not complete: " + errBudget.Error())
	}
	return o
}

func (p *probe) report(trials []*trial) *Report {
	r := &Report{Checks: []Result{}, Requests: int(min(p.client.sent.Load(), maxRequests))}
	for _, t := range trials {
		if t.name == validName && t.verdict == Pass && !p.chosen(t.check) {
			continue
		}
		if t.left != "" {
			r.LeftOut = append(r.LeftOut, LeftOut{t.name, t.left})
			continue
		}
		r.Refused = r.Refused || t.refused
		r.Asking += btoi(t.asks)
		r.Effects = cmp.Or(r.Effects, t.failed)
		switch t.verdict {
		case Pass:
			r.Passed++
		case Fail:
			r.Failed++
		default:
			r.Unknown++
		}
		r.Checks = append(r.Checks, Result{
			Name: t.name, Verdict: t.verdict, Sent: t.sent, Saw: t.saw,
			Why: cmp.Or(t.reason, t.why), Fix: cmp.Or(t.remedy, t.fix) + ": " + Page() + "#" + cmp.Or(t.anchor, t.name),
			Remedy: cmp.Or(t.remedy, t.fix) + ".", Title: t.title, Took: t.took, NotRun: strings.HasPrefix(t.saw, notRunMark),
		})
	}
	return r
}

// took keeps the answer time of an accepted delivery.
func (p *probe) took(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.times = append(p.times, d)
}

// usual returns the median answer time so far.
func (p *probe) usual() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.times) == 0 {
		return 0
	}
	times := slices.Sorted(slices.Values(p.times))
	return times[len(times)/2]
}
