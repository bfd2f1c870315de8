package deps

// module is the path of this module.
const module = "github.com/hookonce/hookonce"

// rule lists the imports that one package may have besides the standard library, and says why it may
// have no others. Tests may import testModules instead.
type rule struct {
	within  []string // packages of this module, by folder
	modules []string // other modules, by path prefix
	why     string
}

// rules holds every package of the module, by folder; "." is the root.
var rules = map[string]rule{
	".": {
		within: []string{
			"driver", "verify", "provider", "internal/claims", "internal/deadnews",
			"internal/guard", "internal/headers", "internal/keyfetch", "internal/limit", "internal/locate", "internal/pasted", "internal/problem",
			"internal/reconcile", "internal/relay", "internal/say", "internal/send", "internal/stale", "internal/wire", "internal/work", "internal/defaults", "internal/operate", "internal/tell", "observe",
		},
		why: "the thin face: public types, the conversation with a sender, and the engines below it",
	},
	"observe": {why: "engines call it for metrics and traces; it describes, and knows no engine"},
	"verify":  {within: []string{"internal/locate"}, why: "pure functions of a request and keys"},
	"provider": {
		within: []string{"verify", "internal/headers", "internal/locate", "internal/say"},
		why:    "data, and the reading of verified requests",
	},
	"driver": {why: "a contract must not lean on what fulfils it"},
	"internal/test/storetest": {
		within:  []string{"driver", "internal/test/eventually", "internal/test/group"},
		modules: []string{"github.com/google/go-cmp", "pgregory.net/rapid"},
		why:     "it sees a store through the contract alone, or it would not test the contract",
	},
	"hookpgx": {
		within:  []string{".", "driver", "hookmigrate", "internal/pgsession", "internal/pgstore"},
		modules: []string{"github.com/jackc/pgx/v5"},
		why:     "the one package of the library that links pgx",
	},
	"hooksql": {
		within: []string{".", "driver", "hookmigrate", "internal/pgsession", "internal/pgstore", "internal/sqlitestore"},
		why:    "the user brings the database/sql driver",
	},
	"sendnats": {
		within:  []string{".", "internal/broker"},
		modules: []string{"github.com/nats-io/nats.go"},
		why:     "the one package that links the NATS client",
	},
	"sendamqp": {
		within:  []string{".", "internal/broker"},
		modules: []string{"github.com/rabbitmq/amqp091-go"},
		why:     "the one package that links the client of RabbitMQ",
	},
	"sendkafka": {
		within:  []string{".", "internal/broker", "internal/locate"},
		modules: []string{"github.com/twmb/franz-go"},
		why:     "the one package that links the client of Kafka",
	},
	"internal/broker": {within: []string{"internal/dial", "internal/send", "internal/settingfile"}, why: "the common part of the Senders for brokers, without any of their clients"},
	"hookmigrate":     {within: []string{"driver", "internal/platform"}, why: "SQL and a small runner; used from programs of any kind"},
	"hookadmin":       {within: []string{".", "driver", "provider", "internal/feed", "internal/headers", "internal/limit", "internal/problem", "internal/runbook", "internal/say", "internal/shown", "internal/defaults", "internal/operate", "internal/tell"}, why: "it serves any store, so it must know none"},
	"internal/locate": {
		why: "the strict parser behind signatures and event ids: it needs only the standard library",
	},
	"internal/lifecycle": {within: []string{"driver"}, why: "pure functions, so that every store decides alike"},
	"internal/pgsession": {within: []string{"driver", "internal/pgstore"}, why: "it serves both PostgreSQL clients, so it must import neither"},
	"internal/platform":  {why: "one SQL text; the schema and the store share it"},
	"internal/walk":      {within: []string{"driver"}, why: "the bounds of a page, so that every store stops alike"},
	"internal/pruning":   {within: []string{"driver"}, why: "the events that a pass of pruning looks at, so that both stores remove alike"},
	"internal/pgstore":   {within: []string{"driver", "hookmigrate", "internal/lifecycle", "internal/platform", "internal/pruning", "internal/walk"}, why: "SQL text and row scanning, for every driver"},
	"internal/sqlitestore": {
		within:  []string{"driver", "hookmigrate", "internal/lifecycle", "internal/pruning", "internal/walk"},
		modules: []string{"golang.org/x/sys"},
		why:     "SQL text and row scanning, for every driver",
	},
	"internal/defaults": {within: []string{"internal/limit"}, why: "numbers; the settings file and the library share them"},
	"internal/operate": {
		within: []string{"driver", "provider", "internal/deadnews", "internal/defaults", "internal/jobs", "internal/lifecycle", "internal/limit", "internal/relay", "internal/tell"},
		why:    "the side of operators; the root package builds on it, and hookadmin asks it",
	},
	"internal/tell": {
		within: []string{
			"driver", "internal/claims", "internal/feed", "internal/figures", "internal/guard", "internal/limit", "internal/relay", "internal/runbook", "internal/send",
			"internal/wire", "internal/work", "observe",
		},
		why: "it turns what the engines report into figures, spans, lines and calls; the root package builds on it",
	},
	"internal/runbook": {why: "the names of the entries, for all that lead to one"},
	"internal/problem": {why: "the form of refusals, once for deliveries and the admin API"},
	"internal/pasted":  {within: []string{"provider"}, why: "it looks at a text"},
	"internal/limit":   {modules: []string{"golang.org/x/time/rate"}, why: "token buckets, once for all that bound a rate"},
	"internal/guard":   {why: "user code called safely, for every engine that calls some"},
	"internal/wire":    {within: []string{"internal/headers"}, why: "stored forms of headers, bodies and errors, which every engine reads"},
	"internal/refusals": {
		why: "a memory of rows: it knows nothing of their tables",
	},
	"internal/stale": {
		within: []string{"driver", "provider", "internal/limit", "internal/locate"},
		why:    "which version wins; handlers and messages ask it alike",
	},
	"internal/claims": {
		within: []string{"driver", "internal/guard"},
		why:    "an engine: it knows a part of the store, and neither the root nor another engine",
	},
	"internal/jobs":     {within: []string{"driver", "internal/lifecycle", "internal/limit"}, why: "an engine: it knows a part of the store, and neither the root nor another engine"},
	"internal/figures":  {within: []string{"driver"}, why: "an engine: it knows a part of the store, and neither the root nor another engine"},
	"internal/feed":     {within: []string{"driver"}, why: "an engine: it knows a part of the store, and neither the root nor another engine"},
	"internal/deadnews": {within: []string{"driver"}, why: "an engine: it knows a part of the store, and neither the root nor another engine"},
	"internal/relay": {
		within: []string{"driver", "internal/guard", "internal/limit", "internal/refusals", "internal/send", "internal/stale", "internal/wire"},
		why:    "an engine: it knows a part of the store, and neither the root nor another engine",
	},
	"internal/work": {
		within: []string{"driver", "internal/guard", "internal/refusals", "internal/stale", "internal/wire"},
		why:    "an engine: it knows the store's contract, and neither the root nor another engine",
	},
	"internal/dial":        {modules: []string{"code.dny.dev/ssrf"}, why: "the addresses that may be dialled, for every client in the project"},
	"internal/send":        {within: []string{"verify", "internal/dial", "internal/headers", "internal/shown"}, why: "one HTTP attempt; the root package builds on it"},
	"internal/keyfetch":    {within: []string{"verify", "internal/dial", "internal/limit"}, why: "one GET or POST of a key; the root package builds on it"},
	"internal/headers":     {why: "headers, which sending and reading judge alike"},
	"internal/settingfile": {why: "it reads files, for all that have settings"},
	"internal/say":         {why: "one spelling for every output for people"},
	"internal/shown":       {why: "one answer for every output for people"},
	"internal/reconcile": {
		within: []string{"driver", "internal/dial", "internal/headers", "provider"},
		why:    "it reads what a provider's API lists, from time to time, and knows no event",
	},
	"internal/sample": {
		within: []string{"provider", "verify", "internal/locate"},
		why:    "users' tests link it; it makes requests of providers and knows no receiver",
	},
	"cmd/hookonce/internal/route": {
		within:  []string{"."},
		modules: []string{"github.com/expr-lang/expr"},
		why:     "the expression language stays out of the library",
	},
	"cmd/hookonce/internal/config": {
		within: []string{
			".", "provider", "verify", "internal/locate", "cmd/hookonce/internal/route", "internal/limit", "internal/send", "internal/settingfile",
			"internal/say", "internal/shown", "hookmigrate", "sendnats", "sendamqp", "sendkafka", "internal/defaults", "driver",
		},
		modules: []string{"github.com/goccy/go-yaml"},
		why:     "settings become the library's own Config and the name of a schema, and nothing else",
	},
	"cmd/hookonce/internal/certs": {
		within:  []string{"internal/settingfile", "internal/shown"},
		modules: []string{"golang.org/x/crypto/acme"},
		why:     "it keeps certificates, and knows neither settings nor the engine",
	},
	"internal/metrics": {
		within:  []string{".", "driver", "internal/tell", "observe"},
		modules: []string{"github.com/prometheus/client_golang"},
		why:     "Prometheus stays out of the root package",
	},
	"hookmetrics": {
		within:  []string{".", "driver", "internal/metrics", "observe"},
		modules: []string{"github.com/prometheus/client_golang"},
		why:     "the one public package that links Prometheus",
	},
	"cmd/hookonce/internal/traces": {
		within:  []string{"internal/settingfile", "observe"},
		modules: []string{"go.opentelemetry.io/otel", "github.com/go-logr/logr"},
		why:     "OpenTelemetry stays out of the library",
	},
	"cmd/hookonce/internal/app": {
		within: []string{
			".", "driver", "provider", "verify", "hookadmin", "hookmigrate", "hookpgx", "hooksql",
			"cmd/hookonce/internal/certs", "cmd/hookonce/internal/config", "internal/metrics",
			"cmd/hookonce/internal/build", "cmd/hookonce/internal/route", "cmd/hookonce/internal/traces",
			"internal/limit", "internal/runbook", "internal/say", "internal/settingfile", "observe",
		},
		modules: []string{"github.com/jackc/pgx/v5", "modernc.org/sqlite", "golang.org/x/sys"},
		why:     "the wiring: the one place that opens databases, and so links both of their drivers",
	},
	"cmd/hookonce/internal/bench": {
		within:  []string{".", "driver", "hookmigrate", "hookpgx", "hooksql", "provider", "verify", "internal/sample", "internal/say", "observe"},
		modules: []string{"github.com/jackc/pgx/v5", "modernc.org/sqlite"},
		why:     "it measures the library on databases that it makes and removes itself",
	},
	"cmd/hookonce/internal/adminclient": {
		within: []string{".", "driver", "hookadmin", "internal/limit", "internal/defaults", "internal/operate"},
		why:    "a client of the admin API: it knows its shapes and errors, and no store",
	},
	"cmd/hookonce/internal/probe": {
		within: []string{"provider", "verify", "cmd/hookonce/internal/build", "internal/locate", "internal/sample", "internal/say"},
		why:    "it knows receivers by their outside alone",
	},
	"cmd/hookonce/internal/demo": {
		within:  []string{"provider", "verify", "cmd/hookonce/internal/adminclient", "internal/locate", "internal/sample", "internal/say"},
		modules: []string{"github.com/jackc/pgx/v5/stdlib", "modernc.org/sqlite"},
		why:     "it sees the gateway by its outside: the admin API and the views of the database",
	},
	"cmd/hookonce/internal/cli": {
		within: []string{
			".", "driver", "provider", "verify", "hookadmin", "hookmigrate", "internal/headers", "cmd/hookonce/internal/adminclient", "cmd/hookonce/internal/app",
			"cmd/hookonce/internal/bench",
			"cmd/hookonce/internal/build",
			"cmd/hookonce/internal/config",
			"cmd/hookonce/internal/demo",
			"cmd/hookonce/internal/probe",
			"cmd/hookonce/internal/samples",
			"deploy", "internal/locate", "internal/runbook", "internal/sample", "internal/say", "internal/send", "internal/settingfile", "internal/shown", "internal/defaults", "internal/limit", "internal/operate", "internal/tell", "observe",
		},
		modules: []string{
			"charm.land/huh/v2", "charm.land/bubbles/v2", "github.com/spf13/cobra", "github.com/spf13/pflag", "github.com/jedib0t/go-pretty/v6", "github.com/schollz/progressbar/v3",
			"golang.org/x/sys", "golang.org/x/term",
		},
		why: "commands: they read flags and print; the work is done elsewhere",
	},
	"cmd/hookonce/internal/build":   {why: "facts about this program"},
	"cmd/hookonce/internal/samples": {within: []string{"provider"}, why: "bodies; it knows no command"},
	"deploy":                        {why: "files for running the gateway; of Go it has their names"},
	"cmd/hookonce":                  {within: []string{"cmd/hookonce/internal/cli"}, why: "a few lines"},
	"internal/test/dbtest": {
		within:  []string{"hookmigrate", "internal/test/eventually", "internal/test/group"},
		modules: []string{"github.com/jackc/pgx/v5", "golang.org/x/sys"},
		why:     "a database for every kind of test",
	},
	"hooktest": {
		within: []string{".", "driver", "provider", "verify", "internal/guard", "internal/locate", "internal/sample"},
		why:    "users' tests link it: nothing but the library itself",
	},
	"examples/shop": {
		within:  []string{".", "hookmigrate", "hookpgx", "provider"},
		modules: []string{"github.com/jackc/pgx/v5"},
		why:     "the imports of a user's program, so that it can be copied",
	},
	"examples/shopsqlite": {
		within:  []string{".", "hookmigrate", "hooksql", "provider"},
		modules: []string{"modernc.org/sqlite"},
		why:     "the imports of a user's program, so that it can be copied",
	},
	"examples/ownrouter": {
		within:  []string{".", "hookmigrate", "hookpgx", "provider"},
		modules: []string{"github.com/jackc/pgx/v5"},
		why:     "the imports of a user's program, so that it can be copied",
	},
	"internal/test/eventually":  {why: "waiting, for every test"},
	"internal/test/group":       {why: "switches, for every test"},
	"internal/test/program":     {within: []string{"internal/test/dbtest", "internal/test/eventually", "internal/test/race"}, why: "it builds and starts programs; of a gateway it knows the addresses"},
	"internal/test/race":        {why: "constants and settings of the toolchain"},
	"internal/test/control":     {within: []string{"internal/test/program"}, why: "a server and its client; nothing of one package"},
	"internal/test/control/ask": {why: "one request; it starts dozens of times in a test"},
	"internal/test/vectors":     {why: "files of saved requests; nothing of one package"},
	"internal/test/brokertest":  {within: []string{"internal/test/dbtest", "internal/test/eventually"}, why: "it starts brokers as processes, so it needs no client of theirs"},
	"internal/test/rig": {
		within:  []string{"driver", "hookmigrate", "hooksql"},
		modules: []string{"modernc.org/sqlite"},
		why:     "a real store of SQLite and its faults; nothing of one package",
	},
	"internal/test/receivers": {why: "programs in other languages; of Go it has their tests"},
	"internal/test/examplestest": {
		within:  []string{"driver", "internal/test/dbtest", "internal/test/eventually", "internal/test/program", "internal/test/race"},
		modules: []string{"github.com/google/go-cmp", "github.com/jackc/pgx/v5"},
		why:     "it knows the examples by their outside, and their databases",
	},
	"internal/test/sqltest": {
		within:  []string{"driver", "hookmigrate", "hookpgx", "internal/test/dbtest", "internal/test/eventually", "internal/test/examplestest", "internal/test/program"},
		modules: []string{"github.com/google/go-cmp", "github.com/jackc/pgx/v5"},
		why:     "it claims what consumers take, and knows them by their outside",
	},
	"internal/test/failover":  {why: "it has no code; its tests know the program and the cluster by their outside alone"},
	"examples/python":         {why: "a program in another language; of Go it has its test"},
	"examples/behind":         {why: "programs in other languages, and one of a module of its own; of this module it has their test"},
	"examples/node":           {why: "a program in another language; of Go it has its test"},
	"internal/test/packaging": {why: "it runs packages as a user does, and knows none of Go"},
	"internal/test/apart":     {why: "it has no code; its tests run scripts"},
	"internal/test/pages":     {why: "it has no code; its tests follow the pages as readers do"},
	"internal/test/e2e":       {why: "it knows the program by its outside alone"},
	"internal/test/inbox":     {why: "it has no code; its tests use the root package as users do"},
	"internal/test/proof":     {why: "it has no code; its tests are programs such as users write"},
	"internal/test/report":    {why: "texts and files; it measures nothing"},
	"internal/test/scale": {
		modules: []string{"github.com/goccy/go-yaml"}, // to read the files of deploy/
		why:     "it knows the program by its outside alone",
	},
	"bench":              {why: "it has no code; its tests measure programs such as users write and run"},
	"internal/test/deps": {why: "it reads sources, it does not use them"},
}

