package pages

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/examplestest"
)

// Programs around the snippets of pages.
const (
	noticed = `package main

import (
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/hookonce/hookonce/hooksql"
)

func open(config *pgx.ConnConfig) (*hooksql.PostgresStore, error) {
%s
	return store, err
}

func main() {}
`
	renewed = `package main

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

func currentPassword(context.Context) (string, error) { return "", nil }

func configure(config *pgxpool.Config) {
%s
}

func main() {}
`
	inHandler = `package main

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce"
)

func handle(ctx context.Context, tx pgx.Tx, ev *hookonce.Event) error {
%s
	return nil
}

func main() {}
`
	inServer = `package main

import (
	"net/http"

	"github.com/hookonce/hookonce"
)

func mount(in *hookonce.Engine) func(http.ResponseWriter, *http.Request, string) {
%s
	return deliver
}

func main() {}
`
	inAdmin = `package main

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/hookadmin"
	"github.com/hookonce/hookonce/hookmetrics"
	"github.com/hookonce/hookonce/hookpgx"
)

func mount(db *hookpgx.Store, mux *hookpgx.Mux, config *hookonce.Config, login func(*http.Request) hookadmin.Access) (http.Handler, error) {
%s
	return admin, err
}

func main() {}
`
	inStop = `package main

import (
	"context"
	"errors"
	"net/http"

	"github.com/hookonce/hookonce"
)

func stop(ctx context.Context, in *hookonce.Engine, server *http.Server, stopRun func(), ran <-chan error) error {
%s
	return err
}

func main() {}
`
	withSource = `database: sqlite:hookonce.db
sources: {gh: {provider: github, secrets: ["${GH_SECRET}"]}}
%s`
)

