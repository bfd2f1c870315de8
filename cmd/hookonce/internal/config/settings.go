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
	"github.com/hookonce/hookonce/internal/settingfile"
)

// The defaults of Settings.
const (
	DefaultFile        = "hookonce.yaml"
	DefaultDatabase    = "sqlite:hookonce.db"
	DefaultSchema      = "hookonce"
	DefaultListen      = ":8080"
	DefaultAdminListen = "127.0.0.1:8081"
)

// The values of Settings.Migrate.
const (
	MigrateAuto   = "auto"   // migrate at start
	MigrateManual = "manual" // refuse to start on an older schema
)

// Settings are checked, and do not change after Load. A zero value in Engine means the default. Printing
// them in any form shows no secret.
type Settings struct {
	File    string // the settings file that was read; "" if there was none
	EnvFile string // the file that env_file names; "" for none
	// FromEnvironment names the variables of the settings file whose values come from the environment of
	// the process, which keeps them until it ends.
	FromEnvironment []string

	// Database is sqlite:PATH or a PostgreSQL URL with its password. Show DatabaseDisplay instead.
	Database string
	// DatabaseFile is the path of the file that holds Database; "" if no file does.
	DatabaseFile     string
	DatabasePassword Password
	Migrate          string // MigrateAuto or MigrateManual
	Schema           string // of a PostgreSQL database; without meaning on SQLite
	Listen           string // host:port of /webhooks/
	// PublicURL is how senders reach the gateway, without /webhooks/; "" if it is not known.
	PublicURL string
	TLS       TLS // the certificates of Listen
	Admin     Admin
	// AllowUnsafe names the durability settings of the database that may be weak, by the names of
	// driver.Weakness.
	AllowUnsafe []string
	// ShutdownDelay is the time between turning readiness off and closing the listener. Defaults to
	// 0.
	ShutdownDelay time.Duration

	// Engine is the configuration of the engine: sources, destinations and routes. Its Logger is not set.
	Engine hookonce.Config
	// Named holds, by the name of the source, the variables and files that hold its values. Sources
	// without any are not in it.
	Named map[string]Named

	Warnings []Fault // sorted by position
}

// Named are values of a source as the settings name them, without the secret itself:
// ${NAME} for a variable, file:PATH for a file. "" stands for every other form, for example the secret
// itself.
type Named struct {
	Secret          string // the first one
	URL             string
	SignatureHeader string
	TokenAt         string
	EventID         string
	Params          map[string]string
}

// Admin is the listener of the API, the dashboard and the metrics.
type Admin struct {
	Listen    string // host:port
	Token     Secret // may be "" only if Listen is a loopback address
	ReadToken Secret // sees everything and changes nothing; "" means none
	Title     string // names this gateway on every page, such as production; "" for none
}

// SQLitePath returns the path of a SQLite database; false if Database is of another kind.
func (s Settings) SQLitePath() (path string, ok bool) {
	return strings.CutPrefix(s.Database, sqlitePrefix)
}

// DatabaseDisplay returns Database without its password.
func (s Settings) DatabaseDisplay() string { return redactDSN(s.Database) }

// String names the sources of the settings, without values.
func (s Settings) String() string {
	return fmt.Sprintf("settings{file: %q, database: %q, sources: %d, destinations: %d, routes: %d}",
		s.File, s.DatabaseDisplay(), len(s.Engine.Sources), len(s.Engine.Destinations), len(s.Engine.Routes))
}

// Format writes the result of String for every verb.
func (s Settings) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.String())) }

// LogValue returns the result of String.
func (s Settings) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText returns the result of String, also for JSON.
func (s Settings) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LoadOptions are the sources of settings. The zero value means the process's working directory and
// environment.
type LoadOptions struct {
	// File is the file named with --config; it must exist. If it is "", the variable
	// HOOKONCE_CONFIG names the file, which must exist, too. Without both, it is hookonce.yaml in
	// the working directory, if that exists.
	File string
	// Dir replaces the working directory. Paths in Settings, such as that of a SQLite file, stay
	// relative.
	Dir string
	// Environ returns the environment. Defaults to os.Environ.
	Environ func() []string
	Flags   Flags
	// CheckPostgres, if not nil, checks whether the driver can use a PostgreSQL URL. Its error must
	// not quote the URL; if the error has a method Hint() string, that is the remedy.
	CheckPostgres func(url string) error
	// CheckTLS, if not nil, checks the files of tls.cert and tls.key. It returns the key at fault, cert or
	// key; a method Hint() string of its error is the remedy. Only Check calls it.
	CheckTLS func(cert, key string) (string, error)
}

// Load reads, merges and checks the settings. It opens only the settings file and the files that
// hold secrets of sources, destinations and admin. Faults are nil if there are none; otherwise the settings hold the values that could
// be read, for a diagnosis, and Settings.Database is "" if it is not reliable. Load is safe for
// concurrent use.
func Load(opts LoadOptions) (*Settings, *Faults) {
	opts.CheckTLS = nil // a command may run as another user, and a reload must not depend on these files
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

// Check loads the settings, and reads the files of tls. It returns the faults and then the warnings, each
// sorted by position, one per line. ok tells whether there are no faults.
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
	l := &loader{dir: opts.Dir, env: make(map[string]string), used: make(map[string]bool), fromFile: make(map[string]bool), checkPostgres: opts.CheckPostgres, checkTLS: opts.CheckTLS}
	for _, entry := range environ() {
		if name, value, ok := strings.Cut(entry, "="); ok {
			l.env[name] = value
		}
	}
	root := l.readFile(opts.File)
	unread := root == nil && len(l.faults) > 0
	settings := l.settings(root, &opts.Flags)
	settings.File, settings.EnvFile, settings.FromEnvironment = l.file, l.envFile, l.fromEnvironment()
	l.unknownVariables()
	sortFaults(l.faults)
	sortFaults(l.warnings)
	settings.Warnings = l.warnings
	return settings, &Faults{File: l.file, List: l.faults, Unread: unread}
}

// readFile finds, reads and parses the settings file. It returns nil if there is none, or if
// nothing in it is usable.
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
	file, err := settingfile.ReadAny(path, maxFile)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !mustExist:
		l.file = ""
		return nil
	case errors.Is(err, fs.ErrPermission) && !mustExist:
		l.fault(&node{}, "the settings file cannot be read: %s. Run it from a folder that this user may read", err)
		return nil
	case err != nil:
		l.fault(&node{}, "the settings file cannot be read: %s", err)
		return nil
	}
	return l.parse(file.Data)
}
