package cli

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/hookonce/hookonce/hookadmin"
)

// screenOf is a terminal with so many columns.
type screenOf struct {
	bytes.Buffer
	columns int
}

func (s *screenOf) width() int { return s.columns }

const (
	longEventID = "evt_ty7vogvldindplmi6vsmjv5g2u_1"
	longError   = "answered 500 Internal Server Error: the ledger cannot be reached"
	longType    = "invoice.payment_succeeded"
)

// wantFit fails unless each line of shown fits the terminal.
func wantFit(t *testing.T, s *screenOf) []string {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(s.String(), "\n"), "\n")
	for _, line := range lines {
		if n := text.StringWidthWithoutEscSequences(line); n > s.columns {
			t.Errorf("%d columns of %d: %q", n, s.columns, line)
		}
	}
	return lines
}

// On a terminal with 80 columns no column of a listing is missing that tells what happened, and ids are
// complete.
func TestListingsKeepTheirColumns(t *testing.T) {
	now := hookadmin.Time(time.Now().Truncate(time.Second))
	code := 500
	events := &hookadmin.EventPage{Events: []hookadmin.Event{
		{Source: "stripe", EventID: longEventID, Type: longType, State: "dead", Attempts: 12, Duplicates: 345, ReceivedAt: now, LastError: longError},
		{Source: "stripe", EventID: longEventID[:31] + "2", Type: longType, State: "done", Attempts: 1, ReceivedAt: now},
	}}
	letters := &hookadmin.DeadLetterPage{DeadLetters: []hookadmin.DeadLetter{{
		Source: "stripe", EventID: longEventID, Type: longType, Destination: "billing", MessageID: "msg_" + strings.Repeat("x", 32),
		Attempts: 12, StatusCode: &code, LastError: longError, ReceivedAt: now, FailedAt: now,
	}}}
	for _, tt := range []struct {
		name    string
		columns int
		print   func(*program)
		heading string
		want    []string
	}{
		{
			"events", 80, func(p *program) { eventList.print(p, events) },
			"RECEIVED SOURCE TYPE STATE ATT DUP",
			[]string{longType, " 12 ", " 345", longError[:40]},
		},
		{
			"events", 100, func(p *program) { eventList.print(p, events) },
			"RECEIVED SOURCE EVENT ID TYPE STATE ATT DUP",
			[]string{" 12 ", " 345", longError},
		},
		{
			"events", 132, func(p *program) { eventList.print(p, events) },
			"RECEIVED SOURCE EVENT ID TYPE STATE ATT DUP NOTE",
			[]string{" 12 ", " 345", longError[:20]},
		},
		{
			"dead letters", 80, func(p *program) { deadLetterList.print(p, letters) },
			"RECEIVED SOURCE TYPE DESTINATION ATT STATUS FAILED",
			[]string{"billing", " 12 ", " 500 ", longError[:40], "Too wide for this terminal: MESSAGE, texts with …; a pipe (| cat) has them\n  whole."},
		},
		{
			"dead letters", 132, func(p *program) { deadLetterList.print(p, letters) },
			"RECEIVED SOURCE EVENT ID TYPE DESTINATION ATT STATUS FAILED",
			[]string{longType, longError},
		},
		{
			"events", 45, func(p *program) { eventList.print(p, events) },
			"RECEIVED SOURCE TYPE STATE ATT",
			[]string{" 12\n", "Too wide for this terminal: DUPLICATES,\n  texts with …; a pipe"},
		},
	} {
		t.Setenv("NO_COLOR", "1")
		s := &screenOf{columns: tt.columns}
		tt.print(&program{stdout: s, stderr: s})
		lines := wantFit(t, s)
		if heading := strings.Join(strings.Fields(lines[0]), " "); heading != tt.heading {
			t.Errorf("%s in %d columns: the heading is %q, want %q", tt.name, tt.columns, heading, tt.heading)
		}
		shown := s.String()
		for _, want := range append(tt.want, longEventID, time.Time(now).UTC().Format(" 15:04:05Z")) {
			if !strings.Contains(shown, want) {
				t.Errorf("%s in %d columns lack %q:\n%s", tt.name, tt.columns, want, shown)
			}
		}
	}
}

