package demo

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/internal/locate"
	"github.com/hookonce/hookonce/provider"
	"github.com/hookonce/hookonce/verify"
)

// The plan is the traffic that the command promises.
func TestPlan(t *testing.T) {
	t.Parallel()
	p := newPlan()
	deliveries, forged, storms, impatient := 0, map[forgery]int{}, 0, 0
	delivered := make(map[*event]bool)
	place := make(map[*event]int) // of the first delivery
	for i, v := range p.volleys {
		if len(v) > 1 {
			storms++
		}
		for _, d := range v {
			deliveries++
			if d.impatient {
				impatient++
			}
			if d.forged != authentic {
				forged[d.forged]++
			} else if !delivered[d.event] {
				delivered[d.event], place[d.event] = true, i
			}
		}
	}
	if len(p.events) != 2000 || len(delivered) != 2000 {
		t.Errorf("%d events, %d of them delivered", len(p.events), len(delivered))
	}
	if deliveries != p.deliveries || deliveries < 9500 || deliveries > 11_500 {
		t.Errorf("%d deliveries, the plan says %d; want about 10,000", deliveries, p.deliveries)
	}
	if storms < 300 || impatient < 100 {
		t.Errorf("%d volleys of copies, %d impatient deliveries: too few to be traffic", storms, impatient)
	}
	for _, how := range []forgery{corrupted, wrongSecret, unsigned, captured} {
		if forged[how] < 20 {
			t.Errorf("%d deliveries with %s", forged[how], how)
		}
	}
	closed, late, sources := 0, 0, map[provider.Name]int{}
	for i, e := range p.events {
		sources[e.source]++
		if e.account == closedAccount {
			closed++
		}
		if i >= changedTwice && i < 2*changedTwice {
			newer := p.events[i-changedTwice]
			if newer.account != e.account || newer.version <= e.version {
				t.Errorf("change %d is not older than %d: %+v, %+v", i, i-changedTwice, e.facts, newer.facts)
			}
			if place[e] > place[newer]+inFlight {
				late++
			}
		}
	}
	if closed != closedCount || late != changedTwice || len(sources) != 5 {
		t.Errorf("%d transfers to the closed account, %d late changes, events by source %v", closed, late, sources)
	}
}

// Each event is signed as its provider does, and each forgery is refused. The facts are in the body.
func TestSign(t *testing.T) {
	t.Parallel()
	senders, err := newSenders(newSecrets())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		s := senders[name]
		extract, err := provider.CompileRules(s.Rules)
		if err != nil {
			t.Fatal(err)
		}
		for i := range forms[name] {
			f := &forms[name][i]
			e := &event{source: name, form: f}
			e.fill(6, "cus_1", 1250, 7)
			want := facts{account: "cus_1", cents: 1250}
			if f.version != "" {
				want = facts{account: "cus_1", version: e.version}
			}
			if got, err := read(string(name), f.typ, []byte(e.body)); err != nil || got != want || f.version != "" && got.version == 0 {
				t.Errorf("%s %s: read %+v, %v, want %+v", name, f.typ, got, err, want)
			}
			for _, how := range []forgery{authentic, corrupted, wrongSecret, unsigned, captured} {
				req, err := s.sign(e, how)
				if err != nil {
					t.Fatal(err)
				}
				req.Now = time.Now()
				err = s.Verifier.Verify(req, []verify.Key{s.key})
				signsNoTime := name == provider.GitHub || name == provider.Shopify
				if valid := how == authentic || how == captured && signsNoTime; (err == nil) != valid {
					t.Errorf("%s %s, %q: %v", name, f.typ, how, err)
				}
				if how != authentic {
					continue
				}
				events, bad := extract.Extract(&locate.Input{Header: req.Header, Body: req.Body})
				if len(events) != 1 || len(bad) != 0 || events[0].ID != e.id || events[0].Type != f.typ {
					t.Errorf("%s: events %+v, malformed %+v, want %s of type %s", name, events, bad, e.id, f.typ)
				}
			}
		}
	}
	if _, err := read("stripe", "unknown", []byte("{}")); err == nil {
		t.Error("an unknown type has facts")
	}
	if _, err := read("stripe", "charge.succeeded", []byte(`{"data":{}}`)); err == nil {
		t.Error("a body without facts has some")
	}
}

// Every run has the same traffic.
func TestPlanIsTheSame(t *testing.T) {
	t.Parallel()
	one, two := newPlan(), newPlan()
	ids := func(p *plan) (all []string) {
		for _, v := range p.volleys {
			for _, d := range v {
				all = append(all, d.id+d.body+string(d.forged))
			}
		}
		return all
	}
	if diff := cmp.Diff(ids(one), ids(two)); diff != "" {
		t.Errorf("two plans differ:\n%s", diff)
	}
}
