package cli_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/probe"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/group"
)

// probeReport is the documented shape of probe --json.
type probeReport struct {
	Checks  []probeCheck `json:"checks"`
	Passed  int          `json:"passed"`
	Failed  int          `json:"failed"`
	Unknown int          `json:"unknown"`
}

type probeCheck struct {
	Name    string `json:"name"`
	Verdict string `json:"verdict"`
	Sent    string `json:"sent"`
	Saw     string `json:"saw"`
	Why     string `json:"why"`
	Fix     string `json:"fix"`
}

func readProbe(t *testing.T, stdout string) *probeReport {
	t.Helper()
	var r probeReport
	dec := json.NewDecoder(strings.NewReader(stdout))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r); err != nil {
		t.Fatalf("%v\n%s", err, stdout)
	}
	return &r
}

// named returns the names of the checks with a verdict.
func (r *probeReport) named(verdict string) []string {
	var names []string
	for _, c := range r.Checks {
		if c.Verdict == verdict {
			names = append(names, c.Name)
		}
	}
	return names
}

// atLeast is how many schemes of the catalog a check applies to, rounded down: more must not
// be left out. A plain run has one scheme at least for each.
var atLeast = map[string]int{
	"valid": 225, "tampered": 200, "wrong-secret": 220, "no-signature": 220, "old": 85, "future": 85, "several-signatures": 40,
	"raw-body": 210, "duplicate": 225, "other-body": 160, "same-body": 50, "malformed": 200, "oversized": 6,
}

// largeBodies are the providers whose probe sends the body of 4 MiB: JSON and forms, signatures with a secret
// and with a private key. All schemes would take minutes, and a gateway refuses the length alone.
var largeBodies = []string{"stripe", "twilio", "sendgrid", "mailgun"}

// For every scheme of the catalog, in a plain run for one of each kind, a gateway passes the checks of single
// requests. So each is a request that a right receiver of the provider accepts or refuses as the check expects.
func TestProbeEveryProvider(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	wanted := everyScheme
	if !group.Long() {
		wanted = oneOfEach() // TestSendToGateway holds the requests of every scheme against a gateway
	}
	sources := sentSources(t, dir, wanted)
	bySource := make(map[string]any)
	for _, s := range sources {
		bySource[s.name] = s.settings
	}
	text, err := json.Marshal(map[string]any{
		"database":        "sqlite:" + filepath.Join(dir, "hookonce.db"),
		"unverified_rate": "10000/s", // many requests are refused here
		"sources":         bySource,
	})
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "hookonce.yaml")
	writeFile(t, config, string(text))
	g := startGateway(t, dir, "--config", config)
	var mu sync.Mutex
	ran := make(map[string]int)
	t.Run("schemes", func(t *testing.T) {
		for _, s := range sources {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				checks := "valid,tampered,wrong-secret,no-signature,old,future,several-signatures,raw-body,duplicate,other-body,same-body,malformed"
				if provider, _, _ := strings.Cut(s.name, "_"); slices.Contains(largeBodies, provider) {
					checks += ",oversized"
				}
				args := append([]string{"probe", g.public + "/webhooks/" + s.name, "--json", "--timeout", "60s", "--checks", checks}, s.args...)
				stdout, _ := runHere(t, 0, args...)
				mu.Lock()
				defer mu.Unlock()
				for _, c := range readProbe(t, stdout).Checks {
					ran[c.Name]++
				}
			})
		}
	})
	for name, want := range atLeast {
		if !group.Long() {
			want = 1
		}
		if ran[name] < want {
			t.Errorf("%s: ran for %d schemes, want at least %d", name, ran[name], want)
		}
	}
}

// newLedger starts a destination that writes a file DIR/EVENT/MESSAGE for each message. It fails while the
// file DIR/broken exists.
func newLedger(t *testing.T) (url, dir string) {
	t.Helper()
	dir = t.TempDir()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var event struct{ ID string }
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(body, &event)
		}
		if _, broken := os.Stat(filepath.Join(dir, "broken")); err != nil || broken == nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		file := filepath.Join(dir, event.ID, r.Header.Get("webhook-id"))
		if err = os.MkdirAll(filepath.Dir(file), 0o700); err == nil {
			err = os.WriteFile(file, body, 0o600)
		}
		if err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, dir
}

