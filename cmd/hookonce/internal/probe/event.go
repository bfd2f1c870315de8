package probe

import (
	"bytes"
	"context"
	"crypto/rand"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/hookonce/hookonce/internal/locate"
	"github.com/hookonce/hookonce/internal/sample"
	"github.com/hookonce/hookonce/provider"
	"github.com/hookonce/hookonce/verify"
)

// sender makes the requests of a probe. It is safe for concurrent use by different events.
type sender struct {
	*Config
	extractor *provider.Extractor // nil if the place of the id is unknown
	identical bool                // copies of an event have equal bytes, since signing again changes its id
}

// event is one event, which is delivered once or more often.
type event struct {
	id    string // as {id} of the commands
	began time.Time
	first *verify.Request // the first delivery; nil before
}

// variant says how a request differs from a delivery of its event.
type variant struct {
	skew time.Duration                          // of the sender's clock
	key  *verify.Key                            // signs instead of the right key
	body func([]byte) (changed []byte, ok bool) // changes the body before it is signed
}

func newSender(c *Config) (*sender, error) {
	s := &sender{Config: c}
	s.extractor, _ = provider.CompileRules(c.Sender.Rules)
	t := c.Sender.Scheme.Timestamp
	if s.identical = s.extractor == nil || t != nil && sample.InBody(t.At); s.identical {
		return s, nil
	}
	e := newEvent()
	first, err := s.signed(e, variant{})
	if err != nil {
		return nil, err
	}
	again, err := s.signed(e, variant{skew: 2 * time.Second})
	if err != nil {
		return nil, err
	}
	s.identical = !slices.Equal(s.ids(first), s.ids(again))
	return s, nil
}

func newEvent() *event {
	return &event{id: "evt_probe_" + strings.ToLower(rand.Text()), began: time.Now()}
}

// delivery returns the next delivery of an event: signed again as most senders do, if the event
// stays the same then.
func (s *sender) delivery(e *event) (*verify.Request, error) {
	if e.first == nil || !s.identical {
		req, err := s.signed(e, variant{})
		if err != nil {
			return nil, err
		}
		e.first = req
	}
	req := *e.first
	req.Header, req.Body = e.first.Header.Clone(), bytes.Clone(e.first.Body)
	return &req, nil
}

// signed makes a signed request. A nil request means that the variant does not exist for this sender.
func (s *sender) signed(e *event, v variant) (*verify.Request, error) {
	req, own, err := s.unsigned(e, v.skew)
	if err != nil {
		return nil, err
	}
	if v.body != nil {
		changed, ok := v.body(req.Body)
		if !ok {
			return nil, nil
		}
		req.Body, own = changed, true
	}
	key := s.Key
	if v.key != nil {
		key = *v.key
	}
	switch {
	case !s.Sender.Verifier.NeedsKeys():
		return req, nil
	case own:
		err = s.Sender.SignOwn(req, key)
	default:
		err = s.Sender.Verifier.Sign(req, key)
	}
	if err != nil && v.body != nil {
		return nil, nil //nolint:nilerr,nilnil // this body cannot be signed
	}
	return req, err
}

// unsigned makes the request of an event. own reports whether its body is the user's.
func (s *sender) unsigned(e *event, skew time.Duration) (req *verify.Request, own bool, err error) {
	draft := sample.Draft{
		Event: sample.Event{ID: e.id, Type: s.Type, Time: e.began},
		URL:   s.PublicURL, RawQuery: s.Target.RawQuery, Header: http.Header{}, Now: time.Now().Add(skew),
	}
	switch own = s.Body != nil; {
	case own:
		draft.Body = bytes.ReplaceAll(s.Body, []byte(idMark), []byte(e.id))
	case s.Model != nil:
		draft.Model = s.Model(e.id)
	}
	if req, err = s.Sender.Request(draft); err != nil {
		return nil, own, err
	}
	for name, values := range s.Header {
		req.Header[name] = values
	}
	if s.Set != nil {
		err = s.Set(req, e.id)
	}
	return req, own, err
}

// refused reports whether a right receiver refuses the signature of req.
func (s *sender) refused(req *verify.Request) bool {
	now := *req
	now.Now = time.Now()
	return s.Sender.Verifier.Verify(&now, []verify.Key{s.Key}) != nil
}

// ids returns the ids of the events in a request, as a receiver reads them; none if it cannot.
func (s *sender) ids(req *verify.Request) []string {
	if s.extractor == nil {
		return nil
	}
	events, malformed := s.extractor.Extract(&locate.Input{Header: req.Header, Body: req.Body, RawQuery: req.RawQuery})
	if len(malformed) > 0 {
		return nil
	}
	var ids []string
	for i := range events {
		ids = append(ids, events[i].ID)
	}
	return ids
}

// deliver sends the next delivery of an event.
func (p *probe) deliver(ctx context.Context, e *event) answer {
	req, err := p.delivery(e)
	if err != nil {
		return answer{err: err}
	}
	a := p.client.send(ctx, req)
	if a.accepted() {
		p.took(a.took)
	}
	return a
}

// redeliver delivers an event until it is accepted, as a sender does: at most tries times, with
// growing pauses, and no more once the receiver has refused it for good.
func (p *probe) redeliver(ctx context.Context, e *event, tries int) []answer {
	var answers []answer
	wait := 200 * time.Millisecond
	for {
		a := p.deliver(ctx, e)
		answers = append(answers, a)
		if a.accepted() || !a.again() || len(answers) == tries || pause(ctx, wait) != nil {
			return answers
		}
		wait *= 2
	}
}

// last returns the last of some answers.
func last(answers []answer) answer { return answers[len(answers)-1] }
