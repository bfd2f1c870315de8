package cli

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce/hookadmin"
)

var (
	refusedRow = hookadmin.StreamRow{
		Kind: "refused", Source: "github", Outcome: "refused", Status: 401, Reason: "signature_wrong", Remote: "203.0.113.9", TookSeconds: 0.0003,
	}
	deadRow = hookadmin.StreamRow{
		Kind: "attempt", Source: "stripe", Destination: "billing", EventID: longEventID, Type: longType, Outcome: "dead", Status: 500, Attempt: 8,
		Error: longError, TookSeconds: 1.5,
	}
	sentRow = hookadmin.StreamRow{
		Kind: "attempt", Source: "stripe", Destination: "billing", EventID: longEventID, Type: longType, Outcome: "sent", Status: 200, Attempt: 1, TookSeconds: 0.0121,
	}
)

func tailOf(t *testing.T, w io.Writer, rows ...hookadmin.StreamRow) {
	t.Helper()
	tail := &tailText{out: w}
	for i := range rows {
		rows[i].At = hookadmin.Time(time.Date(2026, 1, 31, 14, 32, 18, 0, time.UTC))
		if err := tail.write(&rows[i]); err != nil {
			t.Fatal(err)
		}
	}
}

// A terminal of any width shows why a request was refused, and from where, and why an attempt failed.
func TestTailShowsReasons(t *testing.T) {
	t.Parallel()
	for columns, want := range map[int]string{
		60: `
TIME          WHERE    EVENT ID      OUTCOME         TOOK
14:32:18Z  ✗  github   -             refused 401     0.3 ms
              signature wrong  203.0.113.9
14:32:18Z  ✗  billing  evt_ty7…2u_1  dead 500 #8     1.5 s
              answered 500 Internal Server Error: the ledge…
14:32:18Z  ✓  billing  evt_ty7…2u_1  sent 200 #1     12 ms
`,
		80: `
TIME          WHERE       TYPE         EVENT ID          OUTCOME         TOOK
14:32:18Z  ✗  github      signature wrong  203.0.113.9   refused 401     0.3 ms
14:32:18Z  ✗  billing     invoice…ded  evt_ty7vog…g2u_1  dead 500 #8     1.5 s
              answered 500 Internal Server Error: the ledger cannot be reached
14:32:18Z  ✓  billing     invoice…ded  evt_ty7vog…g2u_1  sent 200 #1     12 ms
`,
		200: `
TIME          WHERE           TYPE                        EVENT ID                          OUTCOME         TOOK
14:32:18Z  ✗  github          -                           -                                 refused 401     0.3 ms   signature wrong  203.0.113.9
14:32:18Z  ✗  billing         invoice.payment_succeeded   evt_ty7vogvldindplmi6vsmjv5g2u_1  dead 500 #8     1.5 s    ` + longError + `
14:32:18Z  ✓  billing         invoice.payment_succeeded   evt_ty7vogvldindplmi6vsmjv5g2u_1  sent 200 #1     12 ms
`,
	} {
		s := &screenOf{columns: columns}
		tailOf(t, s, refusedRow, deadRow, sentRow)
		wantFit(t, s)
		if got := "\n" + s.String(); got != want {
			t.Errorf("%d columns:\n%s\nwant%s", columns, got, want)
		}
	}
}

// docs/commands.md shows these rows.
func TestTailOnThePage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "docs", "commands.md"))
	if err != nil {
		t.Fatal(err)
	}
	shown := hookadmin.StreamRow{Kind: "delivery", Source: "stripe", EventID: "evt_1", Type: "invoice.paid", Outcome: "ok", Status: 200, TookSeconds: 0.012}
	sent, copies, refused := shown, shown, refusedRow
	sent.Kind, sent.Destination, sent.Outcome, sent.Attempt, sent.TookSeconds = "attempt", "billing", "sent", 1, 0.023
	copies.Outcome, copies.Count, copies.TookSeconds = "duplicate", 3, 0.0041
	var b strings.Builder
	tail := &tailText{out: &b}
	for second, rows := range map[int][]*hookadmin.StreamRow{15: {&shown, &sent}, 16: {&copies}, 18: {&refused}} {
		for _, row := range rows {
			row.At = hookadmin.Time(time.Date(2026, 1, 31, 14, 32, second, 0, time.UTC))
		}
	}
	for _, row := range []*hookadmin.StreamRow{&shown, &sent, &copies, &refused} {
		if err := tail.write(row); err != nil {
			t.Fatal(err)
		}
	}
	if !strings.Contains(string(page), "```\n"+b.String()+"```") {
		t.Errorf("the page does not show\n%s", b.String())
	}
}

// In a pipe every cell is whole, and after a long cell the columns stay as wide.
func TestPipedTailGrows(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	long := sentRow
	long.Type = strings.Repeat("type.", 20)
	tailOf(t, &b, sentRow, long, sentRow, refusedRow)
	lines := strings.Split(b.String(), "\n")
	if !strings.Contains(lines[2], long.Type) || !strings.HasSuffix(lines[4], "signature wrong  203.0.113.9") {
		t.Errorf("a cell is not whole:\n%s", b.String())
	}
	at := strings.Index(lines[2], longEventID)
	if first, next := strings.Index(lines[1], longEventID), strings.Index(lines[3], longEventID); next != at || first >= at {
		t.Errorf("the ids are at %d, %d and %d, want the last two alike:\n%s", first, at, next, b.String())
	}
}
