// Package hookmigrate holds the steps that build hookonce's schema, and runs
// them.
//
// The steps are the SQL files of the folders postgres and sqlite, named
// NNNN_name.sql, numbered from 1 without gaps. A step that was released is
// never edited: what changes the schema is a new step. A store applies all
// missing steps in one transaction under a lock, so any number of processes may
// start at once.
//
// A schema newer than the program is refused by Check, and so is an older one;
// neither is ever used by guess.
package hookmigrate

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hookonce/hookonce/driver"
)

//go:embed postgres/*.sql sqlite/*.sql
var files embed.FS

// schemaPlaceholder stands for the schema's name in the files of PostgreSQL.
const schemaPlaceholder = "{schema}"

var (
	schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)
	fileName   = regexp.MustCompile(`^(\d{4})_([a-z0-9_]+)\.sql$`)
)

// CheckSchemaName reports why name cannot be the name of a PostgreSQL schema
// that hookonce uses: a lower-case letter or '_', then up to 62 of
// [a-z0-9_], not beginning with "pg_", which PostgreSQL keeps for itself.
func CheckSchemaName(name string) error {
	if !schemaName.MatchString(name) {
		return fmt.Errorf("schema name %q: use a letter of a-z or '_', then up to 62 of a-z, 0-9 and '_'", name)
	}
	if strings.HasPrefix(name, "pg_") {
		return fmt.Errorf("schema name %q: PostgreSQL keeps names that begin with \"pg_\" for itself", name)
	}
	return nil
}

// Postgres returns the steps for PostgreSQL, in order, written for the given
// schema. It panics where CheckSchemaName refuses the name, so that text that
// was not checked never becomes SQL.
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

// read returns the steps of a folder. The files are part of the program, so
// whatever is wrong with them is a bug, and the tests read every one.
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
		sql, err := files.ReadFile(name)
		if err != nil {
			panic("hookmigrate: " + err.Error())
		}
		steps = append(steps, driver.Migration{Version: version, Name: parts[2], SQL: string(sql)})
	}
	return steps
}

// Step is one step of the schema as a database has it.
type Step struct {
	Version int
	Name    string // "" where Unknown
	Applied bool
	Unknown bool // applied by a newer program; this one does not know the step
}

// Up brings the database to the newest step, in one transaction, and returns
// the steps it took: none where the schema was up to date. A schema that is
// newer than this program is left alone, and the error matches
// [driver.ErrSchema].
func Up(ctx context.Context, m driver.Migrator) ([]driver.Migration, error) {
	steps, err := Status(ctx, m)
	if err != nil {
		return nil, err
	}
	if err := refuseNewer(steps); err != nil {
		return nil, err
	}
	return m.Apply(ctx)
}

// Status returns every step that this program knows or the database has, by
// version.
func Status(ctx context.Context, m driver.Migrator) ([]Step, error) {
	applied, err := m.Applied(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the version of the schema: %w", err)
	}
	var steps []Step
	for _, known := range m.Migrations() {
		steps = append(steps, Step{
			Version: known.Version,
			Name:    known.Name,
			Applied: slices.Contains(applied, known.Version),
		})
	}
	newest := len(steps)
	for _, version := range applied {
		if version > newest {
			steps = append(steps, Step{Version: version, Applied: true, Unknown: true})
		}
	}
	return steps, nil
}

// Check returns nil where the schema is the one that this program works with,
// and else an error that matches [driver.ErrSchema] and says what to do.
func Check(ctx context.Context, m driver.Migrator) error {
	steps, err := Status(ctx, m)
	if err != nil {
		return err
	}
	if err := refuseNewer(steps); err != nil {
		return err
	}
	for _, step := range steps {
		if !step.Applied {
			return fmt.Errorf("%w: step %d (%s) has not been applied: run \"hookonce migrate up\"",
				driver.ErrSchema, step.Version, step.Name)
		}
	}
	return nil
}

func refuseNewer(steps []Step) error {
	for _, step := range steps {
		if step.Unknown {
			return fmt.Errorf("%w: it has step %d, which this program does not know: upgrade hookonce",
				driver.ErrSchema, step.Version)
		}
	}
	return nil
}
