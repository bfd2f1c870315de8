package e2e

import (
	"bytes"
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Canaries of this test alone, beside those of sign_test.go.
const (
	headerCredential = "canary-header-credential-52f0e91c"
	readToken        = "canary-read-token-a90b7c6d5e4f"
	learnedSecret    = "canary-learned-secret-7e5d4c3b2a19"
	publicURLSecret  = "canary-public-url-secret-31c4d5e6"
	paramSecret      = "canary-param-secret-a1b2c3d4e5f6"
	queryCredential  = "canary-query-credential-9f8e7d6c"
	redactedText     = "canary-redacted-text-5a6b7c8d9e0f"
	urlUser          = "canary-user-of-a-url-0f1e2d3c"
)

// canarySettings have a secret of each kind.
const canarySettings = `
database: ${DATABASE_URL}
admin: {token: "${ADMIN_TOKEN}", read_token: "${READ_TOKEN}"}
unverified_rate: 100000/s
sources:
  github: {provider: github, secrets: ["${GITHUB_WEBHOOK_SECRET}"]}
  gitlab: {provider: gitlab, scheme: secret-token, secrets: ["${HEADER_SECRET}"]}
  lab:` + labKeys + `
    malformed: quarantine
  asana: {provider: asana}
  shop: {provider: square, secrets: ["${HEADER_SECRET}"], url: "https://hooks.example.com/webhooks/shop?key=${PUBLIC_URL_SECRET}"}
  bank: {provider: plaid, params: {client_id: "17", secret: "${PARAM_SECRET}", environment: sandbox}, event: {id: "body:webhook_message_id"}}
destinations:
  app:
    url: ${SINK}/hooks/` + urlCredential + `?key=` + credentialInQuery + `
    secret: ${DESTINATION_SECRET}
    retry: {attempts: 2, first: 20ms, max: 50ms, on_dead: alerts}
  alerts: {url: "${SINK}/alerts"}
routes:
  - {name: all, to: app}
`

// userSettings are refused.
const userSettings = `
destinations:
  app: {url: "http://user:${URL_USER}@127.0.0.1:1/"}
`

// formsOf returns a secret in the forms that a dump or an encoding may show.
func formsOf(secret string) []string {
	forms := []string{secret, hex.EncodeToString([]byte(secret)), url.QueryEscape(secret)}
	for shift := range 3 { // within a longer base64 text
		padded := append(make([]byte, shift), secret...)
		for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			text := encoding.EncodeToString(padded)
			forms = append(forms, text[(shift*8+5)/6:len(text)-2])
		}
	}
	return forms
}

