package probe

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/hookonce/hookonce/internal/say"
	"github.com/hookonce/hookonce/provider"
	"github.com/hookonce/hookonce/verify"
)

func runValid(ctx context.Context, p *probe) outcome {
	e := newEvent()
	a := p.deliver(ctx, e)
	o := fail(a.String()).effective(e)
	if a.accepted() {
		o.verdict, o.saw = Pass, fmt.Sprintf("%s in %s", a, say.Brief(a.took))
		return o
	}
	f := refusalOf(a)
	if a.status == 0 && a.err != nil {
		f = faultOf(a.err)
	}
	o.saw, o.reason, o.remedy = f.saw, f.why, f.fix
	o.refused, o.silent = true, a.status == 0
	return o
}

// mustRefuse sends a request that a right receiver answers 401 or 400.
func (p *probe) mustRefuse(e *event, req *verify.Request) plan {
	if req == nil || !p.refused(req) {
		return leftOut("the signatures of " + p.Sender.Spec.Title + " do not show it")
	}
	return talk(func(ctx context.Context) outcome { return p.expectRefusal(ctx, e, req) })
}

func (p *probe) expectRefusal(ctx context.Context, e *event, req *verify.Request) outcome {
	a := p.client.send(ctx, req)
	o := fail(a.String())
	switch {
	case a.status == http.StatusUnauthorized || a.status == http.StatusBadRequest:
		o = pass(a.String())
	case a.accepted():
		o.let = true
	case a.status != 0:
		o.reason = "It was refused, but not with 401 or 400: a sender may take that for trouble of the receiver, and go on."
	}
	return o.ineffective(e)
}

// mustAccept sends requests that a right receiver answers 2xx.
func (p *probe) mustAccept(ctx context.Context, reqs ...*verify.Request) outcome {
	answers := p.sendAll(ctx, reqs...)
	if all(answers, answer.accepted) {
		return pass(list(answers))
	}
	return fail(list(answers))
}

// sendAll sends requests in sequence.
func (p *probe) sendAll(ctx context.Context, reqs ...*verify.Request) []answer {
	var answers []answer
	for _, req := range reqs {
		answers = append(answers, p.client.send(ctx, req))
	}
	return answers
}

func (p *probe) unsignedSender() (plan, bool) {
	return leftOut(p.Sender.Spec.Title + " signs nothing"), !p.Sender.Verifier.NeedsKeys()
}

func planTampered(p *probe) plan {
	if left, ok := p.unsignedSender(); ok {
		return left
	}
	if f := p.Sender.Scheme.Family; f == verify.FamilyToken || f == verify.FamilyBasic {
		return leftOut(p.Sender.Spec.Title + " sends a shared secret, which covers no byte of the body")
	}
	e := newEvent()
	req, err := p.signed(e, variant{})
	if err != nil {
		return unmade(err)
	}
	if err := p.Sender.Corrupt(req, p.Key); err != nil {
		return leftOut(err.Error())
	}
	return p.mustRefuse(e, req)
}

func planWrongSecret(p *probe) plan {
	if left, ok := p.unsignedSender(); ok {
		return left
	}
	key, err := p.otherKey()
	if err != nil {
		return unmade(err)
	}
	e := newEvent()
	req, err := p.signed(e, variant{key: &key})
	if err != nil {
		return unmade(err)
	}
	return p.mustRefuse(e, req)
}

func (p *probe) otherKey() (verify.Key, error) {
	private, _, err := p.Sender.Verifier.GenerateKey()
	if err != nil {
		return verify.Key{}, err
	}
	return p.Sender.Verifier.ParseKey(private)
}

func planNoSignature(p *probe) plan {
	if left, ok := p.unsignedSender(); ok {
		return left
	}
	e := newEvent()
	req, err := p.signed(e, variant{})
	if err != nil {
		return unmade(err)
	}
	if !p.Sender.Strip(req) { // the signature is in the query or the body
		if req, _, err = p.unsigned(e, 0); err != nil {
			return unmade(err)
		}
	}
	return p.mustRefuse(e, req)
}

