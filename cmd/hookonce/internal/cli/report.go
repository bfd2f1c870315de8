package cli

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/app"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/build"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/runbook"
	"github.com/hookonce/hookonce/internal/shown"
)

// hinter is an error that says what to do about it.
type hinter interface{ Hint() string }

// report prints err for a person. The error may quote a sender, so every character that could
// control the terminal is escaped. On a terminal, long lines are wrapped between words, except a command
// for pasting.
func (p *program) report(root *cobra.Command, err error) {
	fmt.Fprintln(p.stderr, p.wrapped("Error: "+shown.EscapeLines(packages.ReplaceAllString(err.Error(), "$1"))))
	if hint := p.sameTarget(root, hintFor(err)); hinted.MatchString(hint) {
		fmt.Fprintln(p.stderr, "Try: "+shown.EscapeLines(hint))
	} else if hint != "" {
		fmt.Fprintln(p.stderr, p.wrapped("Try: "+shown.EscapeLines(hint)))
	}
	if told, is := errors.AsType[*toldError](err); is {
		fmt.Fprintln(p.stderr, "See: "+seeURL(told.entry))
	}
}

// toldError is an error that the runbook says more about.
type toldError struct {
	error
	entry runbook.Entry
}

// Unwrap implements errors.Unwrap.
func (e *toldError) Unwrap() error { return e.error }

// see returns err, which may be nil, with its entry of the runbook.
func see(entry runbook.Entry, err error) error {
	if err == nil {
		return nil
	}
	return &toldError{err, entry}
}

// seeURL returns the address of an entry, or "".
func seeURL(entry runbook.Entry) string {
	if entry == "" {
		return ""
	}
	return build.Page(entry.Page())
}

// hinted matches the command that a hint names: the whole hint, or its end.
var hinted = regexp.MustCompile(`(?:^|: )(hookonce [^;,]+)`)

// sameTarget gives the command of a hint the flags --admin-url, --ca, --config and --database of the command that
// failed, so that it works as printed. It does not repeat the URL of a database, which may hold a password.
func (p *program) sameTarget(root *cobra.Command, hint string) string {
	at := hinted.FindStringSubmatchIndex(hint)
	failed, _, err := root.Find(p.args)
	if at == nil || err != nil {
		return hint
	}
	command := hint[at[2]:at[3]]
	named, _, err := root.Find(strings.Fields(command)[1:])
	if err != nil || strings.Contains(command, "--help") {
		return hint
	}
	for _, name := range []string{"admin-url", "ca", "config", "database"} {
		set := failed.Flags().Lookup(name)
		if set == nil || !set.Changed || named.Flags().Lookup(name) == nil || strings.Contains(command, "--"+name) {
			continue
		}
		value := word(set.Value.String())
		if name == "database" && !strings.HasPrefix(value, "sqlite:") {
			value = "URL"
		}
		command += " --" + name + " " + value
	}
	return hint[:at[2]] + command + hint[at[3]:]
}

// packages matches the names that the packages of the library put before their errors.
var packages = regexp.MustCompile(`(?m)(^|: )hook(?:once|pgx|sql): `)

// wrapped breaks the lines of a message that are too long for a terminal on stderr.
func (p *program) wrapped(message string) string {
	width, isTerminal := terminalWidth(p.stderr)
	if !isTerminal || width < 20 {
		return message
	}
	return wrap(message, width)
}

// wrap breaks lines of more than width columns between words. Their rest is indented.
func wrap(message string, width int) string {
	const indent = "  "
	lines := strings.Split(message, "\n")
	for i, line := range lines {
		if text.StringWidthWithoutEscSequences(line) <= width {
			continue
		}
		lines[i] = strings.ReplaceAll(wrapWords(line, width-len(indent)), "\n", "\n"+indent)
	}
	return strings.Join(lines, "\n")
}

// linked matches a link, with the signs around it.
var linked = regexp.MustCompile(`\S*(?:https?://|docs/)\S+`)

// wrapWords breaks a line between words. A link that is longer than width stays whole on a line of its own, so that
// it can be copied.
func wrapWords(line string, width int) string {
	if text.StringWidthWithoutEscSequences(line) <= width {
		return line
	}
	var parts []string
	add := func(words string) {
		if words = strings.TrimSpace(words); words != "" {
			parts = append(parts, strings.Split(text.WrapSoft(words, width), "\n")...)
		}
	}
	from := 0
	for _, at := range linked.FindAllStringIndex(line, -1) {
		if link := line[at[0]:at[1]]; text.StringWidthWithoutEscSequences(link) > width {
			add(line[from:at[0]])
			parts, from = append(parts, link), at[1]
		}
	}
	add(line[from:])
	for i := range parts {
		parts[i] = strings.TrimRight(parts[i], " ") // of the padding
	}
	return strings.Join(parts, "\n")
}

// hintFor returns the hint of err, or else the hint for its kind of error.
func hintFor(err error) string {
	var h hinter
	switch {
	case errors.As(err, &h) && h.Hint() != "":
		return h.Hint()
	case errors.Is(err, driver.ErrSchema):
		return "hookonce migrate status"
	case app.Remedy(err) != "":
		return app.Remedy(err)
	case errors.Is(err, driver.ErrLockTimeout), errors.Is(err, driver.ErrSerialization):
		return "run the same command again in a moment"
	case errors.Is(err, driver.ErrUnavailable):
		return "check that the database runs, that this user may use it, and the setting database"
	}
	return ""
}
