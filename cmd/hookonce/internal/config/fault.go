package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/hookonce/hookonce/internal/shown"
)

// Fault is one fault of the settings, or one warning.
type Fault struct {
	// Line and Col are the position in the file, from 1; 0 if the fault is not in the file.
	Line, Col int
	// Path is the key, such as sources.stripe.secrets[0], or the variable or flag; "" for the whole
	// file.
	Path    string
	Message string
	Hint    string // the remedy; "" if the message holds it
	Unset   string // the name of the variable, if the fault is that it is not set
	// AtStart marks a warning that the engine also gives, each time it is set up.
	AtStart bool
	// InStatus marks a warning that the status of a source also shows, so that a page need not show
	// it twice.
	InStatus bool
}

// FromFlag reports whether the fault is in a flag.
func (f Fault) FromFlag() bool { return strings.HasPrefix(f.Path, "--") }

// ofDatabase reports whether the fault is in the setting database or in its password.
func (f Fault) ofDatabase() bool {
	key, _, _ := strings.Cut(f.Path, ".")
	return slices.Contains([]string{"database", variables["database"], "--database", "database_password", variables["database_password"]}, key)
}

// Text returns the fault as one line; file is the name to print before the position.
func (f Fault) Text(file string) string {
	return f.text(file, "")
}

func (f Fault) text(file, kind string) string {
	var b strings.Builder
	switch {
	case f.Line > 0:
		fmt.Fprintf(&b, "%s:%d:%d: ", file, f.Line, f.Col)
	case f.Path == "" && file != "":
		b.WriteString(file + ": ")
	}
	b.WriteString(kind)
	if f.Path != "" {
		b.WriteString(f.Path + ": ")
	}
	b.WriteString(f.Message)
	if f.Hint != "" {
		b.WriteString(" (" + f.Hint + ")")
	}
	return shown.Escape(b.String())
}

// Faults is the error of Load: all faults, sorted by position.
type Faults struct {
	File string // the settings file; "" if there is none
	List []Fault
	// Unread says that nothing of the file is known: it is missing, may not be read, or is not YAML.
	Unread bool
}

// Error returns the faults, one per line.
func (f *Faults) Error() string {
	lines := make([]string, len(f.List))
	for i, fault := range f.List {
		lines[i] = fault.Text(f.File)
	}
	return strings.Join(lines, "\n")
}

func sortFaults(list []Fault) {
	slices.SortStableFunc(list, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
}