// A secret appears in no page, answer, metric, log line, span, export, output or column. The one
// exception is the table of learned secrets.
func TestNoCanaryAnywhere(t *testing.T) {
	anyStore(t, func(t *testing.T, db *database) {
		traces := newTraceCollector(t)
		w := newWorld(t, db, canarySettings)
		w.env = append(w.env, traces.environment()...)
		w.env = append(w.env, "HEADER_SECRET="+headerCredential, "READ_TOKEN="+readToken, "PUBLIC_URL_SECRET="+publicURLSecret,
			"PARAM_SECRET="+paramSecret, "URL_USER="+urlUser)
		g := w.launch(t, "--config", "hookonce.yaml", "--log-level", "debug")
		g.waitReady(t)
		c := &canaryHunt{T: t, g: g, places: map[string]string{}}
		w.armAsana(t, g, c)
		c.traffic(w)
		c.redacted(w)
		g.Eventually(t, "the spans are exported", func() bool { return len(traces.named("attempt", "hookonce.outcome", "dead")) > 0 })

		c.crawl("/")
		c.endpoints()
		if err := os.WriteFile(filepath.Join(w.dir, "user.yaml"), []byte(userSettings), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{
			{"events", "list", "--json"},
			{"events", "show", "github", "dead-1", "--json"},
			{"dlq", "list", "--json"},
			{"quarantine", "list", "--json"},
			{"sources", "list", "--json"},
			{"doctor", "--json"},
			{"config", "check"},
			{"config", "check", "user.yaml"},
			{"events", "show", "github", "redacted-1"},
			{"sources", "list"},
			{"quarantine", "list"},
			{"providers", "square"},
			{"events", "list"},
			{"dlq", "list"},
		} {
			cmd := w.command(t, args...)
			out, err := cmd.CombinedOutput()
			if _, exits := err.(*exec.ExitError); err != nil && !exits { //nolint:errorlint // as it is returned
				t.Fatal(err)
			}
			c.places["hookonce "+strings.Join(args, " ")] = string(out)
		}
		c.dump(db)
		g.stop(t)
		c.places["log"] = g.Log()
		traces.mu.Lock()
		c.places["spans"] = traces.raw.String()
		traces.mu.Unlock()
		c.search()
	})
}

// canaryHunt collects texts by the place where they appear.
type canaryHunt struct {
	*testing.T
	g      *gateway
	places map[string]string
}

// armAsana makes the gateway learn a secret.
func (w *world) armAsana(t *testing.T, g *gateway, c *canaryHunt) {
	t.Helper()
	// The command prints the secret once it is learned, for its caller alone.
	cmd := w.command(t, "sources", "arm", "asana")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	g.Eventually(t, "the source learned the secret", func() bool {
		a, err := g.send(http.MethodPost, "/webhooks/asana", newDelivery("asana", "{}", "X-Hook-Secret", learnedSecret))
		return err == nil && a.status == http.StatusOK
	})
	if err := cmd.Wait(); err != nil {
		t.Fatalf("sources arm: %v: %s", err, stderr.String())
	}
	c.places["stderr of sources arm"] = stderr.String()
}

// traffic makes deliveries with every outcome.
func (c *canaryHunt) traffic(w *world) {
	t, g := c.T, c.g
	g.expect(t, push("good-1"), "200 ok")
	g.expect(t, push("good-1"), "200 duplicate")
	gitlab := newDelivery("gitlab", `{"object_kind":"push"}`, "X-Gitlab-Token", headerCredential, "X-Gitlab-Event", "Push Hook",
		"Webhook-Id", "gl-1", "Authorization", "Bearer "+credentialInQuery)
	g.expect(t, gitlab, "200 ok")
	g.expect(t, gitlab.with("X-Gitlab-Token", "wrong"), "401")
	g.expect(t, push("forged-1").with("X-Hub-Signature-256", "sha256="+strings.Repeat("0", 64)), "401")
	g.expect(t, newDelivery("nowhere", "{}"), "404")
	g.expect(t, push("good-2").with("X-GitHub-Delivery", ""), "400")
	if _, err := g.send(http.MethodPut, "/webhooks/github", push("x")); err != nil {
		t.Error(err)
	}
	for _, d := range []*delivery{
		push("query-1"), push("query-2").with("X-Hub-Signature-256", "sha256="+strings.Repeat("0", 64)), push("query-3").with("X-GitHub-Delivery", ""),
	} {
		if _, err := g.send(http.MethodPost, "/webhooks/github?token="+queryCredential, d); err != nil {
			t.Error(err)
		}
	}
	w.sink.answerWith(func(r *received) int {
		if strings.HasPrefix(r.path, "/hooks/") {
			return http.StatusGone
		}
		return http.StatusOK
	})
	g.expect(t, push("dead-1"), "200 ok")
	g.Eventually(t, "an event is dead", func() bool {
		return strings.Contains(c.get("/api/v1/events/github/dead-1", adminToken), `"state":"dead"`)
	})
}

// redacted delivers an event with a secret in its body, in that of a duplicate and in a header, and
// removes it by "hookonce events redact".
func (c *canaryHunt) redacted(w *world) {
	t, g := c.T, c.g
	const id = "redacted-1"
	for _, status := range []string{"200 ok", "200 duplicate"} {
		body := `{"ref":"refs/heads/main","of":"` + status + `","token":"` + redactedText + `"}`
		g.expect(t, githubDelivery(id, "push", body).with("X-Token", redactedText), status)
	}
	path := "/api/v1/events/github/" + id
	g.Eventually(t, "both bodies are stored, and the message is dead", func() bool {
		shown := c.get(path, adminToken)
		return strings.Contains(shown, `"state":"dead"`) && strings.Count(shown, redactedText) >= 3
	})
	cmd := w.command(t, "events", "redact", "github", id, "--yes")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("events redact: %v: %s", err, out)
	}
	c.places["output of events redact"] = string(out)
	if shown := c.get(path, adminToken); !strings.HasPrefix(shown, "200") || strings.Contains(shown, redactedText) {
		t.Errorf("after the redaction the event is %s", shown)
	}
}

