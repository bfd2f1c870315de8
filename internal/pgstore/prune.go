package pgstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/pruning"
)

const (
	// looks is how many events a chunk looks at for each event that it may remove: unfinished
	// events stay, and millions of them may come first.
	looks = 20
	// chunkTime is how long half of the chunks take at most, unless they have the smallest size. A claim of an
	// event that is just being removed waits for the chunk.
	chunkTime = 4 * time.Millisecond
	// chunkTimeout bounds one chunk, so that a silent server does not block pruning for good.
	chunkTimeout = pruning.Turn / 2
)

// prunePass is one call of Prune in its turn.
type prunePass struct {
	store   *Store
	p       *driver.PruneParams
	turn    *turn
	windows driver.Windows
	now     time.Time
	pace    *pruning.Pace
	result  driver.PruneResult
	stay    pruning.Refused
}

// Prune implements [driver.Store]. It refuses windows that are not positive, instead of keeping
// nothing.
func (s *Store) Prune(ctx context.Context, p *driver.PruneParams) (*driver.PruneResult, error) {
	if _, err := p.Windows(); err != nil {
		return nil, err
	}
	turn, err := s.takeTurn(ctx, p.Background)
	if err != nil || turn == nil {
		return &driver.PruneResult{}, err
	}
	began, text := time.Now(), turn.state
	pass := &prunePass{store: s, p: p, turn: turn, pace: pruning.NewPace(p.Chunk, chunkTime)}
	if pass.windows, pass.now, err = s.longestWindows(ctx, p); err == nil {
		state := pruning.Begin(turn.state, pass.now, !p.Background)
		// The other steps must not keep the events from being looked at again.
		err = pruning.Each(ctx, func(ctx context.Context) error {
			err := pass.events(ctx, state)
			if err == nil {
				state.Complete(pass.now.Add(time.Since(began)))
			}
			return err
		}, pass.others)
		text = state.Text()
	}
	pass.result.Further = err != nil && text != turn.state
	return &pass.result, errors.Join(err, pass.stay.Err(), turn.end(ctx, text))
}

// events removes events past their windows, and bodies after them, so that a body that goes with its event is not
// counted separately.
func (r *prunePass) events(ctx context.Context, state *pruning.State) error {
	return pruning.Each(ctx, func(ctx context.Context) error {
		return r.walks(ctx, &state.Events, false, &r.result.Events, func(k driver.Kept) time.Duration { return k.DedupeWindow })
	}, func(ctx context.Context) error {
		return r.walks(ctx, &state.Bodies, true, &r.result.Bodies, func(k driver.Kept) time.Duration { return k.Retention })
	})
}

// others removes all other rows that are past their windows.
func (r *prunePass) others(ctx context.Context) error {
	s, now := r.store, &r.now
	identities := windowsOf(r.now, r.windows, func(k driver.Kept) int64 { return k.DedupeWindow.Microseconds() })
	bodies := windowsOf(r.now, r.windows, func(k driver.Kept) int64 { return k.Retention.Microseconds() })
	all := func(op string, sql text, w *windows) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := r.all(ctx, op, s.text(sql), w.now, w.sources, w.keep, w.rest, w.shortest)
			return err
		}
	}
	once := func(op string, sql text, args ...any) func(context.Context) error {
		return func(ctx context.Context) error {
			return write(ctx, s.pools.Work, op, noRows, s.text(sql), append([]any{now}, args...)...)
		}
	}
	return pruning.Each(ctx,
		all("pruning versions", pruneVersionsSQL, identities),
		func(ctx context.Context) error { return r.quarantine(ctx, bodies) },
		all("pruning refused requests", pruneRefusedSQL, bodies),
		r.figures,
		once("pruning the feed", pruneFeedSQL, driver.FeedKept.Microseconds()),
		once("pruning jobs", pruneJobsSQL, driver.JobsKept.Microseconds()),
		once("forgetting windows", forgetWindowsSQL, driver.WindowsHold.Microseconds()),
	)
}

