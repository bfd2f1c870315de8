package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/group"
)

// Parameters of raceEverything. Time stands still, so no lease expires by itself, and a message
// must have one holder at a time.
const (
	crowdEvents   = 6
	crowdWorkers  = 8
	crowdSteps    = 60
	crowdMaxSteps = 1000
)

// crowdThings must all happen in a run, so that a run cannot pass by doing little.
var crowdThings = []string{
	"leased", "completed", "replayed", "reopened", "letters replayed", "letters discarded", "retried", "claimed again",
	"identities pruned", "bodies pruned",
}

// crowd is a small set of old events. Workers call everything on it at once.
type crowd struct {
	*pair
	claims []driver.Claim
	now    time.Time

	mu      sync.Mutex
	holder  map[string]driver.Message // all held leases
	token   map[incarnation]int64     // the highest token of each message
	did     map[string]int
	claimed int // number of claims

	looking sync.Mutex // held while reading, so that results come in order
	seen    map[incarnation]int
}

// incarnation identifies a message or an event together with its claim. After pruning, the same id
// can come again and starts from the beginning.
type incarnation struct {
	id string
	at time.Time
}

// raceEverything lets workers lease, complete, release, replay, reopen, discard, retry, count,
// claim and prune a few events at random. In any order: a message has one holder at a time, tokens
// and generations only grow, unfinished work is not pruned, and in the end everything can be
// finished.
func raceEverything(p *pair) {
	w := &crowd{
		pair: p, claims: newClaims(crowdEvents, "a", "b"), now: t0.Add(2 * day),
		holder: map[string]driver.Message{}, token: map[incarnation]int64{}, did: map[string]int{}, seen: map[incarnation]int{},
	}
	p.claimNew(t0, w.claims...)
	steps := []struct {
		name string
		do   func(s driver.Store, r *rand.Rand) error
	}{
		{"lease", w.lease1},
		{"lease", w.lease1},
		{"complete", w.complete1},
		{"complete", w.complete1},
		{"complete", w.complete1},
		{"replay", w.replay1},
		{"reopen", w.reopen1},
		{"replay dead", w.replayDead1},
		{"discard", w.discard1},
		{"retry", w.retry1},
		{"count", w.count1},
		{"prune", w.prune1},
		{"claim", w.claim1},
		{"look", w.look1},
	}
	p.atOnce(crowdWorkers, func(s driver.Store, i int) error {
		r := rand.New(rand.NewPCG(rand.Uint64(), uint64(i)))
		for n := 0; n < group.Rounds(crowdSteps/3, crowdSteps) || n < crowdMaxSteps && len(w.missing()) > 0; n++ {
			step := steps[r.IntN(len(steps))]
			err := step.do(s, r)
			for errors.Is(err, driver.ErrSerialization) {
				err = step.do(s, r)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", step.name, err)
			}
		}
		return nil
	})
	p.Logf("done: %v", w.did)
	if missing := w.missing(); len(missing) > 0 {
		p.Errorf("after %d steps of each worker these never happened: %q", crowdMaxSteps, missing)
	}
	w.close()
}

func (w *crowd) note(what string, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.did[what] += n
}

func (w *crowd) missing() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(crowdThings), func(thing string) bool { return w.did[thing] > 0 })
}

func (w *crowd) one(r *rand.Rand) *driver.Claim { return &w.claims[r.IntN(len(w.claims))] }

func (w *crowd) lease1(s driver.Store, r *rand.Rand) error {
	got, err := s.Lease(w.Context(), &driver.LeaseParams{
		Destination: []string{"to-a", "to-b"}[r.IntN(2)], Limit: 2, For: leaseFor, MaxAttempts: maxAttempts, Now: w.now,
	})
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range got.Messages {
		if other, ok := w.holder[m.ID]; ok {
			w.Errorf("message %s was leased with token %d while token %d is held", m.ID, m.Token, other.Token)
		}
		this := incarnation{m.ID, m.ReceivedAt}
		if m.Token <= w.token[this] || m.Expired || len(m.Body) == 0 {
			w.Errorf("leased %+v after the token %d, want a higher one, never expired, with a body", m, w.token[this])
		}
		w.holder[m.ID], w.token[this] = m, m.Token
		w.did["leased"]++
	}
	if len(got.Buried) > 0 {
		w.Errorf("buried %+v, which all have attempts left", got.Buried)
	}
	return nil
}

