package reconcile

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// Times of a Timer.
const (
	poll  = 5 * time.Second
	lease = time.Minute // a look of a killed process is made again after it
	beat  = 15 * time.Second
)

// errLost ends a look that another process has taken over.
var errLost = errors.New("another process looks at the list now")

// Step is called with the events that a look claimed since the last call, and the times of the oldest and newest.
type Step func(claimed int, first, last time.Time) error

// Timer looks at lists from time to time, one at a time. Of all processes on a database one at a time looks at a list.
type Timer struct {
	Store driver.Reconciling
	Log   *slog.Logger
	// Lists returns the lists to look at.
	Lists func() []Timed
	// Off returns sources whose state is forgotten: switched on again, they begin at that moment. setting changes with each
	// change of the settings.
	Off func() (setting any, sources []string)
	// Look looks at the events of a source since the state. It returns the time until which it has seen all, and the number
	// of events that it left out.
	Look func(ctx context.Context, source string, since *driver.Reconcile, step Step) (until time.Time, unreadable int, err error)
}

// Timed is a list to look at.
type Timed struct {
	Source string
	List   [sha256.Size]byte // identifies the list
	Every  time.Duration
}

// Run makes the looks that are due until ctx ends.
func (t *Timer) Run(ctx context.Context) {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	var settled any
	for {
		var err error
		if setting, off := t.Off(); setting != settled {
			if len(off) > 0 {
				err = t.Store.ForgetReconciles(ctx, off)
			}
			if err == nil {
				settled = setting
			}
		}
		if err == nil {
			err = t.due(ctx)
		}
		t.failed(ctx, err)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (t *Timer) failed(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		t.Log.Warn("recording looks at providers' lists failed; retrying", slog.Any("error", err))
	}
}

// due makes the looks that are due now.
func (t *Timer) due(ctx context.Context) error {
	lists := t.Lists()
	if len(lists) == 0 {
		return nil
	}
	var names []string
	for i := range lists {
		names = append(names, lists[i].Source)
	}
	known, err := t.Store.Reconciles(ctx, names)
	if err != nil {
		return err
	}
	states := map[string]*driver.Reconcile{}
	for i := range known {
		states[known[i].Source] = &known[i]
	}
	for i := range lists {
		if ctx.Err() != nil || !lists[i].due(states[lists[i].Source]) {
			continue
		}
		taken, err := t.Store.TakeReconcile(ctx, &driver.TakeReconcileParams{Source: lists[i].Source, List: lists[i].List, Lease: lease, Every: lists[i].Every})
		if err == nil && taken != nil {
			err = t.look(ctx, &lists[i], taken)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// due reports whether TakeReconcile may return a look. It saves the write of a call that does not.
func (l *Timed) due(s *driver.Reconcile) bool {
	if s == nil {
		return true
	}
	held := s.LeasedUntil.After(s.Now) && !s.LeasedUntil.After(s.Now.Add(lease))
	waits := s.NextAt.After(s.Now) && !s.NextAt.After(s.Now.Add(l.Every)) && s.List == l.List
	return !held && !waits
}

// look makes a look, and records how it ended. The error is that of the store.
func (t *Timer) look(ctx context.Context, l *Timed, state *driver.Reconcile) error {
	looking, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	beaten := make(chan struct{})
	go func() {
		defer close(beaten)
		t.hold(looking, state, stop)
	}()
	until, unreadable, err := t.Look(looking, l.Source, state, func(claimed int, first, last time.Time) error {
		return t.step(ctx, state, &driver.ReconcileStep{Missed: int64(claimed), FirstMissing: first, LastMissing: last})
	})
	stop(nil)
	<-beaten
	switch {
	case ctx.Err() != nil: // the lease runs out, and another process goes on
		return nil
	case errors.Is(err, errLost):
		t.Log.Info("a look at the provider's list was taken over", slog.String("source", l.Source))
		return nil
	}
	end := &driver.ReconcileEnd{DoneUntil: until, Next: l.Every, Unreadable: int64(unreadable)}
	if err != nil {
		end.DoneUntil = time.Time{}
		end.Error = err.Error()
		end.Error = strings.ReplaceAll(strings.ToValidUTF8(end.Error[:min(len(end.Error), driver.MaxReconcileError)], ""), "\x00", "")
		t.Log.Warn("looking at the provider's list of events failed; trying again",
			slog.String("source", l.Source), slog.String("in", l.Every.String()), slog.Any("error", err))
	}
	if err := t.step(ctx, state, &driver.ReconcileStep{End: end}); !errors.Is(err, errLost) {
		return err
	}
	return nil
}

func (t *Timer) step(ctx context.Context, state *driver.Reconcile, p *driver.ReconcileStep) error {
	p.Source, p.Fence, p.Lease = state.Source, state.Fence, lease
	held, err := t.Store.StepReconcile(ctx, p)
	if err == nil && !held {
		err = errLost
	}
	return err
}

// hold prolongs the lease until ctx ends, and calls stop if another process has it.
func (t *Timer) hold(ctx context.Context, state *driver.Reconcile, stop context.CancelCauseFunc) {
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := t.step(ctx, state, &driver.ReconcileStep{})
		if errors.Is(err, errLost) {
			stop(err)
			return
		}
		t.failed(ctx, err)
	}
}
