// Package hookmigrate holds the steps that build hookonce's schema, and runs them.
//
// The steps are the SQL files in the folders postgres and sqlite, named NNNN_name.sql and numbered
// from 1 without gaps. Until the first release the one step of each database is edited; from then
// on steps are never edited, and a change is a new file. A store applies all missing steps in one
// transaction under a lock, so any number of processes may start at once.
//
// Check refuses a schema that is newer or older than the program, or of another build.
package hookmigrate

import (
	"context"
	"crypto/sha256"
	"embed"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/platform"
)

//go:embed postgres/*.sql sqlite/*.sql
var embedded embed.FS

// files holds the folders of steps. Tests replace it.
var files fs.FS = embedded

const (
	// schemaPlaceholder stands for the quoted name of the schema in the files for PostgreSQL.
	schemaPlaceholder = "{schema}"
	// hashPlaceholder stands for the hash of the file, which each step records.
	hashPlaceholder = "{hash}"
	// platformPlaceholder stands for the query that recognises a managed platform.
	platformPlaceholder = "{platform}"
)

var (
	schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)
	fileName   = regexp.MustCompile(`^(\d{4})_([a-z0-9_]+)\.sql$`)
)

// CheckSchemaName returns an error unless name can be the PostgreSQL schema that hookonce uses: a
// lower-case letter or '_', then up to 62 of [a-z0-9_], not beginning with "pg_", which PostgreSQL
// keeps for itself.
func CheckSchemaName(name string) error {
	if !schemaName.MatchString(name) {
		return fmt.Errorf("schema name %q: use a letter of a-z or '_', then up to 62 of a-z, 0-9 and '_'", name)
	}
	if strings.HasPrefix(name, "pg_") {
		return fmt.Errorf("schema name %q: PostgreSQL keeps names that begin with \"pg_\" for itself", name)
	}
	return nil
}

// Postgres returns the steps for PostgreSQL, in order, with the schema's name filled in. It panics
// if CheckSchemaName refuses the name, so that unchecked text never becomes SQL.
func Postgres(schema string) []driver.Migration {
	if err := CheckSchemaName(schema); err != nil {
		panic("hookmigrate: " + err.Error())
	}
	steps := read("postgres")
	for i := range steps {
		steps[i].SQL = strings.ReplaceAll(steps[i].SQL, schemaPlaceholder, `"`+schema+`"`)
	}
	return steps
}

// SQLite returns the steps for SQLite, in order.
func SQLite() []driver.Migration { return read("sqlite") }

// read returns the steps of a folder. The files are part of the program, so a fault in their names
// is a bug: it panics.
func read(folder string) []driver.Migration {
	names, err := fs.Glob(files, folder+"/*.sql")
	if err != nil {
		panic("hookmigrate: " + err.Error())
	}
	slices.Sort(names)
	steps := make([]driver.Migration, 0, len(names))
	for i, name := range names {
		parts := fileName.FindStringSubmatch(strings.TrimPrefix(name, folder+"/"))
		if parts == nil {
			panic(fmt.Sprintf("hookmigrate: %s is not named NNNN_name.sql", name))
		}
		version, err := strconv.Atoi(parts[1])
		if err != nil || version != i+1 {
			panic(fmt.Sprintf("hookmigrate: %s: the next version after %d is %d", name, i, i+1))
		}
		sql, err := fs.ReadFile(files, name)
		if err != nil {
			panic("hookmigrate: " + err.Error())
		}
		text := strings.ReplaceAll(string(sql), platformPlaceholder, platform.SQL)
		hash := fmt.Sprintf("%x", sha256.Sum256([]byte(text)))
		steps = append(steps, driver.Migration{
			Version: version, Name: parts[2], Hash: hash, SQL: strings.ReplaceAll(text, hashPlaceholder, hash),
		})
	}
	return steps
}

// Step is one step of the schema, and whether a database has it.
type Step struct {
	Version int
	Name    string // "" if Unknown
	Applied bool
	Unknown bool // applied by a newer program; this program does not know the step
	// OtherBuild is set if another build applied the step, before the first release: its text differs.
	OtherBuild bool
}

// Up applies the missing steps in one transaction, and returns them: none if the schema is up to
// date. It does not touch a schema that is newer than this program, or that another build made before
// the first release; the error then matches [driver.ErrSchema].
func Up(ctx context.Context, m driver.Migrator) ([]driver.Migration, error) {
	applied, err := m.Applied(ctx)
	if err != nil {
		return nil, err
	}
	if err := driver.CheckApplied(m.Migrations(), applied); err != nil {
		return nil, err
	}
	return m.Apply(ctx)
}

// Status returns every step that this program knows or the database has, in the order of their
// versions.
func Status(ctx context.Context, m driver.Migrator) ([]Step, error) {
	applied, err := m.Applied(ctx)
	if err != nil {
		return nil, err
	}
	var steps []Step
	for _, known := range m.Migrations() {
		step := Step{Version: known.Version, Name: known.Name}
		if i := driver.IndexStep(applied, known.Version); i >= 0 {
			step.Applied, step.OtherBuild = true, applied[i].Hash != known.Hash
		}
		steps = append(steps, step)
	}
	newest := len(steps)
	for _, a := range applied {
		if a.Version > newest {
			steps = append(steps, Step{Version: a.Version, Applied: true, Unknown: true})
		}
	}
	return steps, nil
}

// Check returns nil if the database has exactly the steps of this program. If it has others, the
// error matches [driver.ErrSchema] and says what to do.
func Check(ctx context.Context, m driver.Migrator) error {
	applied, err := m.Applied(ctx)
	if err != nil {
		return err
	}
	return driver.CheckSchema(m.Migrations(), applied)
}
