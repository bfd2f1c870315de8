package proof

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/internal/test/group"
)

// root is the module's folder, seen from this one.
const root = "../../../"

// edit changes a text wherever it stands in a file.
type edit struct{ file, old, new string }

// plants are faults that break a promise, and the tests that must notice them.
var plants = []struct {
	broken string // for people
	edits  []edit
	pkg    string
	run    string // the tests
	needs  string // a group; "" for none
}{
	{
		"SQLite acknowledges before the commit is on the disk",
		[]edit{
			{"hooksql/dsn.go", `"synchronous(FULL)"`, `"synchronous(OFF)"`},
			{"hooksql/sqlite.go", `{"synchronous", "2"}`, `{"synchronous", "0"}`},
			{"internal/sqlitestore/health.go", "PRAGMA synchronous", "SELECT 2 -- "}, // or nothing would be acknowledged
		},
		"internal/test/proof", "TestPowerCuts/SQLite", "power",
	},
	{
		"some effects of handlers are committed without the done mark (SQLite)",
		[]edit{{"internal/sqlitestore/outcome.go", "SET state = 2, note = '', attempts", "SET state = CASE attempts % 3 + random() % 9 WHEN 0 THEN 0 ELSE 2 END, note = '', attempts"}},
		"internal/test/proof", "TestExactlyOnceSQLite", "",
	},
	{
		"the sweep takes runs from processes that live (PostgreSQL)",
		[]edit{{"internal/pgstore/sweep.go", "ELSE coalesce(txid_status(id), '')", "ELSE '` + elsewhere + `'"}},
		"hookpgx", "TestWork/SweepRuns", "",
	},
	{
		"the outcome of a lost lease counts (PostgreSQL)",
		[]edit{{"hookmigrate/postgres/0001_init.sql", "AND m.token = i.token AND", "AND"}},
		"hookpgx", "TestDriver/Complete", "",
	},
	{
		"the outcome of a lost lease counts (SQLite)",
		[]edit{{"internal/sqlitestore/complete.go", " AND token = ?10 AND", " AND ?10 IS NOT NULL AND"}},
		"hooksql", "TestConformance/Complete", "",
	},
	{
		"pruning removes events with open messages",
		[]edit{{"internal/sqlitestore/prune.go", "m.state IN (0, 1, 3)", "m.state IN (3)"}},
		"hooksql", "TestConformance/Prune", "",
	},
	{
		"a row that the database dropped is answered as stored",
		[]edit{{"internal/claims/batch.go", "if !r.Settled() {", "if false {"}},
		"internal/claims", "", "",
	},
	{
		"the ids of two sources are one",
		[]edit{{"driver/key.go", "append([]string{source}, parts...)", `append([]string{""}, parts...)`}},
		"hooksql", "TestConformance/Claim", "",
	},
	{
		"every signature of a MAC matches",
		[]edit{{"verify/mac.go", "match |= subtle.ConstantTimeCompare(sum, sigs[n][:a.size])", "match |= subtle.ConstantTimeCompare(sum, sigs[n][:a.size]) | 1"}},
		"verify", "TestKeyOfSeveralSchemes", "", // random tests would leave a file of the case that they found
	},
	{
		"every token opens the admin API",
		[]edit{{"hookadmin/access.go", "subtle.ConstantTimeCompare(digest[:], credentials[i].digest[:]) == 1", "subtle.ConstantTimeCompare(digest[:], credentials[i].digest[:]) >= 0"}},
		"hookadmin", "", "",
	},
	{
		"each attempt has a key of its own",
		[]edit{{"internal/send/header.go", "ours.set(out, headerID, msg.ID)", "ours.set(out, headerID, msg.ID+strconv.Itoa(msg.Attempt))"}},
		"internal/test/inbox", "TestRetriesKeepTheKey", "", // a program that a test builds has no planted fault
	},
	{
		"credentials are stored",
		[]edit{{"internal/wire/header.go", "out[name] = instead", "out[name] = values"}},
		"internal/wire", "", "",
	},
}

// TestPlantedFaults plants each fault alone, and fails if no test notices it.
func TestPlantedFaults(t *testing.T) {
	group.NeedLong(t)
	for i := range plants {
		t.Run(plants[i].broken, func(t *testing.T) { t.Logf("noticed by %s", notice(t, i)) })
	}
}

// notice plants a fault, and returns the test that notices it.
func notice(t *testing.T, i int) string {
	t.Helper()
	p := &plants[i]
	if p.needs != "" {
		group.Need(t, p.needs)
	}
	args := []string{"test", "-count=1", "-timeout=10m", "-overlay=" + overlay(t, p.edits), "-run=" + p.run, "./" + p.pkg}
	cmd := exec.Command("go", args...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), group.Environment+"="+p.needs, pageVariable+"=") // in its short form
	out, err := cmd.CombinedOutput()
	text := string(out)
	if err == nil {
		t.Fatalf("no test of %s %s noticed it", p.pkg, p.run)
	}
	if !strings.Contains(text, "--- FAIL: ") {
		t.Fatalf("go %s: %v, and no test failed:\n%s", strings.Join(args, " "), err, text)
	}
	return p.pkg + " " + failed(text)
}

// overlay writes the changed files, and returns the file that names them for the go command.
func overlay(t *testing.T, edits []edit) string {
	t.Helper()
	folder := t.TempDir()
	replace := make(map[string]string)
	for i, e := range edits {
		path, err := filepath.Abs(root + e.file)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		changed := strings.ReplaceAll(string(text), e.old, e.new)
		if changed == string(text) {
			t.Fatalf("%s does not hold %q any more: plant the fault where its work is done now", e.file, e.old)
		}
		replace[path] = filepath.Join(folder, fmt.Sprintf("%d-%s", i, filepath.Base(path)))
		if err := os.WriteFile(replace[path], []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	list := filepath.Join(folder, "overlay.json")
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err == nil {
		err = os.WriteFile(list, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// failed returns the first of the deepest tests that failed.
func failed(text string) string {
	var name string
	for line := range strings.Lines(text) {
		if _, rest, found := strings.Cut(line, "--- FAIL: "); found {
			this, _, _ := strings.Cut(rest, " ")
			if name != "" && !strings.HasPrefix(this, name+"/") {
				break
			}
			name = this
		}
	}
	return name
}
