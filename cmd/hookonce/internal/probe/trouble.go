package probe

import (
	"context"
	"time"
)

// startTime is how long a receiver may need to accept connections after it was started.
const startTime = 30 * time.Second

// workTime is how long a receiver that has accepted an event can fail to work on it before --mend.
const workTime = 2 * time.Second

func planRestart(p *probe) plan {
	if p.Restart == "" {
		return leftOut("needs --restart")
	}
	return always(runRestart)(p)
}

func planOwnTrouble(p *probe) plan {
	if p.Break == "" {
		return leftOut("needs --break and --mend")
	}
	return always(runOwnTrouble)(p)
}

// runRestart delivers one event before and after --restart. It delivers a second one just before: if
// the receiver accepts that, it must take effect, because no sender delivers it again.
func runRestart(ctx context.Context, p *probe) outcome {
	e, kept := newEvent(), newEvent()
	before := []answer{p.deliver(ctx, e)}
	if !before[0].accepted() {
		return fail(list(before))
	}
	if p.counted {
		_, _ = p.appears(ctx, []string{e.id}) // the count at the end tells
	}
	before = append(before, p.deliver(ctx, kept))
	if err := command(ctx, "--restart", p.Restart); err != nil {
		return unknown(err.Error())
	}
	if err := p.client.reachable(ctx, startTime); err != nil {
		return unknown("after --restart: " + answer{err: err}.String())
	}
	after := p.redeliver(ctx, e, 5)
	o := fail(list(before) + ", restart, " + list(after)).effective(e).decided()
	if last(after).accepted() {
		o.verdict = Pass
	}
	if last(before).accepted() {
		o = o.effective(kept)
	}
	return o
}

func runOwnTrouble(ctx context.Context, p *probe) outcome {
	e := newEvent()
	first, err := p.whileBroken(ctx, e)
	if err != nil {
		return unknown(err.Error())
	}
	saw := first.String()
	switch {
	case first.accepted(): // the sender does not deliver it again
		return pass(saw).effective(e).decided()
	case !first.again():
		return fail(saw)
	}
	if err := p.client.reachable(ctx, startTime); err != nil {
		return unknown("after --mend: " + answer{err: err}.String())
	}
	answers := p.redeliver(ctx, e, 5)
	o := fail(saw + ", mended, " + list(answers))
	if last(answers).accepted() {
		o.verdict = Pass
	}
	return o.effective(e).decided()
}

// whileBroken delivers an event between --break and --mend. It mends also if ctx ends meanwhile.
func (p *probe) whileBroken(ctx context.Context, e *event) (a answer, err error) {
	defer func() {
		if errMend := command(context.WithoutCancel(ctx), "--mend", p.Mend); errMend != nil {
			err = errMend
		}
	}()
	if err := command(ctx, "--break", p.Break); err != nil {
		return answer{}, err
	}
	if a = p.deliver(ctx, e); a.accepted() {
		_ = pause(ctx, workTime) // the work may follow the answer
	}
	return a, nil
}
