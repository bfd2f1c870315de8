package proof

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// figures count the faults of a trial, so that a run without faults does not pass as proof.
type figures struct {
	twins       int // second copies sent at the same moment as the first
	repeats     int // second copies sent later
	duplicates  int // answers "duplicate"
	reopened    int // the "duplicate" ones that say that a dead event is reopened
	unavailable int // answers 503
	cut         int // deliveries whose connection was refused or ended before the answer

	sending, draining time.Duration
}

// storedEvent is an event as the view for users shows it.
type storedEvent struct {
	state, lastError     string
	attempts, generation int
}

// found is the result of a trial, by event id.
type found struct {
	events   map[string]storedEvent
	effects  map[string][]int           // generations
	messages map[string][]storedMessage // by the event that caused them
	runs     map[string][]handlerRun    // calls of the handler
	deaths   map[string]int             // processes that an event ended
	sent     map[string]map[string]int  // event id -> message id -> how often
}

type storedMessage struct {
	id    string
	state int
}

// messageSent is the state of a sent message in its table.
const messageSent = 2

// handlerRun is a call of a handler.
type handlerRun struct{ attempt, process string }

// collect reads the result of the trial. All processes have ended.
func (tr *trial) collect() *found {
	t := tr.t
	t.Helper()
	f := &found{
		events: make(map[string]storedEvent), effects: make(map[string][]int), messages: make(map[string][]storedMessage),
		runs: make(map[string][]handlerRun), deaths: make(map[string]int), sent: make(map[string]map[string]int),
	}
	var id, source string
	var ev storedEvent
	tr.db.rows(t, `SELECT source, event_id, state, last_error, attempts, generation FROM `+tr.db.table("events"),
		[]any{&source, &id, &ev.state, &ev.lastError, &ev.attempts, &ev.generation}, func() {
			if _, twice := f.events[id]; twice || source != sourceName {
				t.Errorf("%s of %s is in the database twice, or its source delivered nothing", id, source)
			}
			f.events[id] = ev
		})
	var generation int
	tr.db.rows(t, `SELECT event_id, generation FROM effects`, []any{&id, &generation}, func() {
		f.effects[id] = append(f.effects[id], generation)
	})
	var m storedMessage
	tr.db.rows(t, `SELECT coalesce(e.event_id, ''), m.id, m.state FROM `+tr.db.table("message")+` m LEFT JOIN `+
		tr.db.table("event")+` e ON e.key = m.cause`, []any{&id, &m.id, &m.state}, func() {
		f.messages[id] = append(f.messages[id], m)
	})
	tr.readRecord(runsFile, 3, func(words []string) {
		f.runs[words[0]] = append(f.runs[words[0]], handlerRun{words[1], words[2]})
	})
	tr.readRecord(deathsFile, 2, func(words []string) { f.deaths[words[0]]++ })
	tr.readRecord(sentFile, 2, func(words []string) {
		if f.sent[words[1]] == nil {
			f.sent[words[1]] = make(map[string]int)
		}
		f.sent[words[1]][words[0]]++
	})
	return f
}

// readRecord calls f for every line of a record.
func (tr *trial) readRecord(name string, words int, f func([]string)) {
	tr.t.Helper()
	text, err := os.ReadFile(filepath.Join(tr.folder, name))
	if err != nil {
		tr.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) != words {
			tr.t.Fatalf("%s: %q", name, line)
		}
		f(fields)
	}
}