// get returns the answer to a GET with a token; "" for none.
func (c *canaryHunt) get(path, token string) string {
	c.Helper()
	req, err := http.NewRequestWithContext(c.Context(), http.MethodGet, "http://"+c.g.admin+path, http.NoBody)
	if err != nil {
		c.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := c.g.client.Do(req)
	if err != nil {
		c.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		c.Fatal(err)
	}
	return fmt.Sprint(resp.StatusCode, resp.Header, "\n", string(body))
}

var link = regexp.MustCompile(`(?:href|src|action)="([^"]*)"`)

// maxPages bounds the crawl: every page links to filtered forms of itself.
const maxPages = 150

// crawl reads all pages that can be reached from a page, with the token and, for its refusal, without.
func (c *canaryHunt) crawl(start string) {
	waiting, seen := []string{start}, map[string]bool{start: true}
	kinds := map[string]int{} // pages by path without the query
	for len(waiting) > 0 && len(seen) < maxPages {
		at := waiting[0]
		waiting = waiting[1:]
		text := c.get(at, adminToken)
		c.places[at] = text
		base, err := url.Parse("http://" + c.g.admin + at)
		if err != nil {
			c.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			to, err := base.Parse(strings.ReplaceAll(m[1], "&amp;", "&"))
			if err != nil || to.Host != base.Host {
				continue
			}
			kinds[to.Path]++
			if path := to.RequestURI(); !seen[path] && kinds[to.Path] <= 3 && to.Path != "/logout" {
				seen[path] = true
				waiting = append(waiting, path)
			}
		}
	}
	if !strings.HasPrefix(c.places[start], "200") || len(seen) < 5 {
		c.Errorf("the crawl found only %d pages; the first is %.200s", len(seen), c.places[start])
	}
}

// endpoints reads every GET endpoint of the API, as its own document lists them.
func (c *canaryHunt) endpoints() {
	text := c.get("/api/v1/openapi.json", adminToken)
	var doc struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal([]byte(text[strings.Index(text, "\n")+1:]), &doc); err != nil {
		c.Fatal(err)
	}
	fill := strings.NewReplacer("{source}", "github", "{event_id}", "dead-1", "{name}", "app", "{profile}", "goroutine?debug=1", "{id}", "unknown")
	for path, methods := range doc.Paths {
		if methods["get"] == nil || strings.HasSuffix(path, "/stream") {
			continue
		}
		path = fill.Replace(path)
		if path == "/api/v1/search" {
			path += "?q=dead-1"
		}
		if path == "/api/v1/series" {
			path += "?of=deliveries"
		}
		c.places[path] = c.get(path, adminToken)
		c.places["read-only "+path] = c.get(path, readToken)
		c.places["without a token "+path] = c.get(path, "")
	}
}

// dump reads every column of every table, as text and as bytes.
func (c *canaryHunt) dump(db *database) {
	open := db.open(c)
	tables := `SELECT name FROM sqlite_master WHERE type = 'table'`
	if db.store == "postgres" {
		tables = `SELECT format('%I.%I', schemaname, tablename) FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')`
	}
	names := column(c, open, tables)
	if len(names) < 10 {
		c.Errorf("the database has only the tables %q", names)
	}
	for _, table := range names {
		c.places["table "+table] = c.rows(open, table)
	}
}

func (c *canaryHunt) rows(db *sql.DB, table string) string {
	rows, err := db.QueryContext(c.Context(), "SELECT * FROM "+table)
	if err != nil {
		c.Fatal(err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		c.Fatal(err)
	}
	var out strings.Builder
	for rows.Next() {
		values, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			c.Fatal(err)
		}
		for i, value := range values {
			if raw, isBytes := value.([]byte); isBytes {
				value = string(raw)
			}
			fmt.Fprintf(&out, "%s: %v\n", columns[i], value)
		}
	}
	if err := rows.Err(); err != nil {
		c.Fatal(err)
	}
	return out.String()
}

func column(t testing.TB, db *sql.DB, query string) (all []string) {
	t.Helper()
	rows, err := db.Query(query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		all = append(all, name)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// search fails the test for each canary in each place.
func (c *canaryHunt) search() {
	secrets := append(slices.Clone(canaries), headerCredential, readToken, learnedSecret, otlpCanary, publicURLSecret, paramSecret, queryCredential,
		redactedText, urlUser)
	learned := false
	c.lookFor(secrets, func(place, secret string) bool {
		known := secret == learnedSecret && strings.HasSuffix(place, "learned_secret")
		learned = learned || known
		return known
	})
	if !learned {
		c.Error("the search did not find the learned secret where it is kept: it would find no other one either")
	}
}

// lookFor fails the test for each secret in each place, except where it is allowed.
func (c *canaryHunt) lookFor(secrets []string, allowed func(place, secret string) bool) {
	for place, text := range c.places {
		for _, secret := range secrets {
			for _, form := range formsOf(secret) {
				at := strings.Index(text, form)
				if at < 0 {
					continue
				}
				if allowed(place, secret) {
					continue
				}
				c.Errorf("%s holds the secret %s as %s: …%s…", place, secret, form, text[max(0, at-200):min(len(text), at+200)])
			}
		}
	}
	c.Logf("%d places searched", len(c.places))
}
