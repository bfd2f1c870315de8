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
	silent  bool     // the endpoint gave no answer
	let     bool     // the endpoint accepted a request that it must refuse
	left    string   // why the check does not apply; "" if it does

	reason, remedy, anchor string // replace those of the check, unless ""
}

func pass(saw string) outcome    { return outcome{verdict: Pass, saw: saw} }
func fail(saw string) outcome    { return outcome{verdict: Fail, saw: saw} }
func unknown(saw string) outcome { return outcome{verdict: Unknown, saw: saw} }

// leftOut is the outcome of a check that does not apply.
func leftOut(why string) outcome { return outcome{left: why} }

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

// appears waits until each event has taken effect, and returns false if one has not in the time of
// --wait.
func (p *probe) appears(ctx context.Context, ids []string) (bool, error) {
	began := time.Now()
	deadline := began.Add(p.Wait)
	step := 20 * time.Millisecond
	for {
		found, err := counts(ctx, p.Effects, ids)
		missing := slices.ContainsFunc(ids, func(id string) bool { return found[id] == 0 })
		switch {
		case err != nil:
			return false, err
		case !missing:
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
	if !p.counted || len(all) == 0 {
		for _, t := range trials {
			p.uncounted(t)
		}
		return
	}
	_, _ = p.appears(ctx, once) // the count below tells
	// A second effect may come as late as the first one came.
	_ = pause(ctx, min(max(time.Second, 2*p.lag), 5*time.Second))
	found, err := counts(ctx, p.Effects, all)
	for _, t := range trials {
		t.judge(found, err)
	}
}

// uncounted completes a verdict without effects.
func (p *probe) uncounted(t *trial) {
	switch {
	case t.verdict != Pass:
	case p.Effects == "" && t.decides:
		t.verdict, t.saw = Unknown, t.saw+"; needs --effects"
	case p.failed != nil && (t.decides || t.name == validName):
		t.verdict, t.saw = Unknown, fmt.Sprintf("%s; --effects: %v", t.saw, p.failed)
	case p.Effects != "" && t.name == validName:
		t.lost(fmt.Sprintf("%s, effects 0 after %s", t.saw, p.Wait))
	case p.Effects != "" && t.decides:
		t.verdict, t.saw = Unknown, t.saw+"; the effect of a valid event was not counted either"
	}
}

// judge completes a verdict with the effects that were found.
func (t *trial) judge(found map[string]int, err error) {
	ids := slices.Concat(t.once, t.never)
	if len(ids) == 0 {
		return
	}
	if err != nil {
		if t.verdict == Pass && t.decides {
			t.verdict, t.saw = Unknown, fmt.Sprintf("%s; --effects: %v", t.saw, err)
		}
		return
	}
	var texts []string
	lost, twice := false, false
	for _, id := range t.once {
		lost, twice = lost || found[id] == 0, twice || found[id] > 1
	}
	for _, id := range t.never {
		twice = twice || found[id] > 0
	}
	for _, id := range ids {
		texts = append(texts, fmt.Sprint(found[id]))
	}
	saw := t.saw + ", effects " + strings.Join(texts, " ")
	switch {
	case t.verdict != Pass:
		t.saw = saw
	case twice:
		t.verdict, t.saw = Fail, saw
	case lost:
		t.lost(saw)
	default:
		t.saw = saw
	}
}

// lost is the verdict on an accepted event without an effect.
func (t *trial) lost(saw string) {
	t.verdict, t.saw, t.anchor = Fail, saw, "lost"
	t.reason = "A 2xx ends the sender's retries, but the work was not done: the event is lost."
	t.remedy = "Store the id and the work in one transaction, and answer after its commit"
}
