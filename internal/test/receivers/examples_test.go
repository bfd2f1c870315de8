package receivers

import (
	"database/sql"
	"os"
	"path/filepath"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/hookonce/hookonce/internal/test/examplestest"
	"github.com/hookonce/hookonce/internal/test/program"
	"github.com/hookonce/hookonce/internal/test/sqltest"
)

// TestExamples checks that the examples of this repository pass the probe.
func TestExamples(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(t *testing.T) *receiver{
		"shop": startShop, "shopsqlite": startShopOnSQLite, "ownrouter": startOwnRouter,
		"node": func(t *testing.T) *receiver {
			folder := filepath.Dir(node(t, "receiver.js")[1]) // it has pg
			copyFile(t, filepath.Join(root, "examples", "node", "consumer.js"), folder)
			return startConsumer(t, "node", filepath.Join(folder, "consumer.js"))
		},
		"python": func(t *testing.T) *receiver {
			program, err := filepath.Abs(filepath.Join(root, "examples", "python", "consumer.py"))
			if err != nil {
				t.Fatal(err)
			}
			return startConsumer(t, sqltest.Python(t), program)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkFailed(t, start(t).probe(t))
		})
	}
}

const (
	// Each write of an order counts as an effect.
	countOrders = `
		CREATE TABLE effects (event_id text NOT NULL);
		CREATE FUNCTION count_effect() RETURNS trigger LANGUAGE plpgsql AS $$
			BEGIN INSERT INTO effects VALUES (NEW.id); RETURN NEW; END
		$$;
		CREATE TRIGGER count_effect AFTER INSERT OR UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION count_effect()`
	countOrdersInSQLite = `
		CREATE TABLE effects (event_id TEXT NOT NULL) STRICT;
		CREATE TRIGGER count_insert AFTER INSERT ON orders BEGIN INSERT INTO effects VALUES (NEW.id); END;
		CREATE TRIGGER count_update AFTER UPDATE ON orders BEGIN INSERT INTO effects VALUES (NEW.id); END`
	effectsOf = "SELECT count(*) FROM effects WHERE event_id = $1"
)

func startShop(t *testing.T) *receiver {
	t.Helper()
	databaseURL, _, db := examplestest.Postgres(t)
	program := startProgram(t, []string{
		"DATABASE_URL=" + databaseURL, "STRIPE_WEBHOOK_SECRET=" + secret, "SHIPPING_URL=" + examplestest.NewAPI(t).URL,
	}, example(t, "shop"))
	examplestest.Exec(t, db, countOrders)
	return overSQL(t, &receiver{
		url: program.URL() + "/webhooks/stripe", flags: checkoutFlags(t), restart: func() { program.Crash(t) },
	}, db, effectsOf, troubleIn("orders", true), troubleIn("orders", false))
}

func startShopOnSQLite(t *testing.T) *receiver {
	t.Helper()
	file := filepath.Join(t.TempDir(), "shop.db")
	program := startProgram(t, []string{
		"DATABASE=" + file, "STRIPE_WEBHOOK_SECRET=" + secret, "SHIPPING_URL=" + examplestest.NewAPI(t).URL,
	}, example(t, "shopsqlite"))
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	examplestest.Exec(t, db, countOrdersInSQLite)
	return overSQL(t, &receiver{
		url: program.URL() + "/webhooks/stripe", flags: checkoutFlags(t), restart: func() { program.Crash(t) },
	}, db, effectsOf, "CREATE TRIGGER trouble BEFORE INSERT ON orders BEGIN SELECT RAISE(ABORT, 'trouble'); END", "DROP TRIGGER trouble")
}

func startOwnRouter(t *testing.T) *receiver {
	t.Helper()
	databaseURL, _, db := examplestest.Postgres(t)
	program := startProgram(t, []string{"DATABASE_URL=" + databaseURL, "GITHUB_WEBHOOK_SECRET=" + secret}, example(t, "ownrouter"))
	return overSQL(t, &receiver{
		url:     program.URL() + "/webhooks/github",
		flags:   flagsFor(t, "github", "push", `{"after":"{id}","repository":{"full_name":"hookonce/hookonce"}}`),
		restart: func() { program.Crash(t) },
	}, db, "SELECT count(*) FROM push_log WHERE head = $1", troubleIn("push_log", true), troubleIn("push_log", false))
}

const consumerSettings = `
database: ${DATABASE_URL}
sources:
  shop:
    provider: stripe
    secrets: ["${WEBHOOK_SECRET}"]
    consume: sql
`

// startConsumer starts a gateway, and behind it the consumer of an example.
func startConsumer(t *testing.T, command ...string) *receiver {
	t.Helper()
	databaseURL, _, db := examplestest.Postgres(t)
	schema, err := os.ReadFile(filepath.Join(root, "examples", "python", "schema.sql"))
	if err != nil {
		t.Fatal(err)
	}
	examplestest.Exec(t, db, string(schema))
	settings := filepath.Join(t.TempDir(), "hookonce.yaml")
	if err := os.WriteFile(settings, []byte(consumerSettings), 0o600); err != nil {
		t.Fatal(err)
	}
	binary := program.Hookonce(t)
	public, admin := freeAddress(t), freeAddress(t)
	env := []string{"DATABASE_URL=" + databaseURL, "WEBHOOK_SECRET=" + secret}
	gateway := newProcess(t, append(env, "HOOKONCE_CONFIG="+settings, "HOOKONCE_LISTEN="+public, "HOOKONCE_ADMIN_LISTEN="+admin), binary, "serve")
	consumer := newProcess(t, append(env, "SOURCE=shop", "FIRST_RETRY=1 second"), command...)
	begin := func() {
		gateway.start(t)
		gateway.WaitReady(t, admin) // the schema of the consumer is there
		consumer.start(t)
	}
	begin()
	return overSQL(t, &receiver{
		url:   "http://" + public + "/webhooks/shop",
		flags: flagsFor(t, "stripe", "order.paid", `{"id":"{id}","type":"order.paid","order":"{id}","customer":"anna","cents":500}`),
		restart: func() {
			consumer.Kill()
			gateway.Kill()
			begin()
		},
	}, db, "SELECT count(*) FROM ledger WHERE event_id = $1", troubleIn("ledger", true), troubleIn("ledger", false))
}

func checkoutFlags(t *testing.T) []string {
	t.Helper()
	return flagsFor(t, "stripe", "checkout.session.completed", `{"id":"{id}","object":"event","type":"checkout.session.completed",`+
		`"created":1760000000,"data":{"object":{"client_reference_id":"{id}","customer_details":{"email":"ada@example.com"}}}}`)
}

// flagsFor returns the flags of the probe for events with a body of their own.
func flagsFor(t *testing.T, provider, eventType, body string) []string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "body.json")
	if err := os.WriteFile(file, []byte(body), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"--provider", provider, "--secret", secret, "--type", eventType, "--body", file}
}

// example builds an example and returns the path of its binary.
func example(t *testing.T, name string) string {
	t.Helper()
	return program.Path(t, "./examples/"+name)
}

func copyFile(t *testing.T, file, folder string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, filepath.Base(file)), text, 0o600); err != nil {
		t.Fatal(err)
	}
}