// complete1 ends one of the held leases. Then it completes with a stale token, which must change
// nothing.
func (w *crowd) complete1(s driver.Store, r *rand.Rand) error {
	w.mu.Lock()
	var m driver.Message
	for _, m = range w.holder {
		break
	}
	// Remove the holder before the call: the message may be leased again at once.
	delete(w.holder, m.ID)
	w.mu.Unlock()
	if m.ID == "" {
		return nil
	}
	outcomes := []driver.MessageOutcome{driver.MessageSent, driver.MessageRetry, driver.MessageDead, driver.MessageDead}
	d := driver.Completion{ID: m.ID, Token: m.Token, Outcome: outcomes[r.IntN(len(outcomes))]}
	if m.Attempt >= maxAttempts && d.Outcome == driver.MessageRetry {
		d.Outcome = driver.MessageDead
	}
	stale := driver.Completion{ID: m.ID, Token: m.Token - 1, Outcome: driver.MessageSent}
	held, err := s.Complete(w.Context(), &driver.CompleteParams{Completions: []driver.Completion{stale, d}, Now: w.now})
	if errors.Is(err, driver.ErrSerialization) {
		w.mu.Lock()
		w.holder[m.ID] = m
		w.mu.Unlock()
	}
	if err != nil {
		return err
	}
	if !slices.Equal(held, []bool{false, true}) {
		w.Errorf("completions of %s by the tokens %d and %d: %v, want the second held", m.ID, stale.Token, d.Token, held)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.did["completed"]++
	return nil
}

func (w *crowd) replay1(s driver.Store, r *rand.Rand) error {
	c := w.one(r)
	_, err := s.Replay(w.Context(), &driver.ReplayParams{Key: c.Key, Mode: driver.ReplayMode(r.IntN(3)), Now: w.now})
	switch {
	case err == nil:
		w.note("replayed", 1)
	case !errors.Is(err, driver.ErrNotFound) && !errors.Is(err, driver.ErrOpen) && !errors.Is(err, driver.ErrModeNeeded) &&
		!errors.Is(err, driver.ErrBodyPruned) && !busy(err):
		return err
	}
	return nil
}

func (w *crowd) reopen1(s driver.Store, r *rand.Rand) error {
	var keys []driver.Key
	for range crowdEvents {
		keys = append(keys, w.one(r).Key)
	}
	got, _, err := s.Reopen(w.Context(), &driver.ReopenParams{Keys: keys, Now: w.now})
	w.note("reopened", len(got))
	return err
}

// letters returns dead letters of the listing, in random order. They may no longer be dead.
func (w *crowd) letters(s driver.Store, r *rand.Rand) (*driver.DeadLetterParams, error) {
	page, err := s.DeadLetters(w.Context(), &driver.MessageFilter{Limit: 1 + r.IntN(4)})
	if err != nil {
		return nil, err
	}
	p := &driver.DeadLetterParams{Now: w.now}
	for _, d := range page.DeadLetters {
		p.Letters = append(p.Letters, driver.DeadLetterRef{Key: d.Key, MessageID: d.MessageID})
	}
	r.Shuffle(len(p.Letters), func(i, j int) { p.Letters[i], p.Letters[j] = p.Letters[j], p.Letters[i] })
	return p, nil
}

func (w *crowd) replayDead1(s driver.Store, r *rand.Rand) error {
	letters, err := w.letters(s, r)
	if err != nil {
		return err
	}
	got, err := s.ReplayDead(w.Context(), letters)
	w.note("letters replayed", count(got))
	return err
}

func (w *crowd) discard1(s driver.Store, r *rand.Rand) error {
	letters, err := w.letters(s, r)
	if err != nil {
		return err
	}
	got, err := s.Discard(w.Context(), letters)
	w.note("letters discarded", count(got))
	return err
}

func count(answers []bool) (n int) {
	for _, yes := range answers {
		if yes {
			n++
		}
	}
	return n
}

func (w *crowd) retry1(s driver.Store, r *rand.Rand) error {
	err := s.RetryMessage(w.Context(), &driver.RetryMessageParams{ID: w.one(r).Messages[r.IntN(2)].ID, Now: w.now})
	switch {
	case err == nil:
		w.note("retried", 1)
	case !errors.Is(err, driver.ErrNotFound) && !errors.Is(err, driver.ErrOpen) && !errors.Is(err, driver.ErrSent) &&
		!errors.Is(err, driver.ErrBodyPruned) && !busy(err):
		return err
	}
	return nil
}

func (w *crowd) count1(s driver.Store, r *rand.Rand) error {
	return s.CountDeliveries(w.Context(), &driver.CountDeliveriesParams{
		Counts: []driver.DeliveryCount{{Key: w.one(r).Key, Duplicates: 1}}, Now: w.now,
	})
}

// prune1 prunes with every event past its windows. Only finished events may go.
func (w *crowd) prune1(s driver.Store, r *rand.Rand) error {
	if r.IntN(4) > 0 {
		return nil // rarely: events without a body are useless for the other steps
	}
	p := windows(day, w.now.Add(2*day))
	p.Chunk = 1 + r.IntN(3)
	if r.IntN(2) > 0 {
		p.DedupeWindow = 30 * day
	}
	got, err := s.Prune(w.Context(), p)
	if err == nil {
		w.note("identities pruned", int(got.Events))
		w.note("bodies pruned", int(got.Bodies))
	}
	return err
}

// claim1 claims an event. A pruned one becomes new, and is past its windows at once too.
func (w *crowd) claim1(s driver.Store, r *rand.Rand) error {
	w.mu.Lock()
	w.claimed++
	at := t0.Add(time.Duration(w.claimed) * time.Millisecond)
	w.mu.Unlock()
	got, err := w.claimAll(s, at, *w.one(r))
	if err == nil && got[0].Claimed {
		w.note("claimed again", 1)
	}
	if busy(err) {
		return nil
	}
	return err
}

// look1 reads an event. Its unfinished work is complete, and its generation never falls.
func (w *crowd) look1(s driver.Store, r *rand.Rand) error {
	w.looking.Lock()
	defer w.looking.Unlock()
	c := w.one(r)
	e, err := s.Event(w.Context(), c.Source, c.EventID)
	switch {
	case errors.Is(err, driver.ErrNotFound):
		return nil
	case err == nil:
		w.check(e)
	}
	return err
}

func (w *crowd) check(e *driver.EventDetail) {
	w.Helper()
	if e.BodyPruned && e.State != driver.StateDone && e.State != driver.StateSkipped {
		w.Errorf("event %s is %s and has no body", e.EventID, e.State)
	}
	if len(e.Messages) < 2 {
		w.Errorf("event %s has the messages %+v, want at least the two it was claimed with", e.EventID, e.Messages)
	}
	this := incarnation{e.EventID, e.ReceivedAt}
	if e.Generation < w.seen[this] {
		w.Errorf("event %s went from generation %d back to %d", e.EventID, w.seen[this], e.Generation)
	}
	w.seen[this] = e.Generation
	told := 0
	for _, h := range e.History {
		told = max(told, h.Generation)
	}
	if told != e.Generation {
		w.Errorf("event %s is in generation %d, and its history tells of %d: %+v", e.EventID, e.Generation, told, e.History)
	}
}

// close finishes all open messages. Then nothing is open, and only dead events survive a prune.
func (w *crowd) close() {
	w.Helper()
	for _, m := range w.holder {
		w.mustComplete(w.now, driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageSent})
	}
	for _, destination := range []string{"to-a", "to-b"} {
		for _, m := range w.lease(w.now, destination, 100) {
			w.mustComplete(w.now, driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageSent})
		}
		w.noneDue(w.now.Add(day), destination, "after all was finished")
	}
	var dead []string
	for _, e := range w.events(&driver.EventFilter{Limit: driver.MaxLimit}).Events {
		detail := w.event(e.Source, e.EventID)
		w.check(detail)
		switch e.State {
		case driver.StateDead:
			dead = append(dead, e.EventID)
		case driver.StatePending, driver.StateRunning:
			w.Errorf("in the end event %s is %s with the messages %+v", e.EventID, e.State, detail.Messages)
		}
	}
	for _, d := range w.stats().Destinations {
		if d.Pending+d.Sending > 0 {
			w.Errorf("in the end %+v is open", d)
		}
	}
	w.prune(windows(day, w.now.Add(2*day)))
	left := idsOf(w.events(&driver.EventFilter{Limit: driver.MaxLimit}))
	slices.Sort(dead)
	slices.Sort(left)
	same(w, "left after a prune", dead, left)
}
