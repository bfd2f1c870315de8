package bench

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/internal/test/report"
)

// TestPagesAgree holds the page for users against that of the targets.
func TestPagesAgree(t *testing.T) {
	want := alternativesText(readLines(report.Read(t, targetsFile, "figures", "bench")))
	got := report.Read(t, usersPage, "alternatives", "bench")
	if diff := cmp.Diff(strings.TrimSpace(want), strings.TrimSpace(got)); diff != "" {
		t.Errorf("%s shows other figures than %s (-targets +page):\n%s", usersPage, targetsFile, diff)
	}
}

// TestMergeLines writes a table, reads it again, and replaces a line.
func TestMergeLines(t *testing.T) {
	results := []result{
		{row{what: "ratio", subject: "a", baseline: "b", want: 2, unit: "ms"}, figures{3}, figures{2}},
		{row{what: "size", subject: "a", want: 150, atMost: true, unit: "MB"}, figures{120, 200, 210}, nil},
	}
	lines := linesOf(results)
	old := figuresText("2 cores", lines)
	same := cmp.AllowUnexported(line{})
	if diff := cmp.Diff(lines, readLines(old), same); diff != "" {
		t.Errorf("the lines that were written, and those that are read:\n%s", diff)
	}
	if shares := []float64{lines[0].share(), lines[1].share()}; shares[0] != 0.75 || shares[1] != 0.75 {
		t.Errorf("the shares of the targets are %v, want 0.75 twice", shares)
	}
	anew := linesOf([]result{{row{what: "ratio", subject: "a", baseline: "b", want: 2, unit: "ms"}, figures{5}, figures{2}}})
	merged, err := mergeLines(old, "2 cores", anew)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]line{anew[0], lines[1]}, merged, same); diff != "" {
		t.Errorf("the merged lines:\n%s", diff)
	}
	if _, err := mergeLines(old, "4 cores", anew); err == nil {
		t.Error("figures of two machines were merged")
	}
}
