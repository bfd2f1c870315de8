package sdk

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hookonce/hookonce/internal/sample"
	"github.com/hookonce/hookonce/internal/test/sdk/providers"
)

// patience bounds every wait for another process. A test that reaches it fails.
const patience = 60 * time.Second

// sink is the destination of the gateway. It counts the deliveries of each event.
type sink struct {
	mu     sync.Mutex
	counts map[string]int
	grown  chan struct{} // gets a value after each delivery, unless one waits
}

func (s *sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	s.mu.Lock()
	s.counts[r.Header.Get("Hookonce-Source")+" "+r.Header.Get("Hookonce-Event-Id")]++
	s.mu.Unlock()
	select {
	case s.grown <- struct{}{}:
	default:
	}
}

func (s *sink) events() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.counts)
}

// wait blocks until the sink has got n events.
func (s *sink) wait(t *testing.T, n int) {
	t.Helper()
	late := time.After(patience)
	for s.events() < n {
		select {
		case <-s.grown:
		case <-late:
			t.Fatalf("%d events have arrived at the destination, want %d", s.events(), n)
		}
	}
}

// replayed is a subject with recorded payloads, as a source of the gateway.
type replayed struct {
	source string
	guard  *guard
	saved  []providers.Saved
}

func replayedSubjects(t *testing.T) []replayed {
	t.Helper()
	var list []replayed
	for _, s := range subjects {
		var saved []providers.Saved
		for _, get := range []func() ([]providers.Saved, error){s.Recorded, s.Vectors} {
			if get == nil {
				continue
			}
			more, err := get()
			if err != nil {
				t.Fatalf("%s: %v", s.Name(), err)
			}
			saved = append(saved, more...)
		}
		if len(saved) == 0 {
			continue
		}
		g, err := newGuard(s, nil)
		if err != nil {
			t.Fatalf("%s: %v", s.Name(), err)
		}
		list = append(list, replayed{fmt.Sprintf("s%d", len(list)), g, saved})
	}
	return list
}

// settings returns the settings of the source.
func (r *replayed) settings() map[string]any {
	s := r.guard.subject
	settings := map[string]any{"provider": s.Provider, "scheme": r.guard.sender.Scheme.ID, "url": publicURL(s)}
	if key := r.guard.key.text; key.Secret != "" {
		settings["secrets"] = []string{key.Secret}
	} else {
		settings["key"] = key.Public
	}
	if len(s.Params) > 0 {
		settings["params"] = s.Params
	}
	if len(s.Event) > 0 {
		settings["event"] = s.Event
	}
	return settings
}

// signed returns a recorded request with a signature of now: by the SDK, if it can sign.
func (r *replayed) signed(saved *providers.Saved) (*providers.Request, error) {
	header := http.Header{}
	for name, value := range saved.Request.Header {
		if !strings.HasSuffix(name, "-signature") {
			header.Set(name, value)
		}
	}
	g := r.guard
	now := time.Now()
	req, err := g.sender.Request(sample.Draft{
		URL: publicURL(g.subject), RawQuery: saved.Request.Query, Header: header, Body: []byte(saved.Request.Body), Now: now,
		Event: sample.Event{Time: now},
	})
	if err != nil {
		return nil, err
	}
	if g.subject.Sign == nil {
		err := g.sender.SignOwn(req, g.key.signing)
		return plain(req), err
	}
	p := plain(req)
	p.ID = sample.NewID()
	return p, g.subject.Sign(p, &g.key.text)
}

// answer is the gateway's answer to a delivery.
type answer struct {
	code       int
	text       string
	Status     string `json:"status"`
	EventID    string `json:"event_id"`
	Events     int    `json:"events"`     // of a batch
	Duplicates int    `json:"duplicates"` // of a batch
}