// check compares the result of the trial with the delivered events.
func (tr *trial) check() *found {
	t := tr.t
	t.Helper()
	f := tr.collect()
	planned := make(map[string]bool)
	for _, ev := range tr.events {
		planned[ev.ID] = true
		stored, there := f.events[ev.ID]
		switch {
		case !ev.acked: // reported when its sender gave up
		case !there:
			t.Errorf("%s was acknowledged, but is not in the database", ev.ID)
		case ev.succeeds() || ev.mayDie() && !tr.mayDieAgain:
			f.checkDone(t, ev, stored)
		default:
			f.checkDead(t, ev, stored)
		}
	}
	for id := range f.events {
		if !planned[id] {
			t.Errorf("%s is in the database, but was never delivered", id)
		}
	}
	for id := range f.messages {
		if !planned[id] {
			t.Errorf("there are messages of %q, which was never delivered", id)
		}
	}
	for id := range f.effects {
		if !planned[id] {
			t.Errorf("there are effects of %s, which was never delivered", id)
		}
	}
	tr.checkRest(f)
	for _, p := range tr.places {
		p.checkLogs(t)
	}
	return f
}

// checkRest checks that no interrupted run is on record, and compares the dead letters with the
// events.
func (tr *trial) checkRest(f *found) {
	t := tr.t
	t.Helper()
	if tr.db.variant != withSQLite { // SQLite has no table of runs
		if n := tr.db.number(t, `SELECT count(*) FROM hookonce.run`); n > 0 {
			t.Errorf("%d runs are on record, but all processes have ended", n)
		}
	}
	var id string
	listed := make(map[string]bool)
	tr.db.rows(t, `SELECT event_id FROM `+tr.db.table("dead_letters"), []any{&id}, func() { listed[id] = true })
	for id, stored := range f.events {
		if dead := stored.state == driver.StateDead; dead != listed[id] {
			t.Errorf("%s is %s; among the dead letters: %t", id, stored.state, listed[id])
		}
	}
}

// checkDone checks an event that must have taken effect once.
func (f *found) checkDone(t testing.TB, ev *event, stored storedEvent) {
	t.Helper()
	if stored.state != driver.StateDone || stored.generation != 0 {
		t.Errorf("%s (%s): %+v, want done, in generation 0", ev.ID, ev.Does, stored)
	}
	if got := f.effects[ev.ID]; len(got) != 1 || got[0] != 0 {
		t.Errorf("%s (%s): effects in the generations %v, want one, in generation 0", ev.ID, ev.Does, got)
	}
	messages, sent := f.messages[ev.ID], f.sent[ev.ID]
	switch {
	case !ev.Message && len(messages)+len(sent) > 0:
		t.Errorf("%s (%s): messages %v, sent %v, want none", ev.ID, ev.Does, messages, sent)
	case ev.Message && (len(messages) != 1 || messages[0].state != messageSent || len(sent) != 1 || sent[messages[0].id] == 0):
		t.Errorf("%s (%s): messages %v, sent %v, want one, sent under its id", ev.ID, ev.Does, messages, sent)
	}
}

// checkDead checks an event that must have no effect, and be dead with its error.
func (f *found) checkDead(t testing.TB, ev *event, stored storedEvent) {
	t.Helper()
	if effects, messages, sent := f.effects[ev.ID], f.messages[ev.ID], f.sent[ev.ID]; len(effects)+len(messages)+len(sent) > 0 {
		t.Errorf("%s (%s): effects in the generations %v, messages %v, sent %v, want none", ev.ID, ev.Does, effects, messages, sent)
	}
	right := stored.state == driver.StateDead
	switch {
	case ev.mayDie():
		right = right && stored.lastError == driver.ErrorRunInterrupted && stored.attempts == attempts
		// The test may have killed some of its attempts earlier.
		right = right && f.deaths[ev.ID] > 0
	case ev.Does == panicAlways:
		// The test may have killed its last attempt.
		right = right && stored.attempts == attempts &&
			(strings.Contains(stored.lastError, panicText) || stored.lastError == driver.ErrorRunInterrupted)
	default:
		right = right && strings.Contains(stored.lastError, goodText)
	}
	if !right {
		t.Errorf("%s (%s): %+v", ev.ID, ev.Does, stored)
	}
}

// figure is a line in the table of figures.
type figure struct {
	name string
	n    int
	must bool // a trial without it is void
}

