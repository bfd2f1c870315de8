package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/hookonce/hookonce/hookadmin"
	"github.com/hookonce/hookonce/internal/test/rig"
)

// No value of a sender breaks a line of the text log, or controls the terminal.
func TestTextLogIsHarmless(t *testing.T) {
	t.Parallel()
	const hostile = "\x1b]0;owned\a\x1b[2Jevil\r\nlevel=ERROR \u009b31m\u202efake\u2028"
	var out bytes.Buffer
	p := &program{stderr: &out}
	log, err := p.newLogger(&cobra.Command{}, &logFlags{level: "info", format: logText})
	if err != nil {
		t.Fatal(err)
	}
	log.With("bound", hostile).WithGroup("g").Warn(hostile,
		"text", hostile, "error", errors.New(hostile), "bytes", []byte(hostile), "list", []string{hostile})
	line, rest, _ := strings.Cut(out.String(), "\n")
	if rest != "" || strings.Count(line, "evil") != 6 {
		t.Errorf("the log is not one line with every value: %q", out.String())
	}
	if i := strings.IndexFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
		t.Errorf("not printable at byte %d: %q", i, line)
	}
}

// The JSON log and the rows of tail and listen are escaped, and keep their values.
func TestJSONLinesAreHarmless(t *testing.T) {
	t.Parallel()
	hostile := strings.Join(rig.HiddenTexts(), "")
	var out bytes.Buffer
	p := &program{stdout: &out, stderr: &out}
	log, err := p.newLogger(&cobra.Command{}, &logFlags{level: "info", format: logJSON})
	if err != nil {
		t.Fatal(err)
	}
	log.Warn("m", hostile, 1, "event_id", hostile)
	if err := p.newTailWriter(true).write(&hookadmin.StreamRow{EventID: hostile}); err != nil {
		t.Fatal(err)
	}
	if err := (&listener{out: &out, flags: &listenFlags{json: true}}).print(&copied{EventID: hostile}); err != nil {
		t.Fatal(err)
	}
	if c, found := rig.HiddenIn(out.String()); found {
		t.Errorf("%U in %.300q", c, out.String())
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	for _, line := range lines {
		var said struct {
			EventID string `json:"event_id"`
		}
		if err := json.Unmarshal([]byte(line), &said); err != nil || said.EventID != hostile {
			t.Errorf("%v, %q", err, said.EventID)
		}
	}
	if len(lines) != 3 {
		t.Errorf("%d lines", len(lines))
	}
}