var stories = map[string]story{
	"README.md": {
		// The module is not published yet: the program is built in its checkout.
		replace: []string{
			"go get github.com/hookonce/hookonce@main", "true",
			"http://127.0.0.1:3000/webhooks", "http://127.0.0.1:8080/webhooks/stripe", "whsec_test", secret,
		},
		steps: map[string]step{
			"go run ./cmd/hookonce demo": {until: "done twice"},
			"go run ./cmd/hookonce probe http://127.0.0.1:3000/webhooks --provider stripe --secret whsec_test": {before: func(t *testing.T, w *world) { w.serveLetters(t) }},
			"go install ./cmd/hookonce":                                                        {before: emptied},
			"✗ signed an hour ahead           200, effects 1":                                  {left: "TestReadmeReport holds it against docs/five-minute-test.md"},
			"Stripe, GitHub, …               hookonce                        your application": {left: "a drawing"},
			"hookonce send http://127.0.0.1:8080/webhooks/gh --provider github --secret a-secret-of-16-bytes-or-more --type issues --id d1 --duplicate 1": {
				want: `(?s)"ok".*"duplicate"`,
			},
			"package main": {before: func(t *testing.T, w *world) { w.stopLast(t) }}, // the gateway
			`hookonce send http://127.0.0.1:8080/webhooks/stripe --provider stripe --secret a-secret-of-16-bytes-or-more --sample invoice.paid --duplicate 2`: {
				want: `(?s)"ok".*"duplicate".*"duplicate"`,
			},
			"BEGIN;": {before: paidOnce},
		},
	},
	"docs/behind.md": {
		steps: map[string]step{
			`hookonce probe http://127.0.0.1:3000/hooks --provider standard-webhooks --secret "$APP_SECRET" \`: {left: "the tests of examples/behind run it against each application"},
		},
	},
	"docs/admin-api.md": {
		ready:   func(t *testing.T, w *world) { w.serveLetters(t) },
		replace: []string{"seconds=30", "seconds=1", "$TOKEN", "x"},
		steps: map[string]step{
			adminRoutes:      {left: "TestAdminRoutes holds it against the OpenAPI document"},
			"event: attempt": {held: streamed},
		},
	},
	"docs/architecture.md": {
		steps: map[string]step{"sender                                                                    destination": {left: "a drawing"}},
	},
	"docs/commands.md": {
		ready: letters,
		each:  true,
		replace: []string{
			"v1=c090…", "v1=c090763640b51acbd346708f9109c420f2d12e65de8cea9ac88db7ab33038ae7", // the page shows its beginning
			"read -rs HOOKONCE_ADMIN_TOKEN", "read -rs HOOKONCE_ADMIN_TOKEN <<< " + secret, // somebody types it
		},
		steps: map[string]step{
			"TIME          WHERE           TYPE                        EVENT ID                          OUTCOME         TOOK": {left: "TestTailOnThePage of the command holds it"},
			`hookonce verify --provider stripe --secret file:secret.txt --at 1700000000 \`: {want: `^valid`, before: func(t *testing.T, w *world) {
				t.Helper()
				w.write(t, "secret.txt", "whsec_test_secret")
				w.write(t, "body.json", `{"id":"evt_test_webhook","object":"event","type":"payment_intent.succeeded","created":1700000000,"data":{"object":{"id":"pi_1"}}}`)
			}},
			"hookonce v0.1.0 · sqlite:hookonce.db · 2 sources":                                                                {held: banner},
			`{"time":"2026-01-31T12:00:00Z","level":"INFO","msg":"ready","version":"v0.1.0","database":"sqlite:hookonce.db",`: {held: readyLine},
			"hookonce (devel) · sqlite:/tmp/… · linux/amd64, 2 cores":                                                         {left: "its figures differ from run to run; TestBenchExample holds the rest"},
		},
	},
	"docs/order.md": {ready: letters, each: true},
	"docs/deploying.md": {
		ready: letters,
		each:  true,
		steps: map[string]step{
			"sudo apt install ./hookonce_VERSION_amd64.deb   # or: sudo dnf install ./hookonce-VERSION-1.x86_64.rpm": {left: "internal/test/packaging runs it"},
			"allow_unsafe: [fsync]":                      {around: withSource},
			"trusted_proxies: [10.0.0.0/8, 2001:db8::5]": {around: withSource},
		},
	},
	"docs/developing.md": {
		ready: func(t *testing.T, w *world) { w.serveLetters(t) },
		each:  true,
		replace: []string{
			"http://127.0.0.1:3000/hooks", "http://127.0.0.1:8080/webhooks/stripe", " 3000/hooks", " http://127.0.0.1:8080/webhooks/stripe",
			"https://hookonce.internal:8081", "http://127.0.0.1:8081", "whsec_test", secret,
		},
		steps: map[string]step{
			"hookonce listen --from https://hookonce.internal:8081 --since 1h --source stripe 3000/hooks": {until: "evt_1 .*→ 200"},
		},
	},
	"docs/destinations.md": {
		steps: map[string]step{
			"destinations:":                       {around: strings.Replace(withSource, "gh: {provider: github", "stripe: {provider: stripe", 1)},
			"body.livemode and body.amount > 100": {held: conditions},
		},
	},
	"docs/getting-started.md": {
		steps: map[string]step{
			"./hookonce demo": {until: "hookonce demo · "},
			"hookonce v0.1.0 · sqlite:hookonce.db · 1 source": {held: logged},
			"./hookonce events list":                          {want: `d1 .*waiting`},
			"./hookonce events show github d1":                {want: `done`},
			"./hookonce events replay github d1":              {code: 2, want: `--as-new`},
			"./hookonce events replay github d1 --as-new":     {want: `.`},
			"destinations:": {
				before: func(t *testing.T, w *world) { w.stopLast(t) }, // the application
				around: strings.Replace(withSource, `gh: {provider: github, secrets: ["${GH_`, `github: {provider: github, secrets: ["${GITHUB_WEBHOOK_`, 1) + "\nroutes: [{name: all, to: app}]\n",
			},
			"./hookonce send http://127.0.0.1:8080/webhooks/github --type issues --id d2 \\": {
				before: func(t *testing.T, w *world) { w.awaitLog(t, "settings reloaded") },
			},
			"./hookonce dlq list":             {want: `d2`},
			"./hookonce dlq replay github d2": {before: func(_ *testing.T, w *world) { w.application() }},
		},
	},
	"docs/https.md": {
		ready: letters,
		each:  true,
		steps: map[string]step{
			"tls: {cert: /etc/hookonce/tls.crt, key: /etc/hookonce/tls.key}": {around: withSource, before: certificate},
		},
	},
	"docs/library.md": {
		steps: map[string]step{
			"deliver := func(w http.ResponseWriter, r *http.Request, source string) { // source: from your router": {around: inServer},
			"counts := hookmetrics.New()":                                                          {around: inAdmin},
			"in.Drain()                     // later deliveries are answered 503":                  {around: inStop},
			"config.OnNotice = func(conn *pgconn.PgConn, notice *pgconn.Notice) {":                 {around: noticed},
			"config.BeforeConnect = func(ctx context.Context, conn *pgx.ConnConfig) (err error) {": {around: renewed},
		},
	},
	"docs/orms.md": {
		steps: map[string]step{
			`func withGORM(ctx context.Context, tx *sql.Tx, ev *hookonce.Event) error {`: {left: "internal/test/orm runs it"},
			`func withBun(pool *sql.DB) hookonce.HandlerFunc[*sql.Tx] {`:                 {left: "internal/test/orm runs it"},
			`func withSQLX(ctx context.Context, tx *sql.Tx, ev *hookonce.Event) error {`: {left: "internal/test/orm runs it"},
			`func withSQLC(ctx context.Context, tx pgx.Tx, ev *hookonce.Event) error {`:  {left: "internal/test/orm runs it"},
			`// handlerTx is ent's driver over the transaction of a handler.`:            {left: "internal/test/orm runs it"},
			`func withEnt(ctx context.Context, tx *sql.Tx, ev *hookonce.Event) error {`:  {left: "internal/test/orm runs it"},
		},
	},
	"docs/replay.md": {
		ready: letters,
		each:  true,
	},
	"docs/runbook.md": {ready: letters, each: true},
	"docs/five-minute-test.md": {
		ready: probed,
		each:  true,
		replace: []string{
			"http://127.0.0.1:3000/webhooks", "http://127.0.0.1:8080/webhooks/stripe", "whsec_test", secret, "$SECRET", secret,
			`psql -Atc \"SELECT count(*) FROM payments WHERE event_id = '{id}'\" app`, "./count-effects.sh {id}",
		},
		steps: map[string]step{
			"✗ signed an hour ago             200, effects 1": {left: "internal/test/receivers holds the reports against the output"},
			"✗ signed an hour ahead           200, effects 1": {left: "internal/test/receivers holds the reports against the output"},
		},
	},
	"docs/assistants.txt": {
		ready: probed,
		each:  true,
		replace: []string{
			"http://127.0.0.1:3000/webhooks", "http://127.0.0.1:8080/webhooks/stripe", "whsec_test", secret,
			`psql -Atc \"SELECT count(*) FROM payments WHERE event_id = '{id}'\" app`, "./count-effects.sh {id}",
		},
	},
	"docs/settings.md": {
		replace: []string{"gh=github:SECRET", "gh=github:" + secret},
		steps:   map[string]step{"hookonce serve --source gh=github:SECRET --forward app=http://127.0.0.1:3000/hooks": {before: withoutSettings}},
	},
	"docs/sources.md": {
		replace: []string{"arm NAME", "arm asana"},
		steps: map[string]step{"hookonce sources arm NAME": {until: "takes one secret until", before: func(t *testing.T, w *world) {
			t.Helper()
			w.write(t, "hookonce.yaml", "sources: {asana: {provider: asana}}\n")
			w.start(t, "./hookonce serve", w.ports["127.0.0.1:8080"])
		}}},
	},
	"docs/moving.md": {
		ready: func(t *testing.T, w *world) {
			t.Helper()
			url, _, _ := examplestest.Postgres(t)
			w.env = append(w.env, "DATABASE_URL="+url, "NEW_DATABASE_URL="+url)
			w.run(t, "./hookonce migrate up --database sqlite:hookonce.db")
		},
		steps: map[string]step{
			"SELECT 'CREATE PUBLICATION hookonce_move FOR TABLE ' || string_agg(c.oid::regclass::text, ', ')": {left: twoServers},
			"CREATE SUBSCRIPTION hookonce_move CONNECTION 'host=old dbname=hooks user=mover password=…'":      {left: twoServers},
			"SELECT pg_current_wal_lsn();": {left: twoServers},
		},
	},
	"docs/taking-over.md": {
		steps: map[string]step{
			`tag, err := tx.Exec(ctx, "INSERT INTO processed_events (event_id) VALUES ($1) ON CONFLICT DO NOTHING", ev.ID)`: {around: inHandler},
		},
	},
	"docs/observability.md": {ready: letters},
	"examples/README.md": {
		ready: shop,
		steps: map[string]step{"deliver() {": {want: `(?s)"duplicate".*\S`}},
	},
}

const twoServers = "TestMoveByReplication of hookpgx runs it"

// withoutSettings removes the settings of an earlier block.
func withoutSettings(t *testing.T, w *world) {
	t.Helper()
	if err := os.Remove(filepath.Join(w.folder, "hookonce.yaml")); err != nil {
		t.Fatal(err)
	}
}

// certificate makes the files of a page about HTTPS.
func certificate(t *testing.T, w *world) {
	t.Helper()
	w.replace = append(slices.Clip(w.replace), "/etc/hookonce", w.folder)
	needTools(t)
	if out, code := w.run(t, "openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=localhost -keyout tls.key -out tls.crt"); code != 0 {
		t.Fatal(out)
	}
}

// needTools installs the programs of the system that pages use.
func needTools(t *testing.T) {
	t.Helper()
	dbtest.Need(t, "pages", func() error {
		_, err := exec.LookPath("curl")
		if err == nil {
			_, err = exec.LookPath("openssl")
		}
		return err
	}, "curl", "openssl")
}

// shop lets the shop of examples/ listen where deliveries of the page go.
func shop(t *testing.T, w *world) {
	t.Helper()
	w.env = append(w.env, "LISTEN="+w.ports["127.0.0.1:8080"])
	needTools(t)
}

// probed starts a gateway as the endpoint of the page, and writes the command that counts effects. A
// claim stands for an effect.
func probed(t *testing.T, w *world) {
	t.Helper()
	w.serveLetters(t)
	w.write(t, "count-effects.sh", "#!/bin/sh\nhookonce events list --source stripe --id \"$1\" --json | grep -c '\"event_id\"' || true\n")
	if err := os.Chmod(filepath.Join(w.folder, "count-effects.sh"), 0o700); err != nil {
		t.Fatal(err)
	}
}

// letters prepares a folder with settings and a database. Of the source stripe, evt_1 and evt_2 have
// dead letters for billing.
func letters(t *testing.T, w *world) {
	t.Helper()
	w.serveLetters(t)
	w.stopAll(t)
}

// serveLetters is as letters, and the gateway still runs.
func (w *world) serveLetters(t *testing.T) {
	t.Helper()
	w.write(t, "hookonce.yaml", fmt.Sprintf(`database: sqlite:hookonce.db
sources: {stripe: {provider: stripe, secrets: [%s]}}
destinations: {billing: {url: "http://127.0.0.1:3000/", retry: {attempts: 1}}}
routes: [{name: billing, sources: [stripe], to: billing}]
`, secret))
	w.start(t, "./hookonce serve", w.ports["127.0.0.1:8080"])
	for _, id := range []string{"evt_1", "evt_2"} {
		out, code := w.run(t, w.here(t, "hookonce send http://127.0.0.1:8080/webhooks/stripe --provider stripe --type invoice.paid --secret "+secret+" --id "+id))
		if code != 0 {
			t.Fatalf("exit code %d\n%s", code, out)
		}
	}
	eventually.Succeeds(t, "two letters are dead", func() error {
		if found := w.get(t, "/api/v1/dead-letters"); strings.Count(found, `"message_id"`) != 2 {
			return fmt.Errorf("want two dead letters: %s", found)
		}
		return nil
	})
	id := messageID.FindStringSubmatch(w.get(t, "/api/v1/dead-letters"))
	w.replace = append(slices.Clip(w.replace), "MESSAGE_ID", id[1])
}

var messageID = regexp.MustCompile(`"message_id":"([^"]+)"`)
