package cli_test

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/provider"
)

// note waits for a line on stderr with this text.
func (tl *tail) note(t *testing.T, text string) {
	t.Helper()
	for said := false; !said; {
		note, ok := eventually.Next(t, "it says "+text, tl.notes)
		if !ok {
			t.Fatalf("it ended without %q", text)
		}
		said = strings.Contains(note, text)
	}
}

// got returns the requests so far.
func (r *recorder) got() (bodies []string, headers []http.Header) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.bodies), slices.Clone(r.header)
}

// startSources starts a gateway on a database in dir with a Stripe source and a GitHub one.
func startSources(t *testing.T, dir string) *gateway {
	t.Helper()
	writeFile(t, filepath.Join(dir, "hookonce.yaml"), "sources:\n  gh: {provider: github, secrets: ["+githubSecret+"]}\n"+
		"  stripe: {provider: stripe, secrets: [whsec_test_secret_1]}\n  lab: {provider: gitlab, scheme: secret-token, secrets: ["+githubSecret+"]}\n")
	return startGateway(t, dir)
}

// eventTables lists the tables that a listener could change. The others are the feed, which is written
// while somebody looks, figures, which are written 10 s after the deliveries, and the turn to prune.
var eventTables = []string{
	"event", "event_state", "event_attempt", "inline_failure", "object_version", "ordered_message", "message", "attempt", "attempt_response", "history", "job",
	"delivery_count", "other_body", "body_seen", "quarantine", "source_window", "refused", "paused_destination", "reconcile", "armed_source",
	"learned_secret", "schema_migration",
}

