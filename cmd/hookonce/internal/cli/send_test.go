package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/cli"
	"github.com/hookonce/hookonce/internal/sample"
	"github.com/hookonce/hookonce/provider"
	"github.com/hookonce/hookonce/verify"
)

// sentSource is one scheme of the catalog as a source of a gateway, with the arguments for send.
type sentSource struct {
	name     string
	settings map[string]any
	args     []string
	signed   bool
}

// sentSources returns a source for every scheme of the catalog that wanted chooses. It writes keys to dir.
func sentSources(t *testing.T, dir string, wanted func(provider.Name, *verify.Scheme) bool) []sentSource {
	t.Helper()
	var sources []sentSource
	for _, name := range provider.Names() {
		spec, err := provider.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		for i := range spec.Schemes {
			if wanted(name, &spec.Schemes[i]) {
				sources = append(sources, newSentSource(t, dir, spec, &spec.Schemes[i]))
			}
		}
	}
	return sources
}

func everyScheme(provider.Name, *verify.Scheme) bool { return true }

// oneOfEach chooses the first scheme of each family, format and use of a time, and those of Stripe.
func oneOfEach() func(provider.Name, *verify.Scheme) bool {
	type kind struct {
		family verify.Family
		format string
		timed  bool
	}
	have := make(map[kind]bool)
	return func(name provider.Name, scheme *verify.Scheme) bool {
		k := kind{scheme.Family, scheme.Format, scheme.Timestamp != nil}
		first := !have[k]
		have[k] = true
		return first || name == provider.Stripe
	}
}

func newSentSource(t *testing.T, dir string, spec *provider.Spec, scheme *verify.Scheme) sentSource {
	t.Helper()
	params := make(map[string]string)
	for _, p := range spec.ParamsOf(scheme) {
		params[p.Name] = "value-1"
		for value := range p.Sets {
			params[p.Name] = value
		}
	}
	sender, err := sample.New(sample.Setup{Provider: spec.Name, Scheme: scheme.ID, Params: params})
	if err != nil {
		t.Fatal(err)
	}
	private, public := cli.KeyPair(t, sender.Verifier)
	s := sentSource{name: string(spec.Name) + "_" + strings.ToLower(scheme.ID), signed: sender.Verifier.NeedsKeys()}
	url := "https://hooks.example.com/webhooks/" + s.name
	s.settings = map[string]any{
		"provider": spec.Name, "scheme": scheme.ID, "params": params, "url": url, "ack_timeout": "60s", // the machine may be busy
	}
	s.args = []string{"--provider", string(spec.Name), "--scheme", scheme.ID, "--url", url}
	for key, value := range params {
		s.args = append(s.args, "--param", key+"="+value)
	}
	switch {
	case public != "":
		s.settings["key"] = public
		file := filepath.Join(dir, s.name+".key")
		writeFile(t, file, private)
		s.args = append(s.args, "--key", file)
	case s.signed:
		s.settings["secrets"] = []string{private}
		s.args = append(s.args, "--secret", private)
	}
	if spec.Event.ID == "" || sender.OtherBody() {
		event := map[string]string{"id": "sha256:body"} // a stand-in id, good enough for one event
		if spec.Event.Batch != "" {
			event["id"] = "sha256:item"
		}
		if scheme.Timestamp != nil && strings.HasPrefix(scheme.Timestamp.At, "form:") { // the body changes with the second
			event["id"] = "form:token"
		}
		s.settings["event"] = event
	}
	return s
}

// runHere runs the command in this process, and returns its output.
func runHere(t *testing.T, wantCode int, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	if code := cli.Main(t.Context(), args, strings.NewReader(""), &out, &errs, nil); code != wantCode {
		t.Fatalf("hookonce %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), code, wantCode, &out, &errs)
	}
	return out.String(), errs.String()
}

// For every scheme of the catalog, a gateway takes the requests of send, claims one event for any
// number of deliveries, and refuses a request with a changed byte.
func TestSendToGateway(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	sources := sentSources(t, dir, everyScheme)
	settings := map[string]any{
		"database": "sqlite:" + filepath.Join(dir, "hookonce.db"), "unverified_rate": "10000/s", // many requests are refused here
	}
	bySource := make(map[string]any)
	for _, s := range sources {
		bySource[s.name] = s.settings
	}
	settings["sources"] = bySource
	text, err := json.Marshal(settings)
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "hookonce.yaml")
	writeFile(t, config, string(text))
	g := startGateway(t, dir, "--config", config)
	for _, s := range sources {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel() // most of the time passes in waiting for the disk
			args := append([]string{"send", g.public + "/webhooks/" + s.name, "--duplicate", "1", "--json"}, s.args...)
			stdout, _ := runHere(t, 0, args...)
			var report struct {
				Requests, Unexpected int
				Expected             string
			}
			if err := json.Unmarshal([]byte(stdout), &report); err != nil {
				t.Fatal(err)
			}
			if report.Requests != 2 || report.Unexpected != 0 || report.Expected != "2xx" {
				t.Errorf("sent: %s", stdout)
			}
			if s.signed {
				stdout, _ := runHere(t, 0, append(args, "--corrupt")...)
				if !strings.Contains(stdout, `"status": 401`) {
					t.Errorf("a request with a changed byte is answered %s", stdout)
				}
			}
			if n := g.count(t, "source="+s.name); n != 1 {
				t.Errorf("%d events", n)
			}
		})
	}
}

// recorder is an endpoint that records its requests.
type recorder struct {
	mu     sync.Mutex
	bodies []string
	header []http.Header
	status int
}

