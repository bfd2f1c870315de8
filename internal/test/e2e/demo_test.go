package e2e

import (
	"bufio"
	"bytes"
	"database/sql"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/group"
	"github.com/hookonce/hookonce/internal/test/program"
	"github.com/hookonce/hookonce/internal/test/race"
)

// demo is one running "hookonce demo", with a folder of its own for temporary files.
type demo struct {
	cmd    *exec.Cmd
	temp   string
	stderr bytes.Buffer // complete once exited is closed
	exited chan struct{}

	mu     sync.Mutex
	stdout strings.Builder
}

func newDemo(t *testing.T, args ...string) *demo {
	t.Helper()
	d := &demo{temp: t.TempDir(), exited: make(chan struct{})}
	d.cmd = exec.Command(program.Hookonce(t), append([]string{"demo"}, args...)...)
	d.cmd.Dir = t.TempDir()
	d.cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + d.temp, "TMPDIR=" + d.temp, race.Environment(),
		// The demo takes no settings, not even these.
		"HOOKONCE_LISTEN=nonsense", "HOOKONCE_CONFIG=/nonexistent",
	}
	return d
}

// startDemo starts the demo with pipes for its output.
func startDemo(t *testing.T, args ...string) *demo {
	t.Helper()
	d := newDemo(t, args...)
	output, err := d.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	d.cmd.Stderr = &d.stderr
	d.begin(t, output)
	return d
}

// begin starts the command, whose output can be read from output.
func (d *demo) begin(t *testing.T, output io.Reader) {
	t.Helper()
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		for lines := bufio.NewReader(output); ; {
			line, err := lines.ReadString('\n')
			d.mu.Lock()
			d.stdout.WriteString(line)
			d.mu.Unlock()
			if err != nil {
				break
			}
		}
		_ = d.cmd.Wait() // ProcessState holds the result
		close(d.exited)
	}()
	t.Cleanup(func() {
		_ = d.cmd.Process.Signal(syscall.SIGTERM) // most have ended by now
		<-d.exited
		if t.Failed() {
			t.Logf("output of the demo:\n%s%s", d.text(), &d.stderr)
		}
	})
}

func (d *demo) text() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stdout.String()
}

// waitFor waits until the output holds text.
func (d *demo) waitFor(t *testing.T, text string) {
	t.Helper()
	eventually.True(t, "the output holds "+text, func() bool {
		ended := false
		select {
		case <-d.exited: // its output is complete
			ended = true
		default:
		}
		found := strings.Contains(d.text(), text)
		if ended && !found {
			t.Fatalf("the demo ended (%s) before it printed %q", d.cmd.ProcessState, text)
		}
		return found
	})
}

// plays waits for one line of the demo after another, up to the table. Each has the whole bound, because a commit of the
// gateway waits for the disk: where that takes 0.2 s, the demo takes three minutes.
func (d *demo) plays(t *testing.T) {
	t.Helper()
	for _, line := range []string{"  10 %  ", "  45 %  ", "  75 %  ", " 100 %  ", "Check, then act: "} {
		d.waitFor(t, line)
	}
}

// folder waits until the demo has its temporary folder, and returns it.
func (d *demo) folder(t *testing.T) string {
	t.Helper()
	var found []string
	eventually.True(t, "there is a folder", func() bool {
		found, _ = filepath.Glob(filepath.Join(d.temp, "hookonce-demo-*"))
		return len(found) == 1
	})
	return found[0]
}

// ends waits for the end, and checks the exit code and that nothing is left.
func (d *demo) ends(t *testing.T, code int) {
	t.Helper()
	eventually.Receive(t, "the demo ends", d.exited)
	if got := d.cmd.ProcessState.ExitCode(); got != code {
		t.Errorf("the demo ended with %s, want the exit code %d", d.cmd.ProcessState, code)
	}
	left, err := os.ReadDir(d.temp)
	if err != nil || len(left) > 0 {
		t.Errorf("left in the folder for temporary files: %v, %v", left, err)
	}
	if left := processesWith(t, d.temp); len(left) > 0 {
		t.Errorf("processes are left:\n%s", strings.Join(left, "\n"))
	}
}