func (r *prunePass) quarantine(ctx context.Context, bodies *windows) error {
	const op = "pruning the quarantine"
	old, err := r.all(ctx, op, r.store.text(pruneQuarantineAgeSQL), bodies.now, bodies.sources, bodies.keep, bodies.rest)
	r.result.Quarantined += old
	rows := windowsOf(r.now, r.windows, func(k driver.Kept) int64 { return k.QuarantineRows })
	if err != nil || rows.shortest == math.MaxInt64 {
		return err
	}
	surplus, err := r.all(ctx, op, r.store.text(pruneQuarantineRowsSQL), rows.sources, rows.keep, rows.rest)
	r.result.Quarantined += surplus
	return err
}

// windows are windows of one kind, of all sources, as arguments of the statements: microseconds or
// numbers of rows.
type windows struct {
	now      *time.Time
	sources  []string
	keep     []int64 // by the index of sources
	rest     int64   // of all other sources
	shortest int64
}

func windowsOf(now time.Time, longest driver.Windows, of func(driver.Kept) int64) *windows {
	w := &windows{now: &now, sources: []string{}, keep: []int64{}, rest: of(longest[""])}
	w.shortest = w.rest
	for source, kept := range longest {
		if source != "" {
			w.sources, w.keep = append(w.sources, source), append(w.keep, of(kept))
			w.shortest = min(w.shortest, of(kept))
		}
	}
	return w
}

// place is an event in the order of receipt.
type place struct {
	at  time.Time
	key []byte
}

// pruned is the result of one chunk.
type pruned struct {
	removed int64
	locked  int    // events that seemed to be removable
	last    *place // the last event that was looked at; nil: the walk is at its end
}

// walks removes events, or only their bodies, that are past the windows of one kind, and moves the marks. It
// adds their number to total.
func (r *prunePass) walks(ctx context.Context, marks *pruning.Marks, bodies bool, total *int64, of func(driver.Kept) time.Duration) error {
	walks := marks.Walks(r.windows, of, r.now)
	each := make([]func(context.Context) error, len(walks))
	for i := range walks {
		each[i] = func(ctx context.Context) error {
			to, err := r.walk(ctx, &walks[i], bodies, total)
			marks.Move(&walks[i], to, r.now)
			return after(err, *total)
		}
	}
	return pruning.Each(ctx, each...)
}

// walk removes the removable events of a walk. It has looked at all events before the time that it returns.
func (r *prunePass) walk(ctx context.Context, w *pruning.Walk, bodies bool, total *int64) (to time.Time, err error) {
	from := &place{w.From, []byte{}}
	name := fmt.Sprint(bodies, w.Others, w.Sources)
	if last, ok := r.store.passed.LoadAndDelete(name); ok && last.(*place).at.Equal(w.From) {
		from = last.(*place)
	}
	single := 0         // chunks that remove one event, after a refusal
	alone := 0          // chunks that look at one event, after a refusal of such a chunk
	refused := 0        // events in a row, for reasons that may concern all
	var since time.Time // of the first of them
	for w.From.Before(w.Before) {
		began, size := time.Now(), r.pace.Size()
		if single > 0 {
			single, size = single-1, 1
		}
		seen := looks * size
		if alone > 0 {
			alone, size, seen = alone-1, 1, 1
		}
		done, err := r.chunk(ctx, bodies, w, from, size, seen)
		switch {
		case mayBeOfRow(err) && size > 1:
			single = size
			continue
		case mayBeOfRow(err) && seen > 1: // the refused event may stand behind others, which are unfinished
			alone = seen
			continue
		case errors.Is(err, driver.ErrBadRow), mayBeOfRow(err) && r.goesOn(refused, since):
			if !errors.Is(err, driver.ErrBadRow) {
				if refused++; refused == 1 {
					since = began
				}
			}
			r.stay.Add(1, err)
			done, err = r.passOver(ctx, bodies, w, from)
		case mayBeOfRow(err):
			r.store.passed.Store(name, from)
			err = fmt.Errorf("it ends behind %d refusals in a row: %w", refused, err)
		case err == nil && done.removed > 0:
			refused = 0
		}
		if err != nil {
			return from.at, err
		}
		*total += done.removed
		if done.last == nil {
			break
		}
		r.pace.Took(done.locked, time.Since(began))
		from = done.last
		if err := r.p.Pause(ctx, began); err != nil {
			return from.at, err
		}
	}
	return w.Before, nil
}