// The reasons that an operator came for are complete, and a link can be copied.
func TestReasonsAndLinksStayWhole(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	const link = "https://github.com/hookonce/hookonce/blob/main/docs/runbook.md#a-sender-reports-401"
	long := strings.Repeat(longError+", ", 2) + "the end"
	s := &screenOf{columns: 80}
	destinationList.print(&program{stdout: s, stderr: s}, &hookadmin.DestinationPage{Destinations: []hookadmin.Destination{{
		Name: "billing", OldestDue: hookadmin.Time(time.Now()), LastFailure: &hookadmin.Failure{Error: long},
		Settings: &hookadmin.DestinationSettings{Address: "https://" + strings.Repeat("billing.", 6) + "example.com/hooks"},
	}}})
	shown := strings.Join(strings.Fields(strings.Join(wantFit(t, s), " ")), " ")
	if !strings.Contains(shown, long) || !strings.HasSuffix(shown, "Too wide for this terminal: ADDRESS; a pipe (| cat) has them whole.") {
		t.Errorf("the reason is cut:\n%s", s)
	}
	s = &screenOf{columns: 80}
	facts := newFacts(s)
	facts.row("warning", "gateway", "→ rotate the secret, as "+link)
	facts.row("See:", "", link)
	facts.Flush()
	want := "warning  gateway  → rotate the secret, as\n  " + link + "\nSee:\n  " + link + "\n"
	if s.String() != want {
		t.Errorf("got\n%s\nwant\n%s", s, want)
	}
}

// Old times keep their year.
func TestOldTimesKeepTheirYear(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	s := &screenOf{columns: 60}
	old := hookadmin.Time(time.Now().AddDate(-1, 0, 0))
	events := &hookadmin.EventPage{Events: []hookadmin.Event{
		{Source: "stripe", EventID: longEventID, State: "done", ReceivedAt: old},
		{Source: "stripe", EventID: longEventID, State: "done", ReceivedAt: hookadmin.Time(time.Now())},
	}}
	eventList.print(&program{stdout: s}, events)
	for _, e := range events.Events {
		if !slices.ContainsFunc(wantFit(t, s), func(line string) bool { return strings.HasPrefix(line, at(e.ReceivedAt)) }) {
			t.Errorf("%s is not complete:\n%s", at(e.ReceivedAt), s)
		}
	}
}

// A pipe has every cell whole.
func TestPipesHaveEverything(t *testing.T) {
	var b bytes.Buffer
	note := strings.Repeat("long ", 100) + "end"
	page := &hookadmin.EventPage{Events: []hookadmin.Event{{Source: "stripe", EventID: longEventID, Type: strings.Repeat("t", 90), State: "dead", LastError: note}}}
	eventList.print(&program{stdout: &b}, page)
	if shown := b.String(); !strings.Contains(shown, note) || !strings.Contains(shown, page.Events[0].Type) || strings.Count(shown, "\n") != 2 {
		t.Errorf("a pipe has\n%s", shown)
	}
}

// The sheet of an event fits, apart from bodies and answers, which are printed byte for byte.
func TestTheSheetOfAnEventFits(t *testing.T) {
	t.Parallel()
	const sum = "c306d6cccb4456bd799c5c6b09c0d9590d39c26d89a6ab452c9de893e309b5cf"
	s := &screenOf{columns: 80}
	printEvent(s, &hookadmin.EventDetail{
		Event:     hookadmin.Event{Source: "lab", EventID: longEventID, Type: longType, LastError: longError, ReceivedAt: hookadmin.Time(time.Now())},
		Headers:   map[string][]string{"X-Signature": {sum + sum}},
		OtherBody: &hookadmin.OtherBody{At: hookadmin.Time(time.Now()), BodySize: 73, BodySHA256: sum},
	})
	wantFit(t, s)
}