// report logs and returns the figures, and fails the trial as void if a fault that it is about never happened.
func (tr *trial) report(f *found, more ...figure) []figure {
	t := tr.t
	t.Helper()
	all := slices.Concat(tr.sentFigures(), tr.foundFigures(f), more)
	var table bytes.Buffer
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, line := range all {
		fmt.Fprintf(w, "%d\t  %s\n", line.n, line.name)
		if line.must && line.n == 0 {
			t.Errorf("the trial is void, because this never happened: %s", line.name)
		}
	}
	w.Flush()
	t.Logf("sending took %s, the rest %s\n%s",
		tr.figures.sending.Round(time.Millisecond), tr.figures.draining.Round(time.Millisecond), table.String())
	return all
}

// sentFigures returns the figures of the senders and processes.
func (tr *trial) sentFigures() []figure {
	s := &tr.figures
	lines := []figure{
		{"events", len(tr.events), true},
		{"deliveries that were acknowledged", int(tr.acks.Load()), true},
		{"second copies sent at the same moment", s.twins, true},
		{"second copies sent later", s.repeats, true},
		{"answers \"duplicate\"", s.duplicates, true},
		{"answers \"duplicate\" that reopened a dead event", s.reopened, false},
		{"deliveries that were cut off or refused a connection", s.cut, true},
		{"answers 503", s.unavailable, false},
	}
	unheard := 0
	for _, ev := range tr.events {
		if ev.acked && ev.claimed == 0 {
			unheard++
		}
	}
	var started, kills, leaves int
	for _, p := range tr.places {
		started, kills, leaves = started+p.started, kills+p.kills, leaves+p.leaves
	}
	return append(lines,
		figure{"claims whose answer \"ok\" was lost", unheard, false},
		figure{"processes", started, true},
		figure{"processes killed by the test", kills, true},
		figure{"processes ended by an event", leaves, true})
}

// foundFigures returns the figures of the handlers and the database.
func (tr *trial) foundFigures(f *found) []figure {
	ran := make(map[string]int) // by order.Does: calls of the handler
	var runs, again, interrupted, sends, sentAgain, dead, lastCut, effects int
	for _, ev := range tr.events {
		first, seen := f.runs[ev.ID], make(map[handlerRun]bool)
		ran[ev.Does] += len(first)
		runs += len(first)
		if stored := f.events[ev.ID]; stored.state == driver.StateDead {
			dead++
			if !ev.mayDie() && stored.lastError == driver.ErrorRunInterrupted {
				lastCut++
			}
		}
		if ev.Does == succeed {
			rolledBack, processes := false, make(map[string]bool)
			for _, run := range first {
				rolledBack = rolledBack || seen[run]
				seen[run], processes[run.process] = true, true
			}
			if rolledBack {
				again++
			}
			if len(processes) > 1 {
				interrupted++
			}
		}
		effects += len(f.effects[ev.ID])
		for _, n := range f.sent[ev.ID] {
			sends += n
			if n > 1 {
				sentAgain++
			}
		}
	}
	refusals := "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM hookonce.refusals"
	if tr.db.variant == withSQLite { // those that cost an attempt
		refusals = `SELECT count(*) FROM (SELECT error FROM hookonce_event_attempt UNION ALL SELECT error FROM hookonce_attempt)
			WHERE error LIKE '%refusal%'`
	}
	return []figure{
		{"changes of rows that the database refused", tr.db.number(tr.t, refusals), true},
		{"calls of the handler", runs, true},
		{"calls for events that fail twice", ran[failTwice], true},
		{"calls for events that always panic", ran[panicAlways], true},
		{"calls for events that fail for good", ran[failForGood], true},
		{"calls for events that end their process", ran[killProcess] + ran[leaveProcess], true},
		{"innocent events run again with their batch undone", again, true},
		{"innocent events run again by another process", interrupted, true},
		{"effects", effects, true},
		{"dead letters", dead, true},
		{"dead letters whose last attempt was killed", lastCut, false},
		{"calls of the sender of messages", sends, true},
		{"messages sent more than once, under one id", sentAgain, false},
	}
}