// lean are the packages that users link into their programs. With all that they import,
// they build from the standard library, golang.org/x and leanModules.
var lean = []string{
	".", "verify", "provider", "driver", "hooksql", "hookmigrate", "hookadmin", "hooktest",
	"internal/dial", "internal/headers", "internal/keyfetch", "internal/lifecycle", "internal/locate", "internal/pgsession", "internal/pgstore", "internal/platform", "internal/sample", "internal/sqlitestore", "internal/send",
	"internal/say",
}

// leanModules are the other modules that lean packages may link, and why. Such a module
// requires no other, except for its own tests.
var leanModules = map[string]string{
	"code.dny.dev/ssrf": "IANA's registries of special-purpose addresses, which change",
}

// testSupport lists the packages that only tests may import: they would link the testing package into
// users' programs.
var testSupport = []string{
	"internal/test/storetest", "hooktest", "bench", "internal/test/apart", "internal/test/brokertest", "internal/test/control", "internal/test/dbtest", "internal/test/e2e", "internal/test/eventually", "internal/test/examplestest", "internal/test/failover", "internal/test/group", "internal/test/inbox", "internal/test/packaging", "internal/test/pages", "internal/test/program", "internal/test/proof", "internal/test/race", "internal/test/receivers", "internal/test/report", "internal/test/rig", "internal/test/scale", "internal/test/sqltest", "internal/test/vectors",
	"internal/test/deps",
}

// testModules are the modules that tests may import.
var testModules = []string{
	"github.com/google/go-cmp", "pgregory.net/rapid", "go.uber.org/goleak", "github.com/rogpeppe/go-internal/testscript",
	"github.com/jackc/pgx/v5", "modernc.org/sqlite", "golang.org/x/sys", "golang.org/x/sync", "github.com/chromedp",
	"github.com/nats-io/nats.go", "github.com/nats-io/nkeys", "github.com/rabbitmq/amqp091-go", "github.com/twmb/franz-go",
	"go.opentelemetry.io/proto/otlp", "google.golang.org/protobuf/proto",
}

// drawers are forbidden package names: they say nothing about the content, or they shadow a package
// of the standard library in every importing file.
var drawers = []string{"util", "utils", "common", "types", "models", "pkg", "http", "sql"}
