package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"testing"
)

// corpusVariable may name a file with one recorded GitHub event per line:
// {"event":NAME,"payload":{...}}.
const corpusVariable = "HOOKONCE_TEST_GITHUB_EVENTS"

type recorded struct {
	Event   string          `json:"event"`
	Payload json.RawMessage `json:"payload"` // the exact bytes of the file
}

func readCorpus(t *testing.T) []recorded {
	t.Helper()
	path := os.Getenv(corpusVariable)
	if path == "" {
		t.Skipf("%s does not name a file of recorded GitHub events", corpusVariable)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var all []recorded
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 8<<20)
	for lines.Scan() {
		var r recorded
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatalf("line %d: %v", len(all)+1, err)
		}
		all = append(all, r)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestGitHubCorpus delivers recorded GitHub events, each three times at once.
func TestGitHubCorpus(t *testing.T) {
	corpus := readCorpus(t)
	anyStore(t, func(t *testing.T, db *database) {
		const copies = 3
		w := newWorld(t, db, standardSettings)
		g := w.start(t)
		byID := make(map[string]*recorded)
		answers := make(map[string]int)
		for i := range corpus {
			r := &corpus[i]
			id := fmt.Sprintf("8a6f7c3e-0000-4000-8000-%012d", i)
			byID[id] = r
			d := githubDelivery(id, r.Event, string(r.Payload))
			for status, n := range atOnce(copies, func(int) *answer { return g.deliver(t, d) }) {
				answers[status] += n
			}
		}
		want := map[string]int{"200 ok": len(corpus), "200 duplicate": (copies - 1) * len(corpus)}
		checkAnswers(t, "in all", want, answers)
		all := g.waitAllDone(t, "github")
		if len(all) != len(corpus) {
			t.Errorf("%d events, want %d", len(all), len(corpus))
		}
		for _, ev := range all {
			if r := byID[ev.EventID]; r == nil || r.Event != ev.Type {
				t.Errorf("event %s of type %s does not match its delivery", ev.EventID, ev.Type)
			}
		}
		forwarded := w.sink.requests("")
		if len(forwarded) != len(corpus) {
			t.Errorf("%d forwarded requests, want %d", len(forwarded), len(corpus))
		}
		for _, got := range forwarded {
			if r := byID[got.eventID()]; r == nil || got.body != string(r.Payload) {
				t.Errorf("the body of %s is not the one that was delivered", got.eventID())
			}
		}
	})
}