// dump returns the rows of eventTables. Every other table must be one that may change.
func dump(t *testing.T, file string) map[string][]string {
	t.Helper()
	db, err := sql.Open("sqlite", file+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	query := func(text string) (rows []string) {
		found, err := db.QueryContext(t.Context(), text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		defer found.Close()
		columns, err := found.Columns()
		if err != nil {
			t.Fatal(err)
		}
		for found.Next() {
			values, places := make([]any, len(columns)), make([]any, len(columns))
			for i := range values {
				places[i] = &values[i]
			}
			if err := found.Scan(places...); err != nil {
				t.Fatal(err)
			}
			rows = append(rows, fmt.Sprintf("%q", values))
		}
		if err := found.Err(); err != nil {
			t.Fatal(err)
		}
		slices.Sort(rows)
		return rows
	}
	all := make(map[string][]string)
	for _, table := range eventTables {
		all[table] = query("SELECT * FROM hookonce_" + table)
	}
	others := query("SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'hookonce%' AND name NOT IN ('hookonce_" +
		strings.Join(eventTables, "','hookonce_") + "')")
	if want := []string{`["hookonce_feed"]`, `["hookonce_feed_watch"]`, `["hookonce_prune_turn"]`, `["hookonce_rollup"]`, `["hookonce_type_rollup"]`}; !slices.Equal(others, want) {
		t.Errorf("the other tables are %v, want %v", others, want)
	}
	return all
}

// TestListen: copies of stored and of live events have the stored bytes and headers, without those of the
// connection; and no table changes.
func TestListen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	g := startSources(t, dir)
	send := func(id string) {
		t.Helper()
		runHere(t, 0, "send", g.public+"/webhooks/stripe", "--provider", "stripe", "--secret", "whsec_test_secret_1", "--id", id, "-H", "X-Forwarded-For: 192.0.2.1")
	}
	send("evt_1")
	send("evt_2")
	g.deliver(t, "d1")
	g.poll(t, "three are stored", func() bool { return len(listEvents(t, g, nil)) == 3 })
	before := dump(t, filepath.Join(dir, "hookonce.db"))
	r, url := newRecorder(t, 200)
	l := startFollowing(t, dir, nil, "listen", "--since", "1h", "--source", "stripe", url)
	l.note(t, "Connected. 2 stored, then live. Copies only: production state is untouched.")
	for _, id := range []string{"evt_1", "evt_2"} {
		if line := l.next(t); !strings.Contains(line, "Z "+id+" invoice.paid → 200 (") {
			t.Errorf("the line is %q", line)
		}
	}
	if diff := cmp.Diff(before, dump(t, filepath.Join(dir, "hookonce.db"))); diff != "" {
		t.Errorf("tables changed (-before +after):\n%s", diff)
	}
	send("evt_3")
	if line := l.next(t); !strings.Contains(line, "Z evt_3 invoice.paid → 200 (") {
		t.Errorf("the line is %q", line)
	}
	if rest := l.stop(t); len(rest) > 0 {
		t.Errorf("unexpected lines: %q", rest)
	}
	bodies, headers := r.got()
	for i, id := range []string{"evt_1", "evt_2", "evt_3"} {
		var stored struct {
			Body    string
			Headers http.Header
		}
		unmarshal(t, g.api(t, "/api/v1/events/stripe/"+id), &stored)
		for _, name := range []string{"Accept-Encoding", "Content-Length", "X-Forwarded-For"} {
			delete(stored.Headers, name)
			delete(headers[i], name)
		}
		if diff := cmp.Diff(stored.Body, bodies[i]); diff != "" {
			t.Errorf("%s (-stored +copy):\n%s", id, diff)
		}
		if diff := cmp.Diff(stored.Headers, headers[i]); diff != "" || len(headers[i]["Stripe-Signature"]) != 1 {
			t.Errorf("%s (-stored +copy):\n%s", id, diff)
		}
	}
}

// TestListenLeavesOut: a copy has none of the headers of the proxies before the gateway.
func TestListenLeavesOut(t *testing.T) {
	t.Parallel()
	dir, elsewhere := t.TempDir(), t.TempDir()
	writeFile(t, filepath.Join(dir, "hookonce.yaml"), "sources: {lab: {provider: gitlab, scheme: secret-token, secrets: ["+githubSecret+"]}}\n"+
		"admin: {token: a-full-token-of-some-length, read_token: a-token-that-only-reads}\n")
	g := startGateway(t, dir)
	if _, stderr, code := run(t, elsewhere, "listen", "--from", g.admin, "3000"); code != 1 || !strings.Contains(stderr, "needs a token") {
		t.Errorf("without a token: exit code %d: %s", code, stderr)
	}
	r, url := newRecorder(t, 503)
	l := startFollowing(t, elsewhere, []string{"HOOKONCE_READ_TOKEN=a-token-that-only-reads"}, "listen", "--from", g.admin, "--json", url)
	l.note(t, "Connected. 0 stored, then live.")
	runHere(t, 0, "send", g.public+"/webhooks/lab", "--provider", "gitlab", "--scheme", "secret-token", "--secret", githubSecret, "--type", "Push Hook",
		"-H", "X-Forwarded-For: 192.0.2.1", "-H", "Via: 1.1 proxy", "-H", "X-Real-Ip: 192.0.2.1", "-H", "Connection: x-hop", "-H", "X-Hop: 1", "-H", "X-Kept: 1")
	var line struct {
		Source, Type, Answer string
		Status               int
		EventID              string `json:"event_id"`
		Stored               bool
	}
	unmarshal(t, l.next(t), &line)
	if line.Source != "lab" || line.Type != "Push Hook" || line.Status != 503 || line.Stored || !strings.HasPrefix(line.EventID, "evt_") || !strings.HasPrefix(line.Answer, "answer") {
		t.Errorf("the line is %+v", line)
	}
	l.note(t, "source lab: the gateway stores X-Gitlab-Token as <secret>, so copies lack it; --secret sets it")
	l.stop(t)
	_, headers := r.got()
	for _, name := range []string{"X-Forwarded-For", "Via", "X-Real-Ip", "X-Hop", "X-Gitlab-Token"} {
		if headers[0].Get(name) != "" {
			t.Errorf("the copy has %s: %q", name, headers[0].Get(name))
		}
	}
	if headers[0].Get("X-Kept") != "1" || headers[0].Get("X-Gitlab-Event") != "Push Hook" {
		t.Errorf("the copy lacks headers: %v", headers[0])
	}
}

// TestListenSigns: an old copy is said to be so, and with --secret it is signed again.
func TestListenSigns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	g := startSources(t, dir)
	runHere(t, 0, "send", g.public+"/webhooks/stripe", "--provider", "stripe", "--secret", "whsec_test_secret_1", "--id", "evt_1")
	g.poll(t, "it is stored", func() bool { return len(listEvents(t, g, nil)) == 1 })
	g.stop(t, syscall.SIGTERM)
	db, err := sql.Open("sqlite", filepath.Join(dir, "hookonce.db"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.ExecContext(t.Context(), "UPDATE hookonce_event SET received_at = received_at - 1800000000")
	if err != nil || db.Close() != nil {
		t.Fatal(err)
	}
	startSources(t, dir)
	r, url := newRecorder(t, 200)
	old := startFollowing(t, dir, nil, "listen", "--since", "1h", url)
	if line := old.next(t); !strings.HasSuffix(line, "  signature too old") || !strings.Contains(line, "Z stripe evt_1 invoice.paid → 200 (") {
		t.Errorf("the line is %q", line)
	}
	old.note(t, "Connected. 1 stored")
	old.note(t, "Note: source stripe: a receiver refuses signatures that are older than 5m0s; --secret signs copies again")
	old.stop(t)
	signed := startFollowing(t, dir, nil, "listen", "--since", "1h", "--source", "stripe", "--secret", "whsec_mine_mine_mine", url)
	if line := signed.next(t); strings.Contains(line, "signature") {
		t.Errorf("the line is %q", line)
	}
	signed.stop(t)
	bodies, headers := r.got()
	if bodies[0] != bodies[1] {
		t.Errorf("the signed copy is %q, want %q", bodies[1], bodies[0])
	}
	writeFile(t, filepath.Join(dir, "body"), bodies[1])
	for i, want := range []int{1, 0} {
		args := []string{"verify", "--provider", "stripe", "--secret", "whsec_mine_mine_mine", "--body", "body", "-H", "Stripe-Signature: " + headers[i].Get("Stripe-Signature")}
		if stdout, _, code := run(t, dir, args...); code != want {
			t.Errorf("copy %d: exit code %d, want %d: %s", i, code, want, stdout)
		}
	}
	redacted := startFollowing(t, dir, nil, "listen", "--since", "1h", "--redact", "--source", "stripe", url)
	redacted.next(t)
	redacted.stop(t)
	bodies, headers = r.got()
	if h := headers[2].Get("Stripe-Signature"); !strings.HasPrefix(h, "<") || !strings.Contains(bodies[2], `"idempotency_key":"`) || !json.Valid([]byte(bodies[2])) {
		t.Errorf("the redacted copy has the signature %q and the body %s", h, bodies[2])
	}
}

// TestListenBatch: an item of a batch is copied alone, and signed it is a batch of one. A redacted event
// is not copied.
func TestListenBatch(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	g, sources := sampleSources(t, dir)
	source := sources[provider.SendGrid]
	hook := g.public + "/webhooks/" + source.name
	runHere(t, 0, append([]string{"send", hook, "--id", "e1"}, source.args...)...)
	key := source.args[slices.Index(source.args, "--key")+1]
	r, url := newRecorder(t, 200)
	args := []string{"listen", "--from", g.admin, "--since", "1h", "--source", source.name, url}
	alone := startFollowing(t, dir, nil, args...)
	alone.next(t)
	alone.note(t, "a copy is one item of a batch, so the signature of the batch does not fit it; --secret sends batches of one, signed")
	alone.stop(t)
	signed := startFollowing(t, dir, nil, append(args, "--key", key)...)
	signed.next(t)
	signed.stop(t)
	bodies, headers := r.got()
	if bodies[1] != "["+bodies[0]+"]" || !strings.Contains(bodies[0], `"sg_event_id":"e1"`) {
		t.Errorf("the copies are %q", bodies)
	}
	again, err := http.NewRequestWithContext(t.Context(), http.MethodPost, hook, strings.NewReader(bodies[1]))
	if err != nil {
		t.Fatal(err)
	}
	again.Header = headers[1]
	resp, err := http.DefaultClient.Do(again)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if answer, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != 200 || !strings.Contains(string(answer), "duplicate") {
		t.Errorf("the gateway answers the signed copy %d %s %v", resp.StatusCode, answer, err)
	}
	g.await(t, "done", 1)
	success(t, dir, "events", "redact", source.name, "e1", "--yes", "--admin-url", g.admin)
	gone := startFollowing(t, dir, nil, args...)
	if line := gone.next(t); !strings.Contains(line, "e1 delivered → not sent: its body is gone: it is past its retention, or redacted") {
		t.Errorf("the line is %q", line)
	}
	gone.stop(t)
}

// TestListenGoesOn: a listener outlasts its gateway, and copies each event once, also those that came
// while it had no connection.
func TestListenGoesOn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	g := startSources(t, dir)
	r, url := newRecorder(t, 200)
	l := startFollowing(t, dir, nil, "listen", "--from", g.admin, url)
	l.note(t, "Connected.")
	const events = 40
	var want []string
	for i := range events {
		if i == 10 {
			for range i {
				l.next(t) // these were copied before the connection is lost
			}
		}
		if i == 10 || i == 25 {
			g.signal(t, []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM}[i/20])
			g.wait(t)
			g = startGateway(t, dir, "--admin-listen", strings.TrimPrefix(g.admin, "http://"))
		}
		id := fmt.Sprint("d", i)
		want = append(want, id)
		g.deliver(t, id)
	}
	for range events - 10 {
		l.next(t)
	}
	g.deliver(t, "last") // copies that come twice come before it
	want = append(want, "last")
	l.next(t)
	rest := l.stop(t)
	var got []string
	_, headers := r.got()
	for _, h := range headers {
		got = append(got, h.Get("X-Github-Delivery"))
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" || len(rest) > 0 {
		t.Errorf("copies (-want +got):\n%s%q", diff, rest)
	}
}

