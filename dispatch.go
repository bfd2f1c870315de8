package hookonce

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// maxTurnWait is how long a leased message may wait until another one about the
// same object is sent. It goes off the time that its lease leaves for recording
// the outcome.
const maxTurnWait = 2 * time.Second

// sending is a leased message on its way.
type sending struct {
	*driver.Message
	probed  bool                  // it is a probe of the circuit
	turn    *turn                 // nil unless a stale rule holds for it
	applied *driver.ObjectVersion // what is known of its object; nil for nothing
	until   time.Time             // how long it may wait for its turn
}

// lineUp finds out which of the messages tell of objects whose versions are watched,
// puts those in line, and reads what was applied of their objects.
func (r *relay) lineUp(ctx context.Context, messages []driver.Message, probed bool) ([]*sending, error) {
	until := time.Now().Add(maxTurnWait)
	all := make([]*sending, len(messages))
	var watched []*sending
	var versions []driver.ObjectVersion
	for i := range messages {
		all[i] = &sending{Message: &messages[i], probed: probed, until: until}
		if v, ok := r.objectOf(&messages[i]); ok {
			watched, versions = append(watched, all[i]), append(versions, v)
		}
	}
	if len(watched) == 0 {
		return all, nil
	}
	for i, t := range r.in.objects.join(versions) {
		watched[i].turn = t
	}
	if err := r.readApplied(ctx, watched, until); err != nil {
		for _, s := range watched {
			s.turn.leave(false)
		}
		return nil, fmt.Errorf("reading what was applied: %w", err)
	}
	return all, nil
}

// objectOf returns the version that m tells of, if a rule of its source, as it is
// set up now, watches for it. Messages that a handler enqueued are of no source's.
func (r *relay) objectOf(m *driver.Message) (v driver.ObjectVersion, ok bool) {
	current := r.in.setup.Load()
	if m.Route == "" || current == nil {
		return v, false
	}
	src := current.sources[m.Source]
	if src == nil || !src.stale.watches(m.Type) {
		return v, false
	}
	return src.stale.objectOf(m.Route, eventOf(&driver.TakenEvent{
		Key: m.Key, Source: m.Source, EventID: m.EventID, Type: m.Type, Headers: m.Headers, Body: m.Body,
	}, r.log))
}

func (r *relay) readApplied(ctx context.Context, watched []*sending, until time.Time) error {
	var objects []driver.Key
	asked := make(map[driver.Key]bool)
	for _, s := range watched {
		if object := s.turn.version.Object; !s.Replayed && !asked[object] {
			asked[object] = true
			objects = append(objects, object)
		}
	}
	if len(objects) == 0 {
		return nil
	}
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), until)
	defer cancel()
	applied, err := r.store.Versions(ctx, objects)
	if err != nil {
		return err
	}
	for _, s := range watched {
		if v, ok := applied[s.turn.version.Object]; ok {
			s.applied = &v
		}
	}
	return nil
}

// dispatch sends s when it is its turn, unless it is stale, and hands on what came
// of it.
func (r *relay) dispatch(ctx, sendCtx context.Context, s *sending) {
	done := r.inTurn(ctx, sendCtx, s)
	if done.Outcome == 0 {
		s.turn.leave(false)
		return
	}
	r.finished <- ending{done, r.logOf(s.Message), s.turn}
}

// inTurn returns no outcome where there is nothing to record.
func (r *relay) inTurn(ctx, sendCtx context.Context, s *sending) driver.Completion {
	if s.turn == nil {
		return r.attemptSafely(sendCtx, s.Message, s.probed)
	}
	if !s.turn.wait(ctx, s.until) {
		r.unsent(s.probed)
		defer r.wake() // it is due again
		return r.takeBack(ctx, s.Message)
	}
	if newer := s.turn.newer(s.applied); newer != nil && !s.Replayed {
		r.unsent(s.probed)
		if s.probed {
			r.wake() // another one may be sent as a probe
		}
		return r.stale(s, newer)
	}
	done := r.attemptSafely(sendCtx, s.Message, s.probed)
	if done.Outcome == driver.MessageSent {
		done.Applied = &s.turn.version
	}
	return done
}

// stale is the outcome of a message that is older than what was sent.
func (r *relay) stale(s *sending, newer *driver.ObjectVersion) driver.Completion {
	reason := staleReason(s.turn.version.Shown, newer.Shown)
	r.logOf(s.Message).Info("not sent, stale", slog.String("reason", reason))
	r.observe(s.Message, attemptSkipped, 0, nil)
	return driver.Completion{ID: s.ID, Token: s.Token, Outcome: driver.MessageStale, Error: reason}
}

// unsent takes back what was reckoned with for a message that is not going to be
// sent.
func (r *relay) unsent(probed bool) {
	r.dest.rate.giveBack(1)
	if probed {
		r.circuit.dismiss()
	}
}

// takeBack gives the lease of m back; its attempt is not counted.
func (r *relay) takeBack(ctx context.Context, m *driver.Message) (none driver.Completion) {
	if err := r.giveBack(ctx, []driver.Message{*m}); err != nil {
		r.logOf(m).Warn("a lease was not given back, and runs out", slog.Any("error", err))
	}
	return none
}

func (r *relay) observe(m *driver.Message, outcome string, took time.Duration, err error) {
	r.in.observeAttempt(&AttemptObserved{
		Kind: attemptMessage, Source: m.Source, EventID: m.EventID, Type: m.Type, Destination: m.Destination,
		Outcome: outcome, Attempt: m.Attempt, Took: took, Err: err,
	})
}
