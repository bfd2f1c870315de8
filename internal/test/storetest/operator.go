package storetest

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
)

func (f *fixture) replay(p *driver.ReplayParams) driver.Replayed {
	f.Helper()
	got, err := f.s.Replay(f.Context(), p)
	if err != nil {
		f.Fatalf("Replay(%+v): %v", p, err)
	}
	return *got
}

// replayAt replays an event that must be replayable.
func (f *fixture) replayAt(at time.Time, key driver.Key, mode driver.ReplayMode) driver.Replayed {
	f.Helper()
	return f.replay(&driver.ReplayParams{Key: key, Mode: mode, Now: at})
}

// refused fails unless err matches want, and no other error of the contract.
func (f *fixture) refused(what string, want, err error) {
	f.Helper()
	if !errors.Is(err, want) {
		f.Errorf("%s: got the error %v, want %v", what, err, want)
	}
	for _, other := range []error{
		driver.ErrNotFound, driver.ErrOpen, driver.ErrBodyPruned, driver.ErrModeNeeded, driver.ErrNoRoute, driver.ErrSent,
		driver.ErrLockTimeout, driver.ErrCommitUnknown, driver.ErrUnavailable, driver.ErrSerialization,
	} {
		if !errors.Is(want, other) && errors.Is(err, other) {
			f.Errorf("%s: the error %v matches %v too, want %v alone", what, err, other, want)
		}
	}
}

func (f *fixture) replayDead(at time.Time, letters ...driver.DeadLetterRef) []bool {
	f.Helper()
	got, err := f.s.ReplayDead(f.Context(), &driver.DeadLetterParams{Letters: letters, Now: at})
	if err != nil {
		f.Fatalf("ReplayDead: %v", err)
	}
	return got
}

func (f *fixture) discard(at time.Time, letters ...driver.DeadLetterRef) []bool {
	f.Helper()
	got, err := f.s.Discard(f.Context(), &driver.DeadLetterParams{Letters: letters, Now: at})
	if err != nil {
		f.Fatalf("Discard: %v", err)
	}
	return got
}

func (f *fixture) retry(at time.Time, id string) {
	f.Helper()
	if err := f.s.RetryMessage(f.Context(), &driver.RetryMessageParams{ID: id, Now: at}); err != nil {
		f.Fatalf("RetryMessage(%q): %v", id, err)
	}
}

func (f *fixture) deadLetters(filter *driver.MessageFilter) *driver.DeadLetterPage {
	f.Helper()
	got, err := f.s.DeadLetters(f.Context(), filter)
	if err != nil {
		f.Fatalf("DeadLetters(%+v): %v", filter, err)
	}
	return got
}

func (f *fixture) listMessages(filter *driver.MessageFilter) *driver.MessagePage {
	f.Helper()
	got, err := f.s.Messages(f.Context(), filter)
	if err != nil {
		f.Fatalf("Messages(%+v): %v", filter, err)
	}
	return got
}

func (f *fixture) stats() driver.Stats {
	f.Helper()
	got, err := f.s.Stats(f.Context())
	if err != nil {
		f.Fatalf("Stats: %v", err)
	}
	return *got
}

func (f *fixture) killQueued(key driver.Key) {
	f.Helper()
	if f.with.KillQueued == nil {
		f.Fatal("storetest: Features.KillQueued is needed to make a queued event dead")
	}
	f.with.KillQueued(f.T, f.s, key, "no such order")
}

func (f *fixture) moveQueued(key driver.Key, state string) {
	f.Helper()
	if f.with.MoveQueued == nil {
		f.Fatal("storetest: Features.MoveQueued is needed to move a queued event on")
	}
	f.with.MoveQueued(f.T, f.s, key, state)
}

// letter returns the reference to the message of c on its n-th route as a dead letter.
func letter(c *driver.Claim, n int) driver.DeadLetterRef {
	return driver.DeadLetterRef{Key: c.Key, MessageID: c.Messages[n].ID}
}

// due makes the message of a detail pending again, with full attempts.
func due(m *driver.MessageDetail, generation int, at time.Time) {
	m.State, m.Note, m.Generation, m.Attempts = driver.StatePending, "", generation, 0
	m.DueAt, m.SentAt, m.FailedAt = at, time.Time{}, time.Time{}
}

