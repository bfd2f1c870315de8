package probe_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/probe"
	"github.com/hookonce/hookonce/internal/sample"
	"github.com/hookonce/hookonce/internal/test/control"
	"github.com/hookonce/hookonce/internal/test/group"
	"github.com/hookonce/hookonce/provider"
)

// faults says for each fault which checks must fail.
var faults = []struct {
	name, provider, fault string
	failed                []string
	may                   string   // a check that may fail
	leftOut               []string // compared for right receivers
}{
	{name: "right", provider: "stripe", leftOut: []string{"same-body"}},
	{name: "right, GitHub", provider: "github", leftOut: []string{"old", "future", "several-signatures", "oversized"}},
	// On a busy machine a cut attempt may still be running when its event comes again.
	{provider: "stripe", fault: checkThenAct, failed: []string{"race"}, may: "after-failure"},
	{provider: "stripe", fault: claimFirst, failed: []string{"after-failure", "own-trouble"}},
	{provider: "stripe", fault: claimLast, failed: []string{"duplicate", "race", "after-failure", "other-body", "restart"}},
	{provider: "stripe", fault: unverified, failed: []string{"tampered", "wrong-secret", "no-signature", "old", "future", "raw-body"}},
	{provider: "stripe", fault: rewritten, failed: []string{"raw-body"}},
	{provider: "stripe", fault: noWindow, failed: []string{"old", "future"}},
	{provider: "stripe", fault: takesFuture, failed: []string{"future"}},
	{provider: "stripe", fault: firstSignature, failed: []string{"several-signatures"}},
	{provider: "stripe", fault: failsDuplicate, failed: []string{"duplicate", "other-body", "restart"}, may: "after-failure"},
	{provider: "stripe", fault: blamesSender, failed: []string{"own-trouble"}},
	{provider: "stripe", fault: hashKey, failed: []string{"other-body"}},
	{name: "body hash, GitHub", provider: "github", fault: hashKey, failed: []string{"other-body", "same-body"}},
	{provider: "stripe", fault: inMemory, failed: []string{"restart"}},
	{provider: "stripe", fault: unlimited, failed: []string{"oversized"}},
	{provider: "stripe", fault: crashes, failed: []string{"malformed"}},
	{provider: "stripe", fault: oneByOne, failed: []string{"slow-body"}},
	{provider: "stripe", fault: worksLater},
}

// TestFaults checks that each fault fails its own checks, and that the right receiver passes all. In a long run, each fault
// also passes the other checks. The answer time depends on the other tests that run meanwhile; see TestAnswerTime.
func TestFaults(t *testing.T) {
	t.Parallel()
	for _, tt := range faults {
		if tt.name == "" {
			tt.name = tt.fault
		}
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := newReceiver(t, tt.provider, tt.fault)
			c.Checks = append([]string{"valid"}, tt.failed...)
			if len(tt.failed) == 0 || group.Long() {
				c.Checks = slices.DeleteFunc(probe.Names(), func(name string) bool { return name == "answer-time" })
			}
			if tt.fault == oneByOne {
				c.Timeout = 3 * time.Second // the check waits so long
			}
			report := run(t, c)
			t.Log(describe(report))
			failed := slices.DeleteFunc(names(report, probe.Fail), func(name string) bool { return name == tt.may })
			if diff := cmp.Diff(tt.failed, failed); diff != "" {
				t.Errorf("failed checks (-want +got):\n%s", diff)
			}
			if got := names(report, probe.Unknown); len(got) > 0 {
				t.Errorf("unknown: %v", got)
			}
			var leftOut []string
			for _, l := range report.LeftOut {
				leftOut = append(leftOut, l.Name)
			}
			if diff := cmp.Diff(tt.leftOut, leftOut); tt.fault == "" && diff != "" {
				t.Errorf("left out (-want +got):\n%s", diff)
			}
			if report.Requests > 200 {
				t.Errorf("%d requests, more than 200", report.Requests)
			}
		})
	}
}

// TestAnswerTime runs alone, on a receiver that must be in time.
func TestAnswerTime(t *testing.T) {
	checkAnswerTime(t, newReceiver(t, "stripe", ""), probe.Pass)
}

