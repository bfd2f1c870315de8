package relay

import (
	"context"
	"log/slog"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/stale"
)

// admit asks the store which of the leased messages may be sent now. The others are not leased any more: a message
// of their line comes first. probed says that the lease is a probe of the circuit, and began is
// a time before they were leased.
func (r *relay) admit(ctx context.Context, messages []driver.Message, probed bool, began time.Time) ([]*sending, error) {
	all := make([]*sending, 0, len(messages))
	for i := range messages {
		all = append(all, &sending{Message: &messages[i], probed: probed, until: time.Now().Add(maxTurnWait)})
	}
	if len(messages) == 0 || !r.ordered() {
		return all, nil
	}
	p := &driver.AdmitParams{}
	var asked []int
	for i := range messages {
		if m := &messages[i]; m.Route != "" {
			p.Messages = append(p.Messages, driver.OrderedMessage{
				MessageLease: driver.MessageLease{ID: m.ID, Token: m.Token}, Order: r.orderOf(m),
			})
			asked = append(asked, i)
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	admitted, err := r.askStore(ctx, p.Messages)
	if err != nil {
		return nil, err
	}
	// Its lease must outlast the attempt: the line goes on when it runs out.
	late := began.Add(driver.LeaseMargin)
	for i := range admitted {
		if s := all[asked[i]]; admitted[i].Verdict != driver.Unordered {
			s.line = &admitted[i]
			s.line.Line.Source = s.Source
			if late.Before(s.until) {
				s.until = late
			}
		}
	}
	return r.withoutParked(all), nil
}

// ordered reports whether there may be messages in lines.
func (r *relay) ordered() bool { return r.o.Ordered != nil && r.o.Ordered() }

// askStore admits messages. If single rows are at fault, it tries halves. A message that is refused alone rests, as a
// parked one does, and its lease runs out.
func (r *relay) askStore(ctx context.Context, messages []driver.OrderedMessage) ([]driver.Admission, error) {
	admitted, err := r.store.Admit(ctx, &driver.AdmitParams{Messages: messages})
	half := len(messages) / 2
	switch {
	case half > 0 && driver.FaultOfRows(err):
		first, err := r.askStore(ctx, messages[:half])
		if err != nil {
			return nil, err
		}
		second, err := r.askStore(ctx, messages[half:])
		return append(first, second...), err
	case len(messages) == 1 && isRowFault(err):
		r.refused(messages[0].ID, err)
		return []driver.Admission{{Verdict: driver.Parked}}, nil
	}
	return admitted, err
}

// orderOf returns the place of m. The order of a message that the database cannot read is not known.
func (r *relay) orderOf(m *driver.Message) *driver.Order {
	if m.Unreadable != nil {
		return nil
	}
	return r.o.OrderOf(m)
}

// withoutParked returns the messages that are still leased.
func (r *relay) withoutParked(all []*sending) []*sending {
	left := all[:0]
	for _, s := range all {
		if s.line != nil && s.line.Verdict == driver.Parked {
			r.passOver(s)
			continue
		}
		left = append(left, s)
	}
	return left
}

// messagesOf returns the messages that are leased: those of leased, or all if it is not known which are.
func messagesOf(leased []*sending, all []driver.Message) []driver.Message {
	if leased == nil {
		return all
	}
	messages := make([]driver.Message, len(leased))
	for i, s := range leased {
		messages[i] = *s.Message
	}
	return messages
}

// inLine returns the outcome of a message that is in a line of the store; none if its lease must be given back.
func (r *relay) inLine(ctx context.Context, s *sending) driver.Completion {
	if s.line.Verdict == driver.Passed {
		r.passOver(s)
		own := s.line.Line
		return r.stale(s, stale.Reason(&own, &driver.ObjectVersion{Shown: s.line.Newer}))
	}
	if !time.Now().Before(s.until) {
		r.unsent(s.probed)
		return driver.Completion{}
	}
	return r.attempt(ctx, s)
}

// settle lets the lines of buried messages go on.
func (r *relay) settle(ctx context.Context, buried []driver.Message) {
	if len(buried) == 0 || !r.ordered() {
		return
	}
	ids := make([]string, len(buried))
	for i := range buried {
		ids[i] = buried[i].ID
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	if err := r.store.SettleLines(ctx, ids); err != nil {
		r.log.Warn("letting the messages behind dead ones go on failed; they follow within minutes", slog.Any("error", err))
	}
}