func (r *recorder) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	var body bytes.Buffer
	_, _ = body.ReadFrom(req.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bodies, r.header = append(r.bodies, body.String()), append(r.header, req.Header)
	w.Header().Set("Location", "http://127.0.0.1:1/elsewhere")
	w.WriteHeader(r.status)
	fmt.Fprint(w, "answer \x1b[2J")
}

// newRecorder starts an endpoint that answers status.
func newRecorder(t *testing.T, status int) (*recorder, string) {
	t.Helper()
	r := &recorder{status: status}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	return r, server.URL + "/hooks?a=1"
}

// All deliveries of one event have the same id and body, in any number and order; different events
// have different ids.
func TestSendManyTimes(t *testing.T) {
	t.Parallel()
	r, url := newRecorder(t, 200)
	stdout, _ := runHere(t, 0, "send", url, "--provider", "github", "--secret", githubSecret, "--type", "push",
		"--times", "5", "--duplicate", "3", "--concurrency", "4", "--shuffle")
	if !strings.Contains(stdout, "20 requests of 5 events") || strings.Contains(stdout, "\x1b") {
		t.Errorf("printed %q", stdout)
	}
	count := make(map[string]int)
	for _, h := range r.header {
		count[h.Get("X-GitHub-Delivery")]++
		if h.Get("X-GitHub-Event") != "push" || h.Get("Content-Type") != "application/json" {
			t.Errorf("sent %v", h)
		}
	}
	if len(r.bodies) != 20 || len(count) != 5 {
		t.Errorf("%d requests of %d events arrived", len(r.bodies), len(count))
	}
	for id, n := range count {
		if n != 4 {
			t.Errorf("event %s was sent %d times", id, n)
		}
	}
}

// The exit code says whether the answers are as expected. Redirects are not followed.
func TestSendExitCode(t *testing.T) {
	t.Parallel()
	stripe := []string{"--provider", "stripe", "--secret", "whsec_test_secret"}
	tests := map[string]struct {
		status int
		args   []string
		code   int
	}{
		"accepted":                  {204, nil, 0},
		"refused":                   {401, nil, 1},
		"redirected":                {307, nil, 1},
		"failed":                    {503, nil, 1},
		"corrupt, refused":          {401, []string{"--corrupt"}, 0},
		"corrupt, accepted":         {200, []string{"--corrupt"}, 1},
		"corrupt, failed":           {500, []string{"--corrupt"}, 1},
		"within the tolerance":      {200, []string{"--skew", "4m"}, 0},
		"beyond it, refused":        {400, []string{"--skew", "10m"}, 0},
		"behind, refused":           {400, []string{"--skew", "-10m"}, 0},
		"beyond it, accepted":       {200, []string{"--skew", "10m"}, 1},
		"one of three not accepted": {410, []string{"--times", "3", "--json"}, 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, url := newRecorder(t, tt.status)
			runHere(t, tt.code, append(append([]string{"send", url}, stripe...), tt.args...)...)
		})
	}
	_, stderr := runHere(t, 1, append([]string{"send", "http://127.0.0.1:1/"}, stripe...)...)
	if !strings.Contains(stderr, "not answered 2xx: 1 of 1 request") {
		t.Errorf("printed %s", stderr)
	}
}

// If a provider signs with a private key and none is given, send prints the public key, which
// verifies the request.
func TestSendMakesKeys(t *testing.T) {
	t.Parallel()
	r, url := newRecorder(t, 200)
	_, stderr := runHere(t, 0, "send", url, "--provider", "discord", "--id", "d1")
	_, public, found := strings.Cut(stderr, "for key: of the source:\n")
	if !found {
		t.Fatalf("printed %s", stderr)
	}
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "key"), public)
	writeFile(t, filepath.Join(dir, "body"), r.bodies[0])
	args := []string{"verify", "--provider", "discord", "--key", filepath.Join(dir, "key"), "--body", filepath.Join(dir, "body")}
	for name := range r.header[0] {
		args = append(args, "-H", name+": "+r.header[0].Get(name))
	}
	stdout, _ := runHere(t, 0, args...)
	if !strings.Contains(stdout, "valid\n") || !strings.Contains(stdout, "d1") {
		t.Errorf("printed %s", stdout)
	}
}

// A redirect is an answer like any other: send does not follow it.
func TestSendFollowsNoRedirect(t *testing.T) {
	t.Parallel()
	elsewhere, url := newRecorder(t, http.StatusOK)
	server := httptest.NewServer(http.RedirectHandler(url, http.StatusTemporaryRedirect))
	t.Cleanup(server.Close)
	stdout, _ := runHere(t, 1, "send", server.URL, "--provider", "stripe", "--secret", "whsec_test_secret")
	if !strings.Contains(stdout, "307") {
		t.Errorf("printed %s", stdout)
	}
	if n := len(elsewhere.bodies); n != 0 {
		t.Errorf("%d requests followed the redirect", n)
	}
}

// Without --shuffle, the deliveries of an event follow one another.
func TestSendShuffles(t *testing.T) {
	t.Parallel()
	const events = 50
	for shuffle, want := range map[string]bool{"": true, "--shuffle": false} {
		r, url := newRecorder(t, http.StatusOK)
		args := []string{"send", url, "--provider", "github", "--secret", githubSecret, "--times", "50", "--duplicate", "1", "--concurrency", "1"}
		if shuffle != "" {
			args = append(args, shuffle)
		}
		runHere(t, 0, args...)
		together := 0
		for i := 0; i+1 < len(r.header); i += 2 {
			if r.header[i].Get("X-GitHub-Delivery") == r.header[i+1].Get("X-GitHub-Delivery") {
				together++
			}
		}
		if len(r.header) != 2*events || (together == events) != want {
			t.Errorf("%q: %d deliveries arrived; both deliveries of %d of %d events came together", shuffle, len(r.header), together, events)
		}
	}
}