// TestLateAnswers checks a receiver that works for longer than the provider waits.
func TestLateAnswers(t *testing.T) {
	t.Parallel()
	c := newReceiver(t, "stripe", slow)
	spec := *c.Sender.Spec
	spec.Retry.Timeout = slowTime
	c.Sender.Spec = &spec
	checkAnswerTime(t, c, probe.Fail)
}

func checkAnswerTime(t *testing.T, c *probe.Config, want probe.Verdict) {
	t.Helper()
	c.Checks = []string{"valid", "malformed", "answer-time"}
	report := run(t, c)
	if n := len(report.Checks); n != 3 || report.Checks[2].Verdict != want || report.Passed < 2 {
		t.Errorf("want %s\n%s", want, describe(report))
	}
}

// newReceiver starts a receiver as a process, and returns the configuration of a probe of it.
func newReceiver(t *testing.T, providerName, fault string) *probe.Config {
	t.Helper()
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	receive := fmt.Sprintf("%s=1 '%s' '%s' %s '%s'", receiverVariable, self, dir, providerName, fault)
	address := start(t, dir, receive)
	command := serveLedger(t, dir)
	sender, err := sample.New(sample.Setup{Provider: provider.Name(providerName)})
	if err != nil {
		t.Fatal(err)
	}
	key, err := sender.Verifier.ParseKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	target := &url.URL{Scheme: "http", Host: address, Path: "/webhooks"}
	return &probe.Config{
		Target: target, PublicURL: target.String(), Sender: sender, Key: key, Type: "test",
		Effects: command("/effects/{id}"),
		Restart: "kill -9 $(cat '" + dir + "/pid'); " + receive + " >/dev/null 2>&1 &",
		Break:   command("/break"),
		Mend:    command("/mend"),
		Timeout: time.Minute,     // the machine may be busy
		Wait:    2 * time.Second, // the receiver works before it answers
	}
}

// serveLedger serves the commands of the probe on the ledger in a folder, and returns them.
func serveLedger(t *testing.T, dir string) (command func(path string) string) {
	t.Helper()
	db, err := openLedger(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	mux := http.NewServeMux()
	mux.HandleFunc("GET /effects/{id}", func(w http.ResponseWriter, r *http.Request) {
		var n int
		if err := db.QueryRow("SELECT count(*) FROM effects WHERE event = ?", r.PathValue("id")).Scan(&n); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprintln(w, n)
	})
	exec := func(statement string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if _, err := db.Exec(statement); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
			}
		}
	}
	mux.HandleFunc("GET /break", exec("ALTER TABLE effects RENAME TO broken"))
	mux.HandleFunc("GET /mend", exec("ALTER TABLE broken RENAME TO effects"))
	return control.Serve(t, mux)
}

// start starts a receiver and returns its address. When the test ends it kills the process that runs
// then.
func start(t *testing.T, dir, command string) (address string) {
	t.Helper()
	cmd := exec.Command("sh", "-c", "exec env "+command)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		kill(t, dir)
		_ = cmd.Wait() // it was killed, here or by --restart
	})
	if _, err := fmt.Fscanln(out, &address); err != nil {
		t.Fatalf("the receiver does not start: %v", err)
	}
	return address
}

func kill(t *testing.T, dir string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(string(text))
	if err != nil {
		t.Fatal(err)
	}
	process, err := os.FindProcess(pid)
	if err == nil {
		err = process.Kill()
	}
	if err != nil {
		t.Errorf("killing the receiver: %v", err)
	}
}

func run(t *testing.T, c *probe.Config) *probe.Report {
	t.Helper()
	report, err := probe.Run(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// names returns the names of the checks with a verdict.
func names(r *probe.Report, v probe.Verdict) []string {
	var out []string
	for i := range r.Checks {
		if r.Checks[i].Verdict == v {
			out = append(out, r.Checks[i].Name)
		}
	}
	return out
}

func describe(r *probe.Report) string {
	var b strings.Builder
	for i := range r.Checks {
		c := &r.Checks[i]
		fmt.Fprintf(&b, "%-7s %-18s %6.2f s  %s\n", c.Verdict, c.Name, c.Took.Seconds(), c.Saw)
	}
	return b.String()
}