// A gateway passes every check, also those with a kill -9 and with a broken destination.
func TestProbeGateway(t *testing.T) {
	t.Parallel()
	sink, effects := newLedger(t)
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "hookonce.yaml"), "sources: {stripe: {provider: stripe, secrets: ["+githubSecret+"]}}\n"+
		"destinations: {app: {url: \""+sink+"\", retry: {first: 100ms, max: 200ms}}}\nroutes: [{name: app, to: app}]\n")
	g := startGateway(t, dir)
	restart := fmt.Sprintf("kill -9 %d; cd '%s' && hookonce serve --listen %s --admin-listen 127.0.0.1:0 >log 2>&1 & echo $! >'%s/pid'",
		g.cmd.Process.Pid, dir, strings.TrimPrefix(g.public, "http://"), dir)
	t.Cleanup(func() {
		text, err := os.ReadFile(filepath.Join(dir, "pid"))
		if err != nil {
			return // the restart has not run
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			t.Fatal(err)
		}
		if process, err := os.FindProcess(pid); err == nil {
			_ = process.Kill()
		}
	})
	junit := filepath.Join(dir, "probe.xml")
	stdout, stderr := runHere(t, 0, "probe", g.public+"/webhooks/stripe", "--provider", "stripe", "--secret", githubSecret,
		"--effects", "ls '"+effects+"/{id}' 2>/dev/null | wc -l", "--restart", restart,
		"--break", "touch '"+effects+"/broken'", "--mend", "rm '"+effects+"/broken'",
		"--timeout", "60s", "--wait", "60s", "--json", "--junit", junit)
	r := readProbe(t, stdout)
	if want := 18; r.Passed != want || r.Failed != 0 || r.Unknown != 0 {
		t.Errorf("%d checks passed, want %d\n%s", r.Passed, want, stdout)
	}
	if want := "Left out: same-body: the id of an event is in the body\n"; stderr != want {
		t.Errorf("stderr is %q, want %q", stderr, want)
	}
	var suite struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Cases    []struct {
			Name string `xml:"name,attr"`
		} `xml:"testcase"`
	}
	text, err := os.ReadFile(junit)
	if err == nil {
		err = xml.Unmarshal(text, &suite)
	}
	if err != nil || suite.Tests != r.Passed || suite.Failures != 0 || len(suite.Cases) != r.Passed {
		t.Errorf("%v: JUnit has %+v", err, suite)
	}
}

