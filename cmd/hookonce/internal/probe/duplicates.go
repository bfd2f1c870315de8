package probe

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// copiesAtOnce is the number of copies in the check of a race.
const copiesAtOnce = 20

func runDuplicate(ctx context.Context, p *probe) outcome {
	e := newEvent()
	answers := []answer{p.deliver(ctx, e), p.deliver(ctx, e), p.deliver(ctx, e)}
	return firstTime(answers).effective(e).decided()
}

// firstTime judges answers that a right receiver gives 2xx. If not even the first delivery of an event is
// accepted, the fault is another one than the check looks for.
func firstTime(answers []answer) outcome {
	o := fail(list(answers))
	switch {
	case all(answers, answer.accepted):
		o.verdict = Pass
	case !answers[0].accepted():
		o.reason = "A valid event was not accepted, although an earlier one was."
		o.remedy = "Look into the log of the receiver for the reason, and probe again"
	}
	return o
}

func runRace(ctx context.Context, p *probe) outcome {
	e := newEvent()
	answers, err := p.atOnce(ctx, e, copiesAtOnce)
	if err != nil {
		return unknown(err.Error())
	}
	saw := tally(answers)
	refused := slices.ContainsFunc(answers, func(a answer) bool { return !a.accepted() && !a.again() })
	if !refused && !slices.ContainsFunc(answers, answer.accepted) { // the sender delivers again
		more := p.redeliver(ctx, e, 3)
		saw += ", then " + list(more)
		refused = !last(more).accepted()
	}
	o := pass(saw)
	if refused {
		o = fail(saw)
		o.reason, o.remedy = "A copy was refused that arrived beside another one: the sender takes it for its own fault.",
			"Answer 2xx to a duplicate, or 503 while another request holds the event"
	}
	return o.effective(e).decided()
}

// atOnce delivers n copies of an event at the same moment: each waits with its last byte until all are
// ready.
func (p *probe) atOnce(ctx context.Context, e *event, n int) ([]answer, error) {
	exchanges := make([]*exchange, n)
	answers := make([]answer, n)
	var ready, running sync.WaitGroup
	release := make(chan struct{})
	for i := range n {
		req, err := p.delivery(e)
		if err != nil {
			return nil, err
		}
		ready.Go(func() {
			if exchanges[i], err = p.client.open(ctx, req); err == nil {
				err = exchanges[i].write(1)
			}
			answers[i].err = err
		})
	}
	ready.Wait()
	for i, x := range exchanges {
		if x == nil {
			continue
		}
		defer x.close()
		if answers[i].err != nil {
			continue
		}
		running.Go(func() {
			<-release
			answers[i] = x.finish()
		})
	}
	close(release)
	running.Wait()
	return answers, nil
}

// tally counts answers, as "19×200, 1×500".
func tally(answers []answer) string {
	by := make(map[string]int)
	for _, a := range answers {
		by[a.String()]++
	}
	var texts []string
	for _, text := range slices.Sorted(maps.Keys(by)) {
		texts = append(texts, fmt.Sprintf("%d×%s", by[text], text))
	}
	return strings.Join(texts, ", ")
}

// runAfterFailure cuts connections at several moments of the usual answer time. It delivers an event
// again when its first attempt must be over.
func runAfterFailure(ctx context.Context, p *probe) outcome {
	const moments = 5
	usual := p.usual()
	var events []*event
	for i := range moments {
		e := newEvent()
		if err := p.cut(ctx, e, usual*time.Duration(i)/moments); err != nil {
			return unknown(err.Error())
		}
		events = append(events, e)
	}
	_ = pause(ctx, max(time.Second, 3*usual))
	var lasts, shown []answer
	for _, e := range events {
		answers := p.redeliver(ctx, e, 4)
		lasts, shown = append(lasts, last(answers)), append(shown, answers...)
	}
	saw := fmt.Sprintf("%d cut, then %s", moments, tally(shown))
	o := pass(saw)
	if !all(lasts, answer.accepted) {
		o = fail(saw)
	}
	return o.effective(events...).decided()
}

// cut sends a delivery and closes the connection after some time, without reading the answer.
func (p *probe) cut(ctx context.Context, e *event, after time.Duration) error {
	req, err := p.delivery(e)
	if err != nil {
		return err
	}
	x, err := p.client.open(ctx, req)
	if err != nil {
		return err
	}
	defer x.close()
	if err := x.write(0); err != nil {
		return err
	}
	return pause(ctx, after)
}

func planOtherBody(p *probe) plan {
	e := newEvent()
	first, err := p.delivery(e)
	if err != nil {
		return unmade(err)
	}
	other, err := p.signed(e, variant{body: p.extend})
	if err != nil {
		return unmade(err)
	}
	if other == nil || p.refused(other) || len(p.ids(first)) == 0 || !slices.Equal(p.ids(first), p.ids(other)) {
		return leftOut("another body of " + p.Sender.Spec.Title + " is another event, or its id is unknown")
	}
	return talk(func(ctx context.Context) outcome {
		return firstTime(p.sendAll(ctx, first, other)).effective(e).decided()
	})
}

// extend adds a field to a body.
func (p *probe) extend(body []byte) ([]byte, bool) {
	switch p.Sender.ContentType() {
	case "application/json":
		return addMember(body, `"zz_probe":2`)
	case "application/x-www-form-urlencoded":
		return append(bytes.Clone(body), "&zz_probe=2"...), true
	}
	return nil, false
}

func planSameBody(p *probe) plan {
	if p.SetsID || bytes.Contains(p.Body, []byte(idMark)) {
		return leftOut("--body or --set writes the id into the body")
	}
	one, two := newEvent(), newEvent()
	first, err := p.delivery(one)
	if err != nil {
		return unmade(err)
	}
	second, err := p.signed(two, variant{body: func([]byte) ([]byte, bool) { return first.Body, true }})
	if err != nil {
		return unmade(err)
	}
	if second == nil || p.refused(second) || !bytes.Equal(first.Body, second.Body) ||
		len(p.ids(first)) == 0 || slices.Equal(p.ids(first), p.ids(second)) {
		return leftOut("the id of an event is in the body")
	}
	return talk(func(ctx context.Context) outcome {
		return firstTime(p.sendAll(ctx, first, second)).effective(one, two).decided()
	})
}