// skip makes the dead message of a detail skipped, with a note.
func skip(m *driver.MessageDetail, note string) {
	m.State, m.Note, m.FailedAt = driver.StateSkipped, note, time.Time{}
}

func sortMessages(messages []driver.MessageDetail) {
	slices.SortFunc(messages, func(a, b driver.MessageDetail) int {
		return strings.Compare(a.Route+"\x00"+a.ID, b.Route+"\x00"+b.ID)
	})
}

// derive sets the state of an event without a row of its own from its messages. Once the event has
// ended, its note is that of a skipped message that was not replaced, if there is one.
func derive(want *driver.EventDetail) {
	count, note := map[string]int{}, ""
	var sentAt, failedAt time.Time
	want.Attempts, want.Generation = 0, 0
	for i := range want.Messages {
		m := &want.Messages[i]
		count[m.State]++
		want.Attempts, want.Generation = max(want.Attempts, m.Attempts), max(want.Generation, m.Generation)
		if m.State == driver.StateSkipped {
			if note == "" || note == driver.NoteReplacedByNew {
				note = m.Note
			}
		}
		sentAt, failedAt = latest(sentAt, m.SentAt), latest(failedAt, m.FailedAt)
	}
	want.Note, want.ProcessedAt, want.FailedAt = "", time.Time{}, time.Time{}
	switch {
	case len(want.Messages) == 0:
		want.State, want.Note, want.ProcessedAt = driver.StateDone, driver.NoteNoRoute, want.ReceivedAt
	case count[driver.StatePending]+count[driver.StateSending] > 0:
		want.State = driver.StateRunning
	case count[driver.StateDead] > 0:
		want.State, want.FailedAt = driver.StateDead, failedAt
	case count[driver.StateSent] > 0:
		want.State, want.ProcessedAt = driver.StateDone, sentAt
		if note != driver.NoteReplacedByNew {
			want.Note = note
		}
	default:
		want.State, want.Note = driver.StateSkipped, note
	}
	want.Waiting = waits(want)
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// shown checks the detail of an event, and that the listing, the filters by state and note, and the
// listing of dead letters agree with it.
func (f *fixture) shown(want *driver.EventDetail) {
	f.Helper()
	f.sameEvent(want, lastAnswer())
	listed := f.events(&driver.EventFilter{Source: want.Source, ID: want.EventID})
	same(f, "event "+want.EventID+" as listed", []driver.Event{want.Event}, listed.Events, lastAnswer())
	for _, state := range driver.EventStates() {
		page := f.events(&driver.EventFilter{Source: want.Source, ID: want.EventID, State: state})
		f.onlyIf(state == want.State, "listing by the state "+state, want, page)
	}
	for _, note := range []string{driver.NoteNoRoute, driver.NoteDiscarded, driver.NoteReplacedByNew} {
		page := f.events(&driver.EventFilter{Source: want.Source, ID: want.EventID, Note: note})
		f.onlyIf(note == want.Note, "listing by the note "+note, want, page)
		page = f.events(&driver.EventFilter{Source: want.Source, ID: want.EventID, Note: note, State: want.State})
		f.onlyIf(note == want.Note, "listing by state and the note "+note, want, page)
	}
	var deadIDs, got []string
	for _, m := range want.Messages {
		if m.State == driver.StateDead {
			deadIDs = append(deadIDs, m.ID)
		}
	}
	for _, d := range f.deadLetters(&driver.MessageFilter{Source: want.Source, EventID: want.EventID}).DeadLetters {
		if d.MessageID != "" {
			got = append(got, d.MessageID)
		}
	}
	slices.Sort(deadIDs)
	slices.Sort(got)
	same(f, "dead letters of "+want.EventID, deadIDs, got)
}

// onlyIf fails unless the page holds the event exactly if there is set.
func (f *fixture) onlyIf(there bool, what string, e *driver.EventDetail, page *driver.EventPage) {
	f.Helper()
	var want []string
	if there {
		want = []string{e.EventID}
	}
	same(f, what, want, idsOf(page))
}