func planOld(p *probe) plan    { return p.skewed(-1) }
func planFuture(p *probe) plan { return p.skewed(+1) }

// skewed delivers an event with a wrong signed time. It is an hour off, or an hour beyond the
// tolerance of a provider that allows more.
func (p *probe) skewed(direction time.Duration) plan {
	tolerance := p.Sender.Tolerance()
	if tolerance == 0 {
		return leftOut(p.Sender.Spec.Title + " signs no time")
	}
	off := time.Hour
	if tolerance >= time.Hour {
		off += tolerance
	}
	e := newEvent()
	req, err := p.signed(e, variant{skew: direction * off})
	if err != nil {
		return unmade(err)
	}
	return p.mustRefuse(e, req)
}

// repeating lists the providers with signatures in key=value form that send several of them while a
// secret is replaced, by their own documentation.
var repeating = []provider.Name{provider.Stripe, provider.PagerDuty, provider.Paddle}

func planSeveral(p *probe) plan {
	if p.Sender.Scheme.Format == verify.FormatKV && !slices.Contains(repeating, p.Sender.Spec.Name) {
		return leftOut(p.Sender.Spec.Title + " sends one signature")
	}
	key, err := p.otherKey()
	if err != nil {
		return unmade(err)
	}
	var events []*event
	var reqs []*verify.Request
	for _, wrongFirst := range []bool{true, false} {
		e := newEvent()
		right, errRight := p.signed(e, variant{})
		wrong, errWrong := p.signed(e, variant{key: &key})
		if err := cmp.Or(errRight, errWrong); err != nil {
			return unmade(err)
		}
		if !p.Sender.Join(right, wrong, wrongFirst) || p.refused(right) {
			return leftOut(p.Sender.Spec.Title + " sends one signature")
		}
		events, reqs = append(events, e), append(reqs, right)
	}
	return talk(func(ctx context.Context) outcome { return p.mustAccept(ctx, reqs...).effective(events...) })
}

func planRawBody(p *probe) plan {
	odd, plain := newEvent(), newEvent()
	req, err := p.signed(odd, variant{body: p.jsonBody(reformat)})
	if err != nil {
		return unmade(err)
	}
	if req == nil || p.refused(req) {
		return leftOut(p.Sender.Spec.Title + " signs no JSON text as it is")
	}
	spaced, err := p.signed(plain, variant{})
	if err != nil {
		return unmade(err)
	}
	spaced.Body = append(spaced.Body, ' ')
	return talk(func(ctx context.Context) outcome {
		o := p.mustAccept(ctx, req).effective(odd)
		if !p.refused(spaced) {
			return o
		}
		refusal := p.expectRefusal(ctx, plain, spaced)
		o.saw += ", then " + refusal.saw
		o.never = refusal.never
		if refusal.verdict != Pass {
			o.verdict = refusal.verdict
		}
		return o
	})
}

// jsonBody returns change for senders whose bodies are JSON, and a function that refuses all others.
func (p *probe) jsonBody(change func([]byte) ([]byte, bool)) func([]byte) ([]byte, bool) {
	kind, _, _ := strings.Cut(p.Sender.Rules.Document, ":")
	if p.Sender.ContentType() != "application/json" || kind == provider.DocumentJWT {
		return func([]byte) ([]byte, bool) { return nil, false }
	}
	return change
}

func all(answers []answer, is func(answer) bool) bool {
	return !slices.ContainsFunc(answers, func(a answer) bool { return !is(a) })
}

// list returns the answers in their order, as "200, 500".
func list(answers []answer) string {
	var texts []string
	for _, a := range answers {
		texts = append(texts, a.String())
	}
	return strings.Join(texts, ", ")
}
