package hookmigrate_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookmigrate"
)

// TestFiles reads every step that the program contains.
func TestFiles(t *testing.T) {
	t.Parallel()
	for name, steps := range map[string][]driver.Migration{
		"postgres": hookmigrate.Postgres("some_schema"),
		"sqlite":   hookmigrate.SQLite(),
	} {
		if len(steps) == 0 {
			t.Errorf("%s has no steps", name)
		}
		for i, step := range steps {
			if step.Version != i+1 || step.Name == "" {
				t.Errorf("%s: step %d is version %d, named %q", name, i+1, step.Version, step.Name)
			}
			if strings.Contains(step.SQL, "{schema}") || strings.Count(step.SQL, step.Hash) != 1 {
				t.Errorf("%s: step %d contains {schema}, or its hash not once", name, step.Version)
			}
		}
	}
	for _, step := range hookmigrate.Postgres("some_schema") {
		record := fmt.Sprintf(`INSERT INTO "some_schema".schema_migration (version, name, hash) VALUES (%d, '%s', '%s');`, step.Version, step.Name, step.Hash)
		if !strings.Contains(step.SQL, record) {
			t.Errorf("postgres: step %d does not record itself with: %s", step.Version, record)
		}
	}
}

// TestFileNames checks that steps are ordered by their numbers, and that a fault in a name panics.
func TestFileNames(t *testing.T) { //nolint:paralleltest // it replaces the files
	for names, ok := range map[string]bool{
		"0001_a":               true,
		"0002_b 0001_z 0003_a": true,
		"0001_a 0003_c":        false,
		"0002_b":               false,
		"0000_a":               false,
		"0001_a 0001_b":        false,
		"1_a":                  false,
		"0001":                 false,
		"0001_A":               false,
		"0001_a-b":             false,
	} {
		files := fstest.MapFS{}
		for name := range strings.FieldsSeq(names) {
			files["sqlite/"+name+".sql"] = &fstest.MapFile{Data: []byte("SELECT '" + name + "'")}
		}
		restore := hookmigrate.ReplaceFiles(files)
		var steps []driver.Migration
		panicked := panics(func() { steps = hookmigrate.SQLite() })
		restore()
		if panicked == ok {
			t.Errorf("%s: panicked is %v", names, panicked)
		}
		for i, step := range steps {
			if step.Version != i+1 || step.SQL != fmt.Sprintf("SELECT '%04d_%s'", step.Version, step.Name) {
				t.Errorf("%s: step %d is %+v", names, i+1, step)
			}
		}
	}
}

func TestSchemaNames(t *testing.T) {
	t.Parallel()
	for name, ok := range map[string]bool{
		"hookonce": true, "a": true, "_a9": true, strings.Repeat("a", 63): true,
		"": false, "A": false, "9a": false, "a-b": false, "a b": false, `a"b`: false, "a;b": false, "é": false,
		"a\n": false, "pg_x": false, "pg_": false, strings.Repeat("a", 64): false,
	} {
		if err := hookmigrate.CheckSchemaName(name); (err == nil) != ok {
			t.Errorf("CheckSchemaName(%q): %v", name, err)
		}
		if panicked := panics(func() { hookmigrate.Postgres(name) }); panicked == ok {
			t.Errorf("Postgres(%q): panicked is %v", name, panicked)
		}
	}
}

func panics(f func()) (panicked bool) {
	defer func() { panicked = recover() != nil }()
	f()
	return false
}

// database is a migrator whose database is a list of versions.
type database struct {
	applied []driver.Migration
	err     error
	calls   int
}

func (d *database) Migrations() []driver.Migration {
	return []driver.Migration{{Version: 1, Name: "one"}, {Version: 2, Name: "two"}}
}
func (d *database) Applied(context.Context) ([]driver.Migration, error) { return d.applied, d.err }

func (d *database) Apply(context.Context) ([]driver.Migration, error) {
	d.calls++
	return d.Migrations()[len(d.applied):], nil
}

func TestVersions(t *testing.T) {
	t.Parallel()
	one, two := hookmigrate.Step{Version: 1, Name: "one", Applied: true}, hookmigrate.Step{Version: 2, Name: "two", Applied: true}
	missingOne, missingTwo := one, two
	missingOne.Applied, missingTwo.Applied = false, false
	for _, test := range []struct {
		applied []int
		steps   []hookmigrate.Step
		hint    string // in the error of Check; "" if it returns nil
		up      int    // how many steps Up applies; -1 if it fails
	}{
		{nil, []hookmigrate.Step{missingOne, missingTwo}, "step 1 (one) has not been applied: run \"hookonce migrate up\"", 2},
		{[]int{1}, []hookmigrate.Step{one, missingTwo}, "step 2 (two) has not been applied: run \"hookonce migrate up\"", 1},
		{[]int{2}, []hookmigrate.Step{missingOne, two}, "step 1 (one) has not been applied: run \"hookonce migrate up\"", 1},
		{[]int{1, 2}, []hookmigrate.Step{one, two}, "", 0},
		{[]int{1, 2, 3}, []hookmigrate.Step{one, two, {Version: 3, Applied: true, Unknown: true}}, "upgrade hookonce", -1},
	} {
		d := &database{}
		for _, version := range test.applied {
			d.applied = append(d.applied, driver.Migration{Version: version})
		}
		steps, err := hookmigrate.Status(t.Context(), d)
		if diff := cmp.Diff(test.steps, steps); err != nil || diff != "" {
			t.Errorf("Status of %v: error %v, differs (-want +got):\n%s", test.applied, err, diff)
		}
		err = hookmigrate.Check(t.Context(), d)
		if (err == nil) != (test.hint == "") || err != nil && (!errors.Is(err, driver.ErrSchema) || !strings.Contains(err.Error(), test.hint)) {
			t.Errorf("Check of %v: %v, want the hint %q", test.applied, err, test.hint)
		}
		taken, err := hookmigrate.Up(t.Context(), d)
		if test.up < 0 {
			if !errors.Is(err, driver.ErrSchema) || d.calls != 0 {
				t.Errorf("Up of %v: error %v after %d calls of Apply, want an error and no call", test.applied, err, d.calls)
			}
		} else if err != nil || len(taken) != test.up {
			t.Errorf("Up of %v: applied %d steps, error %v, want %d", test.applied, len(taken), err, test.up)
		}
	}
}

func TestUnavailableDatabase(t *testing.T) {
	t.Parallel()
	d := &database{err: driver.ErrUnavailable}
	for name, call := range map[string]func() error{
		"Status": func() error { _, err := hookmigrate.Status(t.Context(), d); return err },
		"Check":  func() error { return hookmigrate.Check(t.Context(), d) },
		"Up":     func() error { _, err := hookmigrate.Up(t.Context(), d); return err },
	} {
		if err := call(); !errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrSchema) {
			t.Errorf("%s: got the error %v, want %v", name, err, driver.ErrUnavailable)
		}
	}
	if d.calls != 0 {
		t.Error("Apply was called")
	}
}
