package config

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/hookonce/hookonce"
)

// The defaults of Settings.
const (
	DefaultFile        = "hookonce.yaml"
	DefaultDatabase    = "sqlite:hookonce.db"
	DefaultListen      = ":8080"
	DefaultAdminListen = "127.0.0.1:8081"
)

// The values of Settings.Migrate.
const (
	MigrateAuto   = "auto"   // bring the schema up to date at start
	MigrateManual = "manual" // refuse to start on an older schema
)

// Settings are checked and complete. They are not changed after Load. Printing
// Settings in any form shows no secret.
type Settings struct {
	File string // the settings file that was read; "" if there was none

	// Database is sqlite:PATH or a PostgreSQL URL with its password. Show
	// DatabaseDisplay instead.
	Database string
	Migrate  string // MigrateAuto or MigrateManual
	Listen   string // host:port of /webhooks/
	Admin    Admin
	// AllowUnsafe names the durability settings of the database that may be
	// weak, as driver.Weakness names them.
	AllowUnsafe []string
	// ShutdownDelay is the time between turning readiness off and closing the
	// listener. Defaults to 0.
	ShutdownDelay time.Duration

	// Engine is the configuration of the engine: sources, destinations and routes. Its Logger is not set.
	Engine hookonce.Config

	Warnings []Fault // sorted by position
}

// Admin is the listener of the API, the dashboard and the metrics.
type Admin struct {
	Listen string // host:port
	Token  Secret // "" only where Listen is a loopback address
}

// SQLitePath returns the path of a SQLite Database; false if it is another.
func (s Settings) SQLitePath() (path string, ok bool) {
	return strings.CutPrefix(s.Database, sqlitePrefix)
}

// DatabaseDisplay returns Database without its password.
func (s Settings) DatabaseDisplay() string { return redactDSN(s.Database) }

// String says where the settings come from.
func (s Settings) String() string {
	return fmt.Sprintf("settings{file: %q, database: %q, sources: %d, destinations: %d, routes: %d}",
		s.File, s.DatabaseDisplay(), len(s.Engine.Sources), len(s.Engine.Destinations), len(s.Engine.Routes))
}

// Format writes String, whatever the verb.
func (s Settings) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.String())) }

// LogValue returns String.
func (s Settings) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText returns String; JSON uses it too.
func (s Settings) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LoadOptions say where settings come from. The zero value is the program's
// own working directory and environment.
type LoadOptions struct {
	// File is the file named with --config; it must exist. "" means the one
	// that HOOKONCE_CONFIG names, which must exist too, else hookonce.yaml in
	// the working directory if there is one.
	File string
	// Dir stands in for the working directory. Paths inside of Settings, such
	// as that of a SQLite file, stay as they are.
	Dir string
	// Environ returns the environment as os.Environ does, which is the default.
	Environ func() []string
	Flags   Flags
	// CheckPostgres, if it is not nil, is asked whether a PostgreSQL URL can be
	// used, which its driver knows. The error must not quote the URL; if it has
	// a method Hint() string, that says what to do.
	CheckPostgres func(url string) error
}

// Load reads, merges and checks the settings. It opens only the settings file and the files that
// hold secrets. Faults are nil if there are none; otherwise the settings hold the values that could
// be read, for a diagnosis, and Settings.Database is "" if it is not reliable. Load is safe for
// concurrent use.
func Load(opts LoadOptions) (*Settings, *Faults) {
	settings, faults := load(opts)
	if len(faults.List) == 0 {
		return settings, nil
	}
	for _, f := range faults.List {
		if f.ofDatabase() || f.Path == "" && opts.Flags.Database == "" {
			settings.Database = ""
		}
	}
	return settings, faults
}

// Check reads the settings as Load does and returns what is wrong with them
// and then what Load would warn of, each sorted by position, one per line; ok
// tells whether Load would accept them.
func Check(opts LoadOptions) (text string, ok bool) {
	settings, faults := load(opts)
	var lines strings.Builder
	for _, f := range faults.List {
		lines.WriteString(f.Text(faults.File) + "\n")
	}
	for _, f := range settings.Warnings {
		lines.WriteString(f.text(faults.File, "warning: ") + "\n")
	}
	return lines.String(), len(faults.List) == 0
}

func load(opts LoadOptions) (*Settings, *Faults) {
	environ := os.Environ
	if opts.Environ != nil {
		environ = opts.Environ
	}
	l := &loader{dir: opts.Dir, env: make(map[string]string), used: make(map[string]bool), checkPostgres: opts.CheckPostgres}
	for _, entry := range environ() {
		if name, value, ok := strings.Cut(entry, "="); ok {
			l.env[name] = value
		}
	}
	root := l.readFile(opts.File)
	settings := l.settings(root, &opts.Flags)
	settings.File = l.file
	l.unknownVariables()
	sortFaults(l.faults)
	sortFaults(l.warnings)
	settings.Warnings = l.warnings
	return settings, &Faults{File: l.file, List: l.faults}
}

// readFile finds, reads and parses the settings file; nil if there is none, or
// nothing usable in it.
func (l *loader) readFile(named string) *node {
	l.file = named
	if l.file == "" {
		l.file = l.env["HOOKONCE_CONFIG"]
	}
	mustExist := l.file != ""
	if !mustExist {
		l.file = DefaultFile
	}
	path := l.file
	if !filepath.IsAbs(path) {
		path = filepath.Join(l.dir, path)
	}
	data, err := readAtMost(path, maxFile)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !mustExist:
		l.file = ""
		return nil
	case err != nil:
		l.fault(&node{}, "the settings file cannot be read: %s", reason(err))
		return nil
	}
	return l.parse(data)
}
