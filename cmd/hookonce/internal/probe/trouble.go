package probe

import (
	"context"
	"time"
)

// startTime is how long a receiver may need to accept connections after it was started.
const startTime = 30 * time.Second

func needsRestart(c *Config) string {
	if c.Restart == "" {
		return "needs --restart"
	}
	return ""
}

func needsBreak(c *Config) string {
	if c.Break == "" {
		return "needs --break and --mend"
	}
	return ""
}

func runRestart(ctx context.Context, p *probe) outcome {
	e := newEvent()
	first := p.deliver(ctx, e)
	if !first.accepted() {
		return fail(first.String())
	}
	if p.counted {
		_, _ = p.appears(ctx, []string{e.id}) // the count at the end tells
	}
	if err := command(ctx, "--restart", p.Restart); err != nil {
		return unknown(err.Error())
	}
	if err := p.client.reachable(ctx, startTime); err != nil {
		return unknown("after --restart: " + answer{err: err}.String())
	}
	answers := p.redeliver(ctx, e, 5)
	o := fail(first.String() + ", restart, " + list(answers))
	if last(answers).accepted() {
		o.verdict = Pass
	}
	return o.effective(e).decided()
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
	return p.deliver(ctx, e), nil
}