// startHanging starts an endpoint that does not answer. The channel gets a value for each request.
func startHanging(t *testing.T) (<-chan struct{}, string) {
	t.Helper()
	requests, ends := make(chan struct{}, 100), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		requests <- struct{}{}
		select {
		case <-r.Context().Done():
		case <-ends:
		}
	}))
	t.Cleanup(func() { close(ends); server.Close() })
	return requests, server.URL
}

// TestCommandsOfTheEventPage runs the commands that the page of an event offers to copy.
func TestCommandsOfTheEventPage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	g := startSources(t, dir)
	const id = "it's d1"
	g.deliver(t, id)
	page := g.api(t, "/events/gh/it's%20d1")
	r, url := newRecorder(t, 200)
	command := func(begin string) string {
		t.Helper()
		found := regexp.MustCompile(`<code>(` + begin + `[^<]*)</code>`).FindStringSubmatch(page)
		if found == nil {
			t.Fatalf("the page has no command %s:\n%s", begin, page)
		}
		text := html.UnescapeString(found[1])
		return strings.NewReplacer("http://127.0.0.1:3000/", "'"+url+"'", "3000/", "'"+url+"'").Replace(text)
	}
	send := exec.Command("sh", "-c", command("hookonce send"))
	send.Dir, send.Env = t.TempDir(), append(os.Environ(), raceEnv(), "SECRET="+githubSecret)
	if out, err := send.CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", send, err, out)
	}
	listen := follow(t, exec.Command("sh", "-c", "exec "+command("hookonce listen")), t.TempDir(), nil)
	if line := listen.next(t); !strings.Contains(line, "Z it's d1 issues → 200 (") {
		t.Errorf("the line is %q", line)
	}
	listen.stop(t)
	bodies, headers := r.got()
	if len(bodies) != 2 || bodies[0] != bodies[1] || headers[0].Get("X-Github-Delivery") != id || headers[1].Get("X-Github-Delivery") != id {
		t.Errorf("the commands sent %q %v", bodies, headers)
	}
}
