package probe

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// outcome is the result of a check before the effects of its events are counted.
type outcome struct {
	verdict Verdict // by the answers
	saw     string
	once    []string // ids of events that must take effect once
	never   []string // ids of events that must take no effect
	decides bool     // the effects decide: without them a pass is unknown
	refused bool     // a valid event was not accepted
	silent  bool     // the endpoint gave no answer
	let     bool     // the endpoint accepted a request that it must refuse
	asks    bool     // it is unknown because --effects was not given
	failed  error    // of counting the effects

	reason, remedy, anchor string // replace those of the check, unless ""
}

func pass(saw string) outcome    { return outcome{verdict: Pass, saw: saw} }
func fail(saw string) outcome    { return outcome{verdict: Fail, saw: saw} }
func unknown(saw string) outcome { return outcome{verdict: Unknown, saw: saw} }

// notRun is the outcome of a check that would show nothing.
func notRun(why string) outcome { return outcome{verdict: Unknown, saw: notRunMark + why} }

const notRunMark = "not run: "

// effective says which events must take effect once.
func (o outcome) effective(events ...*event) outcome {
	for _, e := range events {
		o.once = append(o.once, e.id)
	}
	return o
}

// ineffective says which event must take no effect.
func (o outcome) ineffective(e *event) outcome {
	o.never = append(o.never, e.id)
	return o
}

// decided says that only the effects show whether a pass is one.
func (o outcome) decided() outcome {
	o.decides = true
	return o
}

// checkEffects runs the command of --effects for an event that is never sent.
func (p *probe) checkEffects(ctx context.Context) error {
	switch found := p.counts(ctx, []string{p.unsent})[p.unsent]; {
	case found.err != nil:
		return found.err
	case found.n != 0:
		return fmt.Errorf("it printed %d for an event that was never sent; it must count the event {id} alone", found.n)
	}
	return nil
}

// appears waits until each event has taken effect, and returns false if one has not in the time of
// --wait.
func (p *probe) appears(ctx context.Context, ids []string) (bool, error) {
	began := time.Now()
	deadline := began.Add(p.Wait)
	step := 20 * time.Millisecond
	for {
		found := p.counts(ctx, ids)
		var missing []string
		for _, id := range ids {
			if err := found[id].err; err != nil {
				return false, err
			}
			if found[id].n == 0 {
				missing = append(missing, id)
			}
		}
		switch ids = missing; {
		case len(ids) == 0:
			return true, nil
		case !time.Now().Before(deadline), pause(ctx, step) != nil:
			return false, nil
		}
		step = min(2*step, time.Second)
		p.lag = max(p.lag, time.Since(began))
	}
}

// settle counts the effects of all events, when they have had the time to happen, and completes the
// verdicts.
func (p *probe) settle(ctx context.Context, trials []*trial) {
	var once, all []string
	for _, t := range trials {
		if t.verdict == Pass {
			once = append(once, t.once...)
		}
		all = append(all, slices.Concat(t.once, t.never)...)
	}
	var found map[string]effects
	if p.counted && len(all) > 0 {
		_, _ = p.appears(ctx, once) // the count below tells
		// A second effect may come as late as the first one came.
		_ = pause(ctx, min(max(time.Second, 2*p.lag), 5*time.Second))
		found = p.counts(ctx, all)
		p.failed = p.checkEffects(ctx) // it may count the events of others since there are some
	}
	for _, t := range trials {
		if found == nil || p.failed != nil {
			p.uncounted(t)
		} else {
			t.judge(found)
		}
	}
}

// uncounted completes a verdict without effects.
func (p *probe) uncounted(t *trial) {
	switch {
	case t.verdict != Pass:
	case p.Effects == "" && t.decides:
		t.verdict, t.saw, t.asks = Unknown, t.saw+"; needs --effects", true
	case p.failed != nil:
		t.undecided(p.failed)
	case p.Effects != "" && t.name == validName:
		t.lost(fmt.Sprintf("%s, effects 0 after %s", t.saw, p.Wait))
	case p.Effects != "" && t.decides:
		t.verdict, t.saw = Unknown, t.saw+"; the effect of a valid event was not counted either"
	}
}

// judge completes a verdict with the effects that were found.
func (t *trial) judge(found map[string]effects) {
	var failed error
	var texts []string
	lost, twice := false, false
	for i, id := range slices.Concat(t.once, t.never) {
		e := found[id]
		if e.err != nil {
			failed = e.err
			texts = append(texts, "?")
			continue
		}
		texts = append(texts, fmt.Sprint(e.n))
		most := 1
		if i >= len(t.once) {
			most = 0
		}
		lost, twice = lost || i < len(t.once) && e.n == 0, twice || e.n > most
	}
	if len(texts) == 0 || t.refused && (lost || failed != nil) {
		return
	}
	saw := t.saw + ", effects " + strings.Join(texts, " ")
	switch {
	case t.verdict != Pass:
		t.saw = saw
	case twice:
		t.verdict, t.saw = Fail, saw
	case failed != nil:
		t.undecided(failed)
	case lost:
		t.lost(saw)
	default:
		t.saw = saw
	}
}

// undecided completes the verdict on right answers whose effects could not be counted. Effects decide
// on a valid event, too, since all other checks compare with it.
func (t *trial) undecided(err error) {
	if t.verdict != Pass || !t.decides && t.name != validName {
		return
	}
	t.verdict, t.saw, t.anchor, t.failed = Unknown, t.saw+"; --effects failed", "effects", err
	t.reason = fmt.Sprintf("--effects: %v.", err)
	t.remedy = "Run the command of --effects by hand, with an id in the place of {id}: it must print one number"
}

// lost is the verdict on an accepted event without an effect.
func (t *trial) lost(saw string) {
	t.verdict, t.saw, t.anchor = Fail, saw, "lost"
	t.reason = "A 2xx ends the sender's retries, but the work was not done: the event is lost."
	t.remedy = "Store the id and the work in one transaction, and answer after its commit"
}
