package pages

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/internal/test/eventually"
)

// logged waits until a server has printed the block.
func logged(t *testing.T, w *world, text string) {
	t.Helper()
	eventually.Succeeds(t, "a server prints the block", func() error {
		var printed string
		for _, p := range w.running {
			printed += general(p.out.String()) + "\n"
		}
		if !strings.Contains(printed, general(text)) {
			return fmt.Errorf("the page shows\n%s\nbut the servers print\n%s", general(text), printed)
		}
		return nil
	})
}

const twoSources = `sources:
  stripe: {provider: stripe, secrets: ["${STRIPE_WEBHOOK_SECRET}"]}
  lab: {provider: none, event: {id: "body:id"}}
destinations: {billing: {url: "http://127.0.0.1:3000/"}}
routes: [{sources: [stripe], to: billing}]
`

// banner starts a gateway with the sources of the block, which it prints.
func banner(t *testing.T, w *world, text string) {
	t.Helper()
	w.write(t, "hookonce.yaml", twoSources)
	w.start(t, "export STRIPE_WEBHOOK_SECRET="+secret+"; exec hookonce serve", w.ports["127.0.0.1:8080"])
	logged(t, w, text)
	w.stopLast(t)
}

// readyLine starts the same gateway with a log in JSON. Its line has the keys of the block, and some equal values.
func readyLine(t *testing.T, w *world, text string) {
	t.Helper()
	w.write(t, "hookonce.yaml", twoSources)
	w.start(t, "export STRIPE_WEBHOOK_SECRET="+secret+"; exec hookonce serve --log-format json 2>log", w.ports["127.0.0.1:8080"])
	w.awaitLog(t, "\n")
	var shown, printed map[string]any
	for text, into := range map[string]*map[string]any{text: &shown, w.running[len(w.running)-1].out.String(): &printed} {
		if err := json.Unmarshal([]byte(text), into); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
	}
	for _, differs := range []string{"time", "version", "webhooks", "dashboard"} {
		for _, fields := range []map[string]any{shown, printed} {
			if _, has := fields[differs]; has {
				fields[differs] = differs
			}
		}
	}
	if diff := cmp.Diff(printed, shown); diff != "" {
		t.Errorf("the line (-printed +page):\n%s", diff)
	}
	w.stopLast(t)
}

// conditions checks that each line is a condition of a route.
func conditions(t *testing.T, w *world, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		w.runSettings(t, line, fmt.Sprintf(withSource, "destinations: {app: {url: \"http://127.0.0.1:3000/\"}}\n"+
			"routes: [{name: all, to: app, where: '"+strings.TrimSpace(line)+"'}]\n"))
	}
}

// streamed delivers an event, and holds the block against the entry in the stream.
func streamed(t *testing.T, w *world, text string) {
	t.Helper()
	application, err := net.Listen("tcp", w.ports["127.0.0.1:3000"])
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
	go func() { _ = server.Serve(application) }()
	t.Cleanup(func() { _ = server.Close() })
	r, err := http.NewRequestWithContext(eventually.Context(t), http.MethodGet, "http://"+w.ports["127.0.0.1:8081"]+"/api/v1/stream?kind=attempt", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if out, code := w.run(t, w.here(t, "hookonce send http://127.0.0.1:8080/webhooks/stripe --provider stripe --type invoice.paid --id evt_9 --secret "+secret)); code != 0 {
		t.Fatal(out)
	}
	entry := make(map[string]string)
	for lines := bufio.NewScanner(resp.Body); entry["event"] != "attempt" || entry["data"] == ""; {
		if !lines.Scan() {
			t.Fatalf("the stream ended: %v", lines.Err())
		}
		name, value, _ := strings.Cut(lines.Text(), ": ")
		if entry[name] = value; name == "event" {
			entry = map[string]string{name: value}
		}
	}
	shown := make(map[string]string)
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		shown[name] = value
	}
	keys := func(data string) []string {
		var fields map[string]any
		if err := json.Unmarshal([]byte(data), &fields); err != nil {
			t.Fatalf("%v\n%s", err, data)
		}
		return append(slices.Sorted(maps.Keys(fields)), fmt.Sprint(fields["kind"], fields["outcome"], fields["status"]))
	}
	if diff := cmp.Diff(keys(entry["data"]), keys(shown["data"])); diff != "" || entry["id"] == "" {
		t.Errorf("an entry of the stream (-stream +page):\n%s\n%v", diff, entry)
	}
}

// emptied ends the servers, and removes their files.
func emptied(t *testing.T, w *world) {
	t.Helper()
	w.stopAll(t)
	files, err := filepath.Glob(filepath.Join(w.folder, "hookonce.*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
}
