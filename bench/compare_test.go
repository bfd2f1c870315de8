package bench

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"
)

// contestant is one side of a comparison.
type contestant struct {
	name string
	// measure takes one measurement. All preparation is done before.
	measure func(t testing.TB) float64
}

// figures are the measurements of one contestant, one for each round, sorted.
type figures []float64

func (f figures) median() float64 { return f[len(f)/2] }

// comparison is a set of contestants that are measured in turn.
type comparison struct {
	unit        string
	contestants []contestant
	rows        []row
	// rounds is the number of measurements of each contestant; 0 means the default of the scale.
	rounds int
	// ages is the time for which contestants are measured before their figures count.
	ages time.Duration
}

// row is one line of the table of targets: a ratio and its target.
type row struct {
	what              string
	subject, baseline string // names of contestants; baseline is "" for a figure that stands alone
	want              float64
	atMost            bool   // want is an upper bound, not a lower one
	unit              string // "" stands for that of the comparison
}

// result is a measured row.
type result struct {
	row
	subjects, against figures
}

// value is the ratio of the medians, or the figure that stands alone.
func (r *result) value() float64 {
	if r.against == nil {
		return r.subjects.median()
	}
	return r.subjects.median() / r.against.median()
}

func (r *result) reached() bool {
	if r.atMost {
		return r.value() <= r.want
	}
	return r.value() >= r.want
}

// wanted returns the row's target as text.
func (r *result) wanted() string {
	side := "at least"
	if r.atMost {
		side = "at most"
	}
	text := fmt.Sprintf("%s %g", side, r.want)
	if r.against == nil {
		text += " " + r.unit
	}
	return text
}

// run measures all contestants in turn, in a different order each round. It returns the rows whose
// contestants are all present.
func (c *comparison) run(t *testing.T, s *scale) []result {
	t.Helper()
	for began := time.Now(); time.Since(began) < c.ages; {
		for _, one := range c.contestants {
			t.Logf("not counted: %s: %.5g %s", one.name, one.measure(t), c.unit)
		}
	}
	measured := make(map[string]figures)
	for round := range cmp.Or(c.rounds, s.rounds) {
		for i := range c.contestants {
			one := &c.contestants[(i+round)%len(c.contestants)]
			figure := one.measure(t)
			t.Logf("round %d: %s: %.5g %s", round+1, one.name, figure, c.unit)
			measured[one.name] = append(measured[one.name], figure)
		}
	}
	for _, f := range measured {
		slices.Sort(f)
	}
	var results []result
	for _, row := range c.rows {
		row.unit = cmp.Or(row.unit, c.unit)
		results = append(results, result{row: row, subjects: measured[row.subject], against: measured[row.baseline]})
	}
	return results
}