const (
	// maxPassedOver is how many events in a row a walk passes over before it takes the database for the reason.
	maxPassedOver = 20
	// An operator's call looks for others behind more of them, as no later call goes on where it ends, for a while.
	maxPassedOnce = 1000
	passOverTime  = time.Minute
)

// goesOn reports whether a walk passes over one more event after so many in a row, the first of them at since.
func (r *prunePass) goesOn(refused int, since time.Time) bool {
	return refused < maxPassedOver || !r.p.Background && refused < maxPassedOnce && time.Since(since) < passOverTime
}

// mayBeOfRow reports whether one row may be why a statement failed: it is refused, or its trigger takes too long.
func mayBeOfRow(err error) bool {
	return errors.Is(err, driver.ErrBadRow) || errors.Is(err, driver.ErrRefused) || errors.Is(err, driver.ErrTimedOut) || errors.Is(err, driver.ErrLockTimeout)
}

// passOver goes on behind the next event, which the database refused to remove.
func (r *prunePass) passOver(ctx context.Context, bodies bool, w *pruning.Walk, from *place) (*pruned, error) {
	done := &pruned{}
	err := read(ctx, r.store.pools.Work, "passing over an event", func(rows Rows) error {
		done.last = &place{}
		return rows.Scan(&done.last.at, &done.last.key)
	}, r.store.text(nextEventSQL), &from.at, from.key, &w.Before, bodies)
	return done, err
}

// chunk removes up to size removable events of one chunk, or only their bodies. It begins behind an event, and looks at up
// to seen events.
func (r *prunePass) chunk(ctx context.Context, bodies bool, w *pruning.Walk, from *place, size, seen int) (*pruned, error) {
	ctx, cancel := context.WithTimeout(ctx, chunkTimeout)
	defer cancel()
	if err := r.turn.renew(ctx); err != nil {
		return nil, err
	}
	undo := r.now.Add(-driver.UndoTime)
	var done *pruned
	err := r.store.pools.Work.Transaction(ctx, ReadCommitted, func(conn Conn) error {
		done = nil
		err := scan(ctx, conn, func(rows Rows) error {
			done = &pruned{}
			var at *time.Time
			var key []byte
			if err := rows.Scan(&done.locked, &done.removed, &at, &key); err != nil {
				return err
			}
			if at != nil {
				done.last = &place{*at, key}
			}
			return nil
		}, r.store.text(pruneChunkSQL), r.turn.fence, bodies, &from.at, from.key, &w.Before, w.Sources, w.Others, &undo, int32(size), int32(seen))
		if err == nil && done == nil {
			err = driver.ErrTurnLost
		}
		return err
	})
	op := "pruning events"
	if bodies {
		op = "pruning bodies"
	}
	return done, r.turn.failed(op, err)
}

// maxRows is the size of a chunk of rows that stand alone.
const maxRows = 200

// all repeats a statement that removes up to a chunk of rows until it removes fewer. The size
// of a chunk is its last argument. A row that the database refuses to remove ends it, but not the pass.
func (r *prunePass) all(ctx context.Context, op, sql string, args ...any) (total int64, err error) {
	size := maxRows
	if r.p.Chunk > 0 {
		size = r.pace.Size()
	}
	args = append(args, int32(size))
	for {
		began := time.Now()
		gone, err := r.some(ctx, op, sql, args)
		total += gone
		switch {
		case mayBeOfRow(err):
			r.stay.Add(0, after(err, total))
			return total, nil
		case err != nil || gone < int64(size):
			return total, after(err, total)
		}
		if err := r.p.Pause(ctx, began); err != nil {
			return total, after(err, total)
		}
	}
}

func (r *prunePass) some(ctx context.Context, op, sql string, args []any) (gone int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, chunkTimeout)
	defer cancel()
	if err := r.turn.renew(ctx); err != nil {
		return 0, err
	}
	err = r.store.pools.Work.Transaction(ctx, ReadCommitted, func(conn Conn) error {
		if err := r.turn.hold(ctx, conn); err != nil {
			return err
		}
		return scan(ctx, conn, func(rows Rows) error { return rows.Scan(&gone) }, sql, args...)
	})
	return gone, r.turn.failed(op, err)
}

// after adds to an error how many rows were done before it, in transactions of their own.
func after(err error, done int64) error {
	if err == nil || done == 0 {
		return err
	}
	return fmt.Errorf("after %d rows: %w", done, err)
}