func post(t *testing.T, address string, r *providers.Request) *answer {
	t.Helper()
	if r.Query != "" {
		address += "?" + r.Query
	}
	req, err := http.NewRequestWithContext(t.Context(), r.Method, address, strings.NewReader(r.Body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range r.Header {
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	a := &answer{code: resp.StatusCode, text: fmt.Sprintf("%d %s", resp.StatusCode, body)}
	_ = json.Unmarshal(body, a) // an answer that is not JSON has no status
	return a
}

// TestServe sends every recorded payload to a gateway twice: the first is ok, the second is a
// duplicate, and the destination gets each event once.
func TestServe(t *testing.T) {
	list := replayedSubjects(t)
	if len(list) == 0 {
		t.Fatal("no package has recorded payloads")
	}
	destination := &sink{counts: map[string]int{}, grown: make(chan struct{}, 1)}
	server := httptest.NewServer(destination)
	defer server.Close()
	address, stop := serve(t, list, server.URL)
	total := 0
	for i := range list {
		t.Run(list[i].guard.subject.Name(), func(t *testing.T) { total += list[i].replay(t, address) })
	}
	destination.wait(t, total)
	stop()
	for event, n := range destination.counts {
		if n != 1 {
			t.Errorf("event %s was delivered %d times", event, n)
		}
	}
	if n := destination.events(); n != total {
		t.Errorf("%d events were delivered, want %d", n, total)
	}
	t.Logf("%d events of %d subjects", total, len(list))
}

// replay sends each saved request twice, and returns the number of new events.
func (r *replayed) replay(t *testing.T, address string) int {
	address += "/webhooks/" + r.source
	seen := map[string]string{} // event id → name
	events := 0
	for i := range r.saved {
		saved := &r.saved[i]
		req, err := r.signed(saved)
		if err != nil {
			t.Errorf("%s: %v", saved.Name, err)
			continue
		}
		first, second := post(t, address, req), post(t, address, req)
		if of, ok := seen[first.EventID]; ok && first.Status == "duplicate" {
			t.Logf("%s has the event id of %s", saved.Name, of)
			continue
		}
		switch {
		case first.code != http.StatusOK || first.Status != "ok" || first.Duplicates != 0:
			t.Errorf("%s: the first is answered %.300s, want ok", saved.Name, first.text)
		case first.Events != second.Events || second.Status != "duplicate" && second.Duplicates != max(second.Events, 1):
			t.Errorf("%s: the second is answered %.300s, want duplicate", saved.Name, second.text)
		}
		if first.Status == "ok" {
			events += max(first.Events, 1)
			seen[first.EventID] = saved.Name
		}
	}
	if len(seen)*10 < len(r.saved)*9 {
		t.Errorf("only %d of %d payloads have an event id of their own", len(seen), len(r.saved))
	}
	return events
}

var listening = regexp.MustCompile(`serving webhooks.*?\b(127\.0\.0\.1:\d+)`)

// serve builds and starts a gateway with a source for each subject. It returns its address, and a
// function that stops it and waits for its end.
func serve(t *testing.T, list []replayed, destination string) (address string, stop func()) {
	t.Helper()
	dir := t.TempDir()
	binary := program(t)
	sources := map[string]any{}
	for i := range list {
		sources[list[i].source] = list[i].settings()
	}
	settings, err := json.Marshal(map[string]any{
		"database": "sqlite:" + filepath.Join(dir, "hookonce.db"), "sources": sources,
		"destinations": map[string]any{"sink": map[string]any{"url": destination}},
		"routes":       []any{map[string]any{"name": "all", "to": "sink"}},
	})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "hookonce.yaml"), settings, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, "serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--config", "hookonce.yaml")
	cmd.Dir = dir
	log := &logWriter{address: make(chan string, 1)}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }()
	stop = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(patience):
			_ = cmd.Process.Kill()
			t.Error("the gateway does not stop")
		}
	})
	t.Cleanup(func() {
		stop()
		if t.Failed() {
			t.Logf("the gateway's log:\n%.10000s", log.String())
		}
	})
	select {
	case at := <-log.address:
		return "http://" + at, stop
	case <-ended:
		t.Fatal("the gateway has ended")
	case <-time.After(patience):
		t.Fatal("the gateway does not start")
	}
	return "", stop
}

// program builds hookonce and returns its path.
func program(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "hookonce")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "./cmd/hookonce")
	build.Dir = filepath.Join("..", "..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building hookonce: %v\n%s", err, out)
	}
	return binary
}

// logWriter keeps the gateway's log, and sends the address in it.
type logWriter struct {
	mu      sync.Mutex
	text    bytes.Buffer
	sent    bool
	address chan string
}

func (l *logWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Write(p)
	if found := listening.FindSubmatch(l.text.Bytes()); found != nil && !l.sent {
		l.sent = true
		l.address <- string(found[1])
	}
	return len(p), nil
}

func (l *logWriter) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