// processesWith returns the command lines of running processes that hold text.
func processesWith(t *testing.T, text string) (found []string) {
	t.Helper()
	var lines []string
	if runtime.GOOS == "linux" {
		files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, file := range files {
			line, _ := os.ReadFile(file) // of a process that has ended: nothing
			lines = append(lines, strings.ReplaceAll(string(line), "\x00", " "))
		}
	} else {
		out, err := exec.Command("ps", "-A", "-o", "args=").Output()
		if err != nil {
			t.Fatal(err)
		}
		lines = strings.Split(string(out), "\n")
	}
	for _, line := range lines {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

var demoColor = regexp.MustCompile(`\x1b\[[0-9]*m`)

// demoRow matches a row of the table: its label, and its last two numbers.
var demoRow = regexp.MustCompile(`(?m)^  (\S[^\n]*?) {2,}(?:[^\n]* )?([0-9.,–]+)(?: [✓✗])? +([0-9.,–]+)(?: [✓✗])?$`)

// table returns the numbers of the table: those of hookonce, and those of the other receiver.
func (d *demo) table(t *testing.T) (ours, other map[string]int) {
	t.Helper()
	ours, other = make(map[string]int), make(map[string]int)
	text := strings.ReplaceAll(demoColor.ReplaceAllString(d.text(), ""), "\r\n", "\n") // as a terminal has it
	for _, m := range demoRow.FindAllStringSubmatch(text, -1) {
		for i, numbers := range []map[string]int{ours, other} {
			if n, err := strconv.Atoi(strings.NewReplacer(",", "", ".", "").Replace(m[i+2])); err == nil {
				numbers[m[1]] = n
			}
		}
	}
	return ours, other
}

// demoDatabase opens the gateway's database of a running demo: in its folder, or the only temporary one
// that the user of db owns.
func demoDatabase(t *testing.T, d *demo, db *database) *sql.DB {
	t.Helper()
	if db.store == "sqlite" {
		return openDB(t, "sqlite", filepath.Join(d.folder(t), "hookonce.db")+"?_pragma=busy_timeout(10000)")
	}
	names := temporaryDatabases(t, db)
	if len(names) != 1 {
		t.Fatalf("the temporary databases are %q, want one", names)
	}
	dsn, err := url.Parse(db.url)
	if err != nil {
		t.Fatal(err)
	}
	dsn.Path = "/" + names[0]
	return openDB(t, "pgx", dsn.String())
}

// temporaryDatabases returns the databases that the gateway's role owns besides its own.
func temporaryDatabases(t *testing.T, db *database) (names []string) {
	t.Helper()
	rows, err := db.open(t).Query(`SELECT datname FROM pg_database WHERE pg_get_userbyid(datdba) = $1 AND datname <> $1`, roleOf(t, db))
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return names
}

// roleOf returns the gateway's role, which may make databases for the demo.
func roleOf(t *testing.T, db *database) string {
	t.Helper()
	u, err := url.Parse(db.url)
	if err != nil {
		t.Fatal(err)
	}
	return u.User.Username()
}

// demoArgs returns the flags of a demo on db.
func demoArgs(t *testing.T, db *database) []string {
	t.Helper()
	if db.store == "sqlite" {
		return nil
	}
	mustExec(t, db.open(t), "ALTER ROLE "+roleOf(t, db)+" CREATEDB")
	return []string{"--database", db.url}
}

// The numbers of the table are those of the databases, and each is as promised. Nothing is left. In a short run
// TestDemoOnATerminal plays the only demo to its end.
func TestDemo(t *testing.T) {
	group.Need(t, "demo")
	if runtime.GOOS == "linux" {
		group.NeedLong(t)
	}
	anyStore(t, func(t *testing.T, db *database) {
		if db.store == "postgres" { // a schema that is not the demo's
			mustExec(t, db.open(t), "CREATE SCHEMA hookonce CREATE TABLE mine (n int)")
		}
		d := startDemo(t, demoArgs(t, db)...)
		d.plays(t)
		checkDemo(t, d, db)
		_ = d.cmd.Process.Signal(syscall.SIGINT)
		d.ends(t, 0)
		d.checkLines(t)
		if d.stderr.Len() > 0 {
			t.Errorf("it says %q", &d.stderr)
		}
		if db.store == "postgres" {
			if names := temporaryDatabases(t, db); len(names) > 0 {
				t.Errorf("databases are left: %q", names)
			}
			if n := number(t, db.open(t), "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE nspname = 'hookonce'"); n != 1 {
				t.Errorf("the schema of the URL's database has %d tables, want only the one that was there", n)
			}
		}
	})
}

// checkLines checks that the demo writes plain lines where it has no terminal.
func (d *demo) checkLines(t *testing.T) {
	t.Helper()
	if text := d.text(); strings.ContainsAny(text, "\x1b\r") {
		t.Errorf("without a terminal, the output is plain lines, not\n%q", text)
	}
}

// checkDashboard checks the dashboard that the demo leads to.
func (d *demo) checkDashboard(t *testing.T, deliveries int) {
	t.Helper()
	d.waitFor(t, "Look around: ")
	link := regexp.MustCompile(`http://\S+/`).FindString(d.text())
	resp, err := http.Get(link)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("the dashboard at %s is answered %s", link, resp.Status)
	}
	// A kill takes the figures of a second, from a traffic of eight.
	if n := countedDeliveries(t, link); n > deliveries || n < deliveries/2 {
		t.Errorf("the dashboard counts %d deliveries, the table %d", n, deliveries)
	}
}

// countedDeliveries returns the deliveries in the charts of a dashboard.
func countedDeliveries(t *testing.T, link string) (n int) {
	t.Helper()
	resp, err := http.Get(link + "api/v1/series?of=deliveries")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer struct {
		Series []struct {
			Points []struct {
				N int `json:",string"`
			}
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	for _, s := range answer.Series {
		for _, p := range s.Points {
			n += p.N
		}
	}
	return n
}

// checkDemo compares the table of a demo that still runs with its databases.
func checkDemo(t *testing.T, d *demo, db *database) {
	t.Helper()
	ours, other := d.table(t)
	gateway := demoDatabase(t, d, db)
	ledger := func(name string) *sql.DB {
		return openDB(t, "sqlite", filepath.Join(d.folder(t), name)+"?_pragma=busy_timeout(10000)")
	}
	bank, naive := ledger("bank.db"), ledger("naive.db")
	const twice = "SELECT count(*) FROM (SELECT 1 FROM ledger GROUP BY source, event_id HAVING count(*) > 1)"
	events := map[string]string{"sqlite": "hookonce_events", "postgres": "hookonce.events"}[db.store]
	for _, c := range []struct {
		what      string
		got, want int
	}{
		{"events", ours["events"], 2000},
		{"events in the database", ours["events"], number(t, gateway, "SELECT count(*) FROM "+events)},
		{"forged ones", 0, number(t, gateway, "SELECT count(*) FROM "+events+" WHERE event_id LIKE '%forged%'")},
		{"stale", ours["stale, skipped"], number(t, gateway, "SELECT count(*) FROM "+events+" WHERE state = 'skipped' AND note LIKE 'stale%'")},
		{"dead letters", ours["dead letters, replayed"], number(t, gateway, "SELECT count(*) FROM "+events+" WHERE generation > 0")},
		{"still dead", 0, number(t, gateway, "SELECT count(*) FROM "+events+" WHERE state NOT IN ('done', 'skipped')")},
		{"forgeries refused", ours["forgeries refused"], 312},
		{"forgeries refused by the other", other["forgeries refused"], 312},
		{"kills", ours["killed with -9"], 2},
		{"kills of the other", other["killed with -9"], 2},
		{"effects", ours["effects in the ledger"], number(t, bank, "SELECT count(*) FROM ledger")},
		{"repeated requests", ours["sent twice, same key"], number(t, bank, "SELECT count(*) FROM repeated")},
		{"done twice", ours["done twice"], number(t, bank, twice)},
		{"none done twice", ours["done twice"], 0},
		{"lost", ours["lost"], 0},
		{"effects and skipped ones", ours["effects in the ledger"] + ours["stale, skipped"], 2000},
		{"undone", ours["new overwritten by old"], 0},
		{"money", ours["booked, EUR"], number(t, bank, "SELECT sum(cents) FROM ledger")},
		{"forged effects", 0, number(t, bank, "SELECT count(*) FROM ledger WHERE event_id LIKE '%forged%'")},
		{"events of the other", other["events"], number(t, naive, "SELECT count(DISTINCT source || event_id) FROM seen")},
		{"effects of the other", other["effects in the ledger"], number(t, naive, "SELECT count(*) FROM ledger")},
		{"done twice by the other", other["done twice"], number(t, naive, twice)},
		{"money of the other", other["booked, EUR"], number(t, naive, "SELECT sum(cents) FROM ledger")},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d, want %d", c.what, c.got, c.want)
		}
	}
	if other["done twice"] < 50 || other["new overwritten by old"] == 0 {
		t.Errorf("the other receiver is hardly wrong (%v): the traffic proves nothing", other)
	}
	if n := ours["deliveries"]; n < 10_000 || n > 20_000 || ours["duplicates absorbed"] < 7000 {
		t.Errorf("%d deliveries, %d duplicates absorbed", n, ours["duplicates absorbed"])
	}
	if strings.Contains(d.text(), "WRONG") {
		t.Error("the demo calls a number wrong")
	}
	d.checkDashboard(t, ours["deliveries"])
}

// One wrong number in a ledger gives the exit code 1, and is shown.
func TestDemoNoticesAWrongNumber(t *testing.T) {
	group.NeedLong(t) // a test of the demo's package counts every kind of wrong number
	t.Parallel()
	for name, c := range map[string]struct {
		args         []string
		change, want string
	}{
		"done twice": {[]string{"--exit"}, "INSERT INTO ledger (source, event_id, account, cents, version) SELECT source, event_id, account, cents, version FROM ledger LIMIT 1", "WRONG: 1 events done twice"},
		"lost":       {nil, "DELETE FROM ledger WHERE seq = (SELECT min(seq) FROM ledger WHERE cents > 0)", "WRONG: 1 events lost"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := startDemo(t, c.args...)
			d.waitFor(t, "gateway killed")
			bank := openDB(t, "sqlite", filepath.Join(d.folder(t), "bank.db")+"?_pragma=busy_timeout(10000)")
			mustExec(t, bank, c.change)
			_ = bank.Close() // before its folder goes
			if c.args == nil {
				d.plays(t)
				_ = d.cmd.Process.Signal(syscall.SIGINT)
			}
			d.ends(t, 1)
			if text := d.text(); !strings.Contains(text, c.want) || !strings.Contains(text, "1 ✗") || !strings.Contains(d.stderr.String(), "Error: hookonce broke its promise: ") {
				t.Errorf("the output lacks %q, a mark, or an error", c.want)
			}
		})
	}
}
