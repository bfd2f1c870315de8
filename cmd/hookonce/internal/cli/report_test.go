package cli

import (
	"errors"
	"fmt"
	"testing"
)

func TestWrap(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]string{
		"Error: short":                                            "Error: short",
		"Error: one two three four five":                          "Error: one two three\n  four five",
		"Error: a\nanother line with words":                       "Error: a\nanother line with\n  words",
		"Error: see docs/runbook.md#a-sender-reports-401, please": "Error: see\n  docs/runbook.md#a-sender-reports-401,\n  please",
		"Error: awordthatislongerthanaline":                       "Error:\n  awordthatislongertha\n  naline",
	} {
		if got := wrap(message, 22); got != want {
			t.Errorf("%q is wrapped as %q, want %q", message, got, want)
		}
	}
}

// A hint with a command works as printed: it has the flags that name the settings and the database. The
// URL of a database may hold a password.
func TestHintsNameTheSameDatabase(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		hint string
		want string
	}{
		{[]string{"events", "show"}, "hookonce events list", "hookonce events list"},
		{[]string{"events", "show", "--config", "my file"}, "hookonce events list --source x; or y", "hookonce events list --source x --config 'my file'; or y"},
		{[]string{"events", "show", "--admin-url", "http://h"}, "wait: hookonce events show a b", "wait: hookonce events show a b --admin-url http://h"},
		{[]string{"prune", "--database", "sqlite:x.db"}, "hookonce migrate up, which makes it", "hookonce migrate up --database sqlite:x.db, which makes it"},
		{[]string{"prune", "--database", "postgres://u:hunter2@h/d"}, "hookonce migrate up", "hookonce migrate up --database URL"},
		{[]string{"events", "list", "--admin-url", "http://h"}, "hookonce migrate up", "hookonce migrate up"},
		{[]string{"events", "list", "--config", "f"}, "hookonce events list --help", "hookonce events list --help"},
		{[]string{"events", "list", "--config", "f"}, "hookonce events list --config f --yes", "hookonce events list --config f --yes"},
		{[]string{"events", "list", "--config", "f"}, "set HOOKONCE_ADMIN_TOKEN", "set HOOKONCE_ADMIN_TOKEN"},
	} {
		p := &program{args: c.args}
		root := p.rootCommand()
		cmd, rest, err := root.Find(c.args)
		if err := errors.Join(err, cmd.ParseFlags(rest)); err != nil {
			t.Fatal(err)
		}
		if got := p.sameTarget(root, c.hint); got != c.want {
			t.Errorf("%v: %q, want %q", c.args, got, c.want)
		}
	}
}

func TestErrorsNameNoPackage(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"hookonce: replay: x":          "replay: x",
		"a: hooksql: opening b":        "a: opening b",
		"see https://h/hookonce: fine": "see https://h/hookonce: fine",
	} {
		if got := packages.ReplaceAllString(fmt.Sprint(text), "$1"); got != want {
			t.Errorf("%q is shown as %q", text, got)
		}
	}
}
