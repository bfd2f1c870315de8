package demo

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/provider"
)

// smallPlan has two transfers, and two changes of one customer.
func smallPlan() *plan {
	p := &plan{forged: 1}
	for n, f := range []struct {
		form    int
		version int
	}{{0, 0}, {0, 0}, {1, 2}, {1, 1}} {
		e := &event{source: provider.Stripe, form: &forms[provider.Stripe][f.form]}
		e.fill(n, "cus_1", 500, f.version)
		p.events = append(p.events, e)
	}
	return p
}

// booked returns the entries of events of the plan, by index.
func (p *plan) booked(indexes ...int) (ledger []entry) {
	for _, i := range indexes {
		ledger = append(ledger, entry{p.events[i].identity(), p.events[i].facts})
	}
	return ledger
}

// The tally counts the rows of a ledger, and names each wrong number.
func TestTally(t *testing.T) {
	t.Parallel()
	p := smallPlan()
	older := p.events[3].identity()
	tests := map[string]struct {
		ledger  []entry
		skipped map[identity]bool
		change  func(*tally)
		want    string
	}{
		"all right":           {ledger: p.booked(0, 1, 2), skipped: map[identity]bool{older: true}},
		"all right, in order": {ledger: p.booked(3, 0, 1, 2)},
		// The ledger of the other receiver, in place of the bank's.
		"check, then act":       {ledger: p.booked(0, 0, 1, 2, 3), want: "1 events done twice"},
		"money too much":        {ledger: p.booked(0, 0, 1, 2, 3), want: "15.00 EUR booked, 10.00 EUR sent"},
		"an event is lost":      {ledger: p.booked(0, 2), skipped: map[identity]bool{older: true}, want: "1 events lost"},
		"old over new":          {ledger: p.booked(0, 1, 2, 3), want: "1 newer changes overwritten"},
		"skipped without cause": {ledger: p.booked(0, 1, 3), skipped: map[identity]bool{p.events[2].identity(): true}, want: "1 events lost"},
		"a forged effect": {
			ledger: append(p.booked(0, 1, 2), entry{identity{"stripe", "evt_forged"}, facts{account: "cus_thief"}}),
			want:   "1 forged events took effect", skipped: map[identity]bool{older: true},
		},
		"unfinished":        {ledger: p.booked(3, 0, 1, 2), change: func(t *tally) { t.open = 1 }, want: "1 events unfinished"},
		"a forgery passed":  {ledger: p.booked(3, 0, 1, 2), change: func(t *tally) { t.refused = 0 }, want: "0 forgeries refused of 1"},
		"killed once":       {ledger: p.booked(3, 0, 1, 2), change: func(t *tally) { t.kills = 1 }, want: "killed 1 times, not 2"},
		"no dead letter":    {ledger: p.booked(3, 0, 1, 2), change: func(t *tally) { t.dead = 0 }, want: "no dead letter"},
		"an event too many": {ledger: p.booked(3, 0, 1, 2), change: func(t *tally) { t.events, t.foreign = 5, 1 }, want: "5 events in the database, 4 sent"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			counted := &tally{refused: 1, kills: 2, dead: 1}
			counted.know(p.events, []identity{p.events[0].identity(), p.events[1].identity(), p.events[2].identity(), older})
			counted.sums(p.events, tt.ledger, tt.skipped)
			if tt.change != nil {
				tt.change(counted)
			}
			got := strings.Join(counted.faults(p), "; ")
			if (tt.want == "") != (got == "") || !strings.Contains(got, tt.want) {
				t.Errorf("faults %q, want %q", got, tt.want)
			}
		})
	}
}

func TestKnow(t *testing.T) {
	t.Parallel()
	p := smallPlan()
	counted := new(tally)
	counted.know(p.events, []identity{p.events[0].identity(), {"stripe", "evt_forged"}, {"github", p.events[1].id}})
	if diff := cmp.Diff([]int{3, 2}, []int{counted.events, counted.foreign}); diff != "" {
		t.Error(diff)
	}
}

// The table fits 80 columns, a narrow one 60, and has colors only where they are wanted.
func TestTable(t *testing.T) {
	t.Parallel()
	p := newPlan()
	ours := &tally{events: len(p.events), refused: p.forged, cents: p.money()}
	naive := &tally{
		deliveries: 1_000_000, duplicates: 1_000_000, events: 1_000_000, refused: 1, effects: 1_000_000, lost: 1, twice: 1_000_000, cents: 999_999_999_99,
	}
	for columns, most := range map[layout]int{wide: 80, narrow: 60} {
		text := table(p, ours, naive, columns, false)
		if strings.Contains(text, "\x1b") {
			t.Errorf("a table without colors has some:\n%q", text)
		}
		for line := range strings.Lines(text) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > most {
				t.Errorf("%d columns of %d: %s", n, most, line)
			}
		}
		if n := strings.Count(text, "✗"); n != 4 { // of the naive receiver: refused, lost, twice, money
			t.Errorf("%d numbers are marked as wrong, want 4:\n%s", n, text)
		}
	}
	colored := table(p, ours, naive, wide, true)
	for _, want := range []string{"\x1b[32m✓\x1b[0m", "\x1b[31m✗\x1b[0m"} {
		if !strings.Contains(colored, want) {
			t.Errorf("the table lacks %q:\n%s", want, colored)
		}
	}
	if got := moral(p, naive); !strings.Contains(got, "1,000,000 events done twice or more") || !strings.Contains(got, "EUR too much") {
		t.Errorf("the sentence below it is %q", got)
	}
}
