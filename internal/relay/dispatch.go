package relay

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/stale"
	"github.com/hookonce/hookonce/internal/wire"
)

// maxTurnWait bounds how long a leased message waits until other messages about the same object are
// sent. It shortens the time that the lease leaves for recording the outcome.
const maxTurnWait = 2 * time.Second

// sending is a leased message on its way.
type sending struct {
	*driver.Message
	probed  bool                  // it is a probe of the circuit
	turn    *turn                 // nil unless a stale rule matches it
	applied *driver.ObjectVersion // the highest version applied to its object; nil if none is known
	until   time.Time             // how long it may wait for its turn
	bytes   int                   // of the body, if it was reserved
	took    time.Duration         // of the attempt, without its confirmation; 0 before it ends
	// confirming says that it left its slot for the next message, while its success is confirmed.
	confirming bool
	line       *driver.Admission // nil unless it is in a line of the store
}

// lineUp puts the messages that a stale rule matches in line, object by object, and then reads the
// applied versions of these objects.
func (r *relay) lineUp(ctx context.Context, all []*sending) ([]*sending, error) {
	until := time.Now().Add(maxTurnWait)
	var watched []*sending
	var versions []driver.ObjectVersion
	for _, s := range all {
		if s.line != nil {
			continue
		}
		if v, ok := r.o.ObjectOf(s.Message); ok {
			watched, versions = append(watched, s), append(versions, v)
		}
	}
	if len(watched) == 0 {
		return all, nil
	}
	for i, t := range r.turns.join(versions) {
		watched[i].turn = t
	}
	if err := r.readApplied(ctx, watched, until); err != nil {
		for _, s := range watched {
			s.turn.leave(false)
		}
		return nil, fmt.Errorf("reading applied versions: %w", err)
	}
	return all, nil
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

// dispatch sends s when its turn comes, unless it is stale, and hands on the outcome.
func (r *relay) dispatch(ctx, sendCtx context.Context, s *sending) {
	done := r.inTurn(ctx, sendCtx, s)
	if done.Outcome == 0 {
		r.takeBack(ctx, s.Message)
		s.turn.leave(false)
		r.wake() // the message is due again
		return
	}
	if s.line != nil {
		done.Line = &s.line.Line
	}
	r.finished <- ending{done, s.Message, s.turn}
}

// inTurn returns the outcome of s; none if s was not sent and its lease must be given back.
func (r *relay) inTurn(ctx, sendCtx context.Context, s *sending) driver.Completion {
	if s.Unreadable != nil {
		return r.unreadable(s)
	}
	if s.line != nil {
		return r.inLine(sendCtx, s)
	}
	if s.turn == nil {
		return r.attempt(sendCtx, s)
	}
	if !s.turn.wait(ctx, s.until) {
		r.unsent(s.probed)
		return driver.Completion{}
	}
	if newer := s.turn.newer(s.applied); newer != nil && !s.Replayed {
		r.passOver(s)
		return r.stale(s, stale.Reason(&s.turn.version, newer))
	}
	done := r.attempt(sendCtx, s)
	if done.Outcome == driver.MessageSent {
		done.Applied = &s.turn.version
	}
	return done
}

// unreadable is the outcome of a message that the database cannot read. It tells nothing of the destination.
func (r *relay) unreadable(s *sending) driver.Completion {
	r.unsent(s.probed)
	err := fmt.Errorf("not sent: the database cannot read the event: %w", s.Unreadable)
	done := r.judge(s.Message, &attempted{err: err, text: wire.ErrorText(err)})
	r.logAttempt(s.Message, &done, err, "")
	r.o.Observe(&Observed{Message: s.Message, Outcome: outcomes[done.Outcome], Err: err})
	return done
}

// stale is the outcome of a message that is older than a sent one.
func (r *relay) stale(s *sending, reason string) driver.Completion {
	r.logOf(s.Message).Info("not sent: stale", slog.String("reason", reason))
	r.o.Observe(&Observed{Message: s.Message, Outcome: skipped})
	return driver.Completion{ID: s.ID, Token: s.Token, Outcome: driver.MessageStale, Error: reason}
}
