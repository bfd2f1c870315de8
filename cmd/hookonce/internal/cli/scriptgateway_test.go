package cli_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/hookonce/hookonce/internal/test/eventually"
)

type sceneKey struct{}

// scene holds the processes and servers of one script.
type scene struct {
	t         testing.TB
	variables []string // the names of the environment
	gateway   *gateway // nil if none was started
	status    atomic.Int32
	body      atomic.Value     // a string
	target    *httptest.Server // nil if there is no destination
}

func sceneOf(ts *testscript.TestScript) *scene { return ts.Value(sceneKey{}).(*scene) }

// environ returns the environment of a process that a script starts.
func (s *scene) environ(ts *testscript.TestScript) []string {
	var env []string
	for _, name := range s.variables {
		if value := ts.Getenv(name); value != "" {
			env = append(env, name+"="+value)
		}
	}
	return env
}

func runGateway(ts *testscript.TestScript, neg bool, args []string) {
	s := sceneOf(ts)
	if neg || len(args) == 0 {
		ts.Fatalf("usage: gateway start|stop|kill|hangup|log [FLAGS]")
	}
	if args[0] != "start" && s.gateway == nil {
		ts.Fatalf("no gateway was started")
	}
	switch args[0] {
	case "start":
		g, err := launchGateway(ts.MkAbs("."), s.environ(ts), args[1:]...)
		ts.Check(err)
		s.gateway = g
		ts.Defer(g.end)
		ts.Logf("$ADMIN is %s, and $PUBLIC %s", g.admin, g.public)
		ts.Setenv("ADMIN", g.admin)
		ts.Setenv("PUBLIC", g.public)
		ts.Setenv("LISTEN", strings.TrimPrefix(g.public, "http://"))
		ts.Setenv("HTTPS", strings.Replace(g.public, "http://127.0.0.1", "https://localhost", 1))
	case "stop":
		s.end(ts, syscall.SIGTERM)
		if code := s.gateway.cmd.ProcessState.ExitCode(); code != 0 {
			ts.Fatalf("the gateway ended with %s\n%s", s.gateway.cmd.ProcessState, s.gateway.stderr)
		}
	case "kill":
		s.end(ts, syscall.SIGKILL)
	case "hangup":
		ts.Check(s.gateway.cmd.Process.Signal(syscall.SIGHUP))
	case "log": // complete after an end
		_, err := io.WriteString(ts.Stderr(), s.gateway.stderr.String())
		ts.Check(err)
	default:
		ts.Fatalf("gateway %s is unknown", args[0])
	}
}

// end sends a signal to the gateway and waits for its end.
func (s *scene) end(ts *testscript.TestScript, sig syscall.Signal) {
	ts.Check(s.gateway.cmd.Process.Signal(sig))
	select {
	case <-s.gateway.exited:
	case <-time.After(eventually.Bound):
		ts.Fatalf("the gateway did not end")
	}
}

func setDestination(ts *testscript.TestScript, neg bool, args []string) {
	s := sceneOf(ts)
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: destination STATUS [BODY]")
	}
	status, err := strconv.ParseInt(args[0], 10, 32)
	ts.Check(err)
	body := ""
	if len(args) > 1 {
		body, err = strconv.Unquote(`"` + args[1] + `"`)
		ts.Check(err)
	}
	s.body.Store(body)
	s.status.Store(int32(status))
	if s.target == nil {
		s.target = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			status := int(s.status.Load())
			if status == 0 {
				<-r.Context().Done()
				return
			}
			body, _ := s.body.Load().(string)
			if body != "" {
				w.Header().Set("Content-Type", "text/plain")
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}))
		ts.Defer(s.target.Close)
		ts.Logf("$DESTINATION is %s", s.target.URL)
		ts.Setenv("DESTINATION", s.target.URL)
	}
}

// startList starts an API that lists events as that of Stripe does.
func startList(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: list N")
	}
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	at := time.Now().Add(-time.Hour).Unix()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer rk_of_the_test" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		var events []map[string]any
		for i := range n {
			events = append(events, map[string]any{"id": fmt.Sprint("evt_listed_", n-i), "type": "invoice.paid", "created": at - int64(i)})
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"object": "list", "data": events, "has_more": false})
	}))
	ts.Defer(server.Close)
	ts.Setenv("API", server.URL)
}

func await(ts *testscript.TestScript, neg bool, args []string) {
	s := sceneOf(ts)
	if neg || len(args) != 2 || s.gateway == nil {
		ts.Fatalf("usage: await PATH REGEXP, after gateway start")
	}
	want := regexp.MustCompile("(?s)" + args[1])
	timeout, tick := time.After(eventually.Bound), time.NewTicker(20*time.Millisecond)
	defer tick.Stop()
	for {
		text, err := s.get(ts, args[0])
		if err == nil && want.MatchString(text) {
			return
		}
		select {
		case <-tick.C:
		case <-s.gateway.exited:
			ts.Fatalf("the gateway ended: %s\n%s", s.gateway.cmd.ProcessState, s.gateway.stderr)
		case <-timeout:
			ts.Fatalf("%s does not match; the last answer: %s, %v", args[0], text, err)
		}
	}
}

// get returns the answer of the admin API to GET path, with its status on the first line.
func (s *scene) get(ts *testscript.TestScript, path string) (string, error) {
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.gateway.admin+path, http.NoBody)
	if err != nil {
		return "", err
	}
	if token := ts.Getenv("HOOKONCE_ADMIN_TOKEN"); token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.Status + "\n" + string(text), err
}

func runInterrupted(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: interrupt N REGEXP COMMAND...")
	}
	path, err := exec.LookPath(args[2])
	ts.Check(err)
	cmd := exec.Command(path, args[3:]...)
	cmd.Dir, cmd.Env = ts.MkAbs("."), sceneOf(ts).environ(ts)
	seen := newMatcher(regexp.MustCompile(args[1]))
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = io.MultiWriter(&stdout, seen), io.MultiWriter(&stderr, seen)
	ts.Check(cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case <-seen.matched:
		ts.Check(cmd.Process.Signal(os.Interrupt))
		err = <-ended
	case err = <-ended:
		ts.Fatalf("it ended before it printed a match: %v\n%s%s", err, &stdout, &stderr)
	case <-time.After(eventually.Bound):
		ts.Check(cmd.Process.Kill())
		<-ended
		ts.Fatalf("it printed no match:\n%s%s", &stdout, &stderr)
	}
	_, _ = stdout.WriteTo(ts.Stdout())
	_, _ = stderr.WriteTo(ts.Stderr())
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		ts.Check(err)
	}
	if got := cmd.ProcessState.ExitCode(); strconv.Itoa(got) != args[0] {
		ts.Fatalf("exit code %d, want %s", got, args[0])
	}
}

// matcher closes matched once the written text matches.
type matcher struct {
	want    *regexp.Regexp
	mu      sync.Mutex
	text    strings.Builder
	matched chan struct{}
}

func newMatcher(want *regexp.Regexp) *matcher {
	return &matcher{want: want, matched: make(chan struct{})}
}

// Write implements io.Writer.
func (m *matcher) Write(p []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	already := m.want.MatchString(m.text.String())
	m.text.Write(p)
	if !already && m.want.MatchString(m.text.String()) {
		close(m.matched)
	}
	return len(p), nil
}