// probeAnswers starts an endpoint that counts its requests, and passes each to answer.
func probeAnswers(t *testing.T, answer http.HandlerFunc) (url string, requests *atomic.Int64) {
	t.Helper()
	requests = new(atomic.Int64)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		answer(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL, requests
}

// Where a valid event is refused, the refusal of a forged one proves nothing.
func TestProbeOfARefusingEndpoint(t *testing.T) {
	t.Parallel()
	url, _ := probeAnswers(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
	stdout, stderr := runHere(t, 1, "probe", url, "--provider", "stripe", "--secret", "whsec_test_secret", "--json", "--checks", "tampered,old,duplicate")
	r := readProbe(t, stdout)
	if diff := cmp.Diff([]string{"valid"}, r.named("fail")); diff != "" {
		t.Errorf("failed (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"tampered", "old", "duplicate"}, r.named("unknown")); diff != "" {
		t.Errorf("unknown (-want +got):\n%s", diff)
	}
	if !strings.Contains(stderr, "Error: a valid event was not accepted: 401\nTry: check that the receiver has this secret") {
		t.Errorf("stderr is %q", stderr)
	}
}

// Without --effects, an endpoint with right answers is not known to do its work once, which is a
// warning. An endpoint that does nothing is found with --effects.
func TestProbeNeedsEffects(t *testing.T) {
	t.Parallel()
	url, _ := probeAnswers(t, func(http.ResponseWriter, *http.Request) {})
	args := []string{"probe", url, "--provider", "none", "--json", "--checks", "valid,duplicate,race,after-failure"}
	stdout, stderr := runHere(t, 0, args...)
	if diff := cmp.Diff([]string{"duplicate", "race", "after-failure"}, readProbe(t, stdout).named("unknown")); diff != "" {
		t.Errorf("unknown (-want +got):\n%s", diff)
	}
	if want := "Warning: 3 checks could not be decided: duplicates need --effects\n"; stderr != want {
		t.Errorf("stderr is %q, want %q", stderr, want)
	}
	stdout, _ = runHere(t, 1, append(args, "--effects", "echo 0 # {id}", "--wait", "1ms")...)
	r := readProbe(t, stdout)
	if diff := cmp.Diff([]string{"valid"}, r.named("fail")); diff != "" {
		t.Errorf("failed (-want +got):\n%s", diff)
	}
	if fix := r.Checks[0].Fix; !strings.HasSuffix(fix, ": https://github.com/hookonce/hookonce/blob/main/docs/five-minute-test.md#lost") {
		t.Errorf("the remedy is %q", fix)
	}
}

// A probe sends at most 200 requests, follows no redirect, and ends at once where nothing answers.
func TestProbeIsPolite(t *testing.T) {
	t.Parallel()
	elsewhere, followed := probeAnswers(t, func(http.ResponseWriter, *http.Request) {})
	url, requests := probeAnswers(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		http.Redirect(w, r, elsewhere, http.StatusTemporaryRedirect)
	})
	stripe := []string{"--provider", "stripe", "--secret", "whsec_test_secret"}
	runHere(t, 1, append([]string{"probe", url}, stripe...)...)
	if n := requests.Load(); n > 200 {
		t.Errorf("%d requests", n)
	}
	if n := followed.Load(); n > 0 {
		t.Errorf("%d redirects were followed", n)
	}
	failing, requests := probeAnswers(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	runHere(t, 1, append([]string{"probe", failing}, stripe...)...)
	if n := requests.Load(); n > 200 {
		t.Errorf("%d requests to an endpoint that asks for more", n)
	}
	stdout, _ := runHere(t, 1, append([]string{"probe", "http://127.0.0.1:1/", "--json"}, stripe...)...)
	if r := readProbe(t, stdout); r.Failed != 1 || r.Passed != 0 || !strings.Contains(r.Checks[0].Saw, "connection refused") {
		t.Errorf("of no endpoint: %s", stdout)
	}
}

// An interrupted probe undoes its damage, and leaves no process behind.
func TestProbeIsInterrupted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	broken := filepath.Join(dir, "broken")
	reached := make(chan struct{})
	var once sync.Once
	url, _ := probeAnswers(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if _, err := os.Stat(broken); err == nil {
			once.Do(func() { close(reached) })
			<-r.Context().Done()
		}
	})
	cmd := exec.Command("hookonce", "probe", url, "--provider", "none", "--checks", "own-trouble",
		"--break", "touch '"+broken+"'", "--mend", "rm '"+broken+"'")
	cmd.Env = append(os.Environ(), raceEnv())
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually.Receive(t, "an event arrives after --break", reached)
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // ProcessState holds the result
	if code := cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(stderr.String(), "Error: interrupted: the checks are not complete\nTry: run the same command again") {
		t.Errorf("exit code %d: %s", code, &stderr)
	}
	if _, err := os.Stat(broken); err == nil {
		t.Error("it was not mended")
	}
}

// The help and the page name every check.
func TestProbeNamesItsChecks(t *testing.T) {
	t.Parallel()
	help, _ := runHere(t, 0, "probe", "--help")
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "docs", "five-minute-test.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range probe.Names() {
		if !slices.Contains(strings.Fields(help), name) {
			t.Errorf("the help does not name %s", name)
		}
		if !strings.Contains(string(page), "\n### "+name+"\n") {
			t.Errorf("the page has no section %s", name)
		}
	}
	if !strings.Contains(string(page), "\n## lost\n") {
		t.Error("the page has no section lost")
	}
}
