// Package bench measures a machine and a database: how fast a gateway there receives deliveries, sends
// messages and runs handlers, and what bounds each figure. It leaves nothing behind.
package bench

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"time"

	hookonce "github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/observe"
	"github.com/hookonce/hookonce/provider"
	"github.com/hookonce/hookonce/verify"
)

// Options are the parameters of Run.
type Options struct {
	// Database is "" for SQLite in a folder for temporary files, sqlite:PATH for SQLite in a new folder
	// beside PATH, or a PostgreSQL URL: there a schema is made, and dropped at the end.
	Database string
	// Lasts is the time for all measurements together. Starts and ends come on top, a few seconds at most.
	Lasts time.Duration
	// Began is called before each measurement with its name. It may be nil.
	Began func(name string)
}

// Report is the result of Run. It is also the shape of --json.
type Report struct {
	Version  string   `json:"version"`
	Database string   `json:"database"` // where the measurements were made, without a password
	Platform string   `json:"platform"`
	Cores    int      `json:"cores"`
	Figures  []Figure `json:"figures"`
}

// Figure is one measurement.
type Figure struct {
	Name      string  `json:"name"`
	Unit      string  `json:"unit"` // of PerSecond
	PerSecond float64 `json:"per_second"`
	Median    float64 `json:"median_seconds"` // of one of them; 0 if it was not measured
	P99       float64 `json:"p99_seconds"`
	Bound     string  `json:"bound_by"`
}

// Run measures until all is measured or ctx ends.
func Run(ctx context.Context, o *Options) (*Report, error) {
	r := &Report{Platform: runtime.GOOS + "/" + runtime.GOARCH, Cores: runtime.GOMAXPROCS(0)}
	m := &meter{report: r, began: o.Began, lasts: o.Lasts}
	if m.began == nil {
		m.began = func(string) {}
	}
	if folder, isSQLite := folderOf(o.Database); isSQLite {
		return r, m.onSQLite(ctx, folder)
	}
	return r, m.onPostgres(ctx, o.Database)
}

// meter adds figures to a report.
type meter struct {
	report *Report
	began  func(name string)
	lasts  time.Duration
	sqlite bool
}

// share returns a part of the whole time.
func (m *meter) share(part float64) time.Duration { return time.Duration(part * float64(m.lasts)) }

// measureStore measures receive, forward and take on a migrated store.
func measureStore[T any](ctx context.Context, m *meter, store driver.Driver[T]) error {
	for _, step := range []struct {
		name    string
		measure func(context.Context, *meter, driver.Driver[T]) (*Figure, error)
	}{
		{"receive", receive[T]}, {"forward", forward[T]}, {"take", take[T]},
	} {
		m.began(step.name)
		f, err := step.measure(ctx, m, store)
		if err != nil {
			return fmt.Errorf("measuring %s: %w", step.name, err)
		}
		f.Name = step.name
		m.report.Figures = append(m.report.Figures, *f)
	}
	return nil
}

// receive measures deliveries, from their first byte to the answer after the commit.
func receive[T any](ctx context.Context, m *meter, store driver.Driver[T]) (*Figure, error) {
	commits := new(commits)
	engine, err := hookonce.NewEngine(store, config("receive", &observe.Observer{Claim: commits.add}))
	if err != nil {
		return nil, err
	}
	defer run(ctx, engine)()
	deliver, stop, err := serve(ctx, "receive", engine)
	if err != nil {
		return nil, err
	}
	defer stop()
	if _, err := deliver(ctx, m.share(0.05)); err != nil { // to warm up
		return nil, err
	}
	commits.reset()
	cpu := watchCPU()
	load, err := deliver(ctx, m.share(0.3))
	if err != nil {
		return nil, err
	}
	median, p99 := load.quantiles()
	return &Figure{
		Unit: "deliveries", PerSecond: float64(len(load.took)) / load.lasted.Seconds(), Median: median, P99: p99,
		Bound: m.boundOfClaims(cpu.usage(), commits, load.lasted),
	}, nil
}

// forward measures messages, from the lease to the record of their success.
func forward[T any](ctx context.Context, m *meter, store driver.Driver[T]) (*Figure, error) {
	receiver, stopReceiver, err := listen(ctx, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	if err != nil {
		return nil, err
	}
	defer stopReceiver()
	sent := newCounter("message", "sent")
	cfg := config("forward", &observe.Observer{Attempt: sent.add})
	cfg.Destinations = []hookonce.Destination{{Name: "bench", URL: receiver, AllowPrivate: true}}
	cfg.Routes = []hookonce.Route{{Name: "bench", Sources: []string{"forward"}, To: "bench"}}
	engine, err := hookonce.NewEngine(store, cfg)
	if err != nil {
		return nil, err
	}
	return m.backlog(ctx, "forward", "messages", engine, sent)
}

// take measures handlers that do nothing, each in a transaction of its own or in that of a batch.
func take[T any](ctx context.Context, m *meter, store driver.Driver[T]) (*Figure, error) {
	done := newCounter("handler", "done")
	mux := new(hookonce.Mux[T])
	hookonce.Handle(mux, "take", "*", func(context.Context, T, *hookonce.Event) error { return nil })
	inbox, err := hookonce.New(store, mux, config("take", &observe.Observer{Attempt: done.add}))
	if err != nil {
		return nil, err
	}
	return m.backlog(ctx, "take", "events", inbox.Engine, done)
}

// backlog fills a source, then runs the engine, and measures how fast it works the events off.
func (m *meter) backlog(ctx context.Context, source, unit string, engine *hookonce.Engine, worked *counter) (*Figure, error) {
	deliver, stop, err := serve(ctx, source, engine)
	if err != nil {
		return nil, err
	}
	load, err := deliver(ctx, m.share(0.12))
	stop()
	if err != nil {
		return nil, err
	}
	cpu, began := watchCPU(), time.Now()
	end := run(ctx, engine)
	worked.await(ctx, len(load.took), m.share(0.15))
	worked.await(ctx, 1, 30*time.Second) // a busy machine may not come to the first one in time
	lasted, n, used := time.Since(began), worked.n.Load(), cpu.usage()
	end()
	if n == 0 && ctx.Err() == nil {
		return nil, fmt.Errorf("none of %d events was worked off within %s", len(load.took), lasted.Round(time.Millisecond))
	}
	return &Figure{Unit: unit, PerSecond: float64(n) / lasted.Seconds(), Bound: m.boundOfWork(used)}, ctx.Err()
}

const secret = "a-secret-of-the-benchmark-only"

// config returns the configuration of an engine with one source.
func config(source string, observer *observe.Observer) *hookonce.Config {
	return &hookonce.Config{
		Logger: slog.New(slog.DiscardHandler), Observer: observer,
		Sources: []hookonce.Source{{
			Name: source, Provider: provider.HMAC, Secrets: hookonce.StaticSecrets(secret),
			Signature: &verify.Scheme{ID: "sha256", Family: verify.FamilyHMAC, Header: signatureHeader},
			Event:     provider.EventRules{ID: "body:id", Type: "body:type"},
		}},
		AllowUnsafe: []string{"fsync", "full_page_writes", "synchronous", "journal_mode", "sqlite_version", "shared_filesystem", "volatile_filesystem"},
	}
}

// run runs an engine, and returns a function that ends it.
func run(ctx context.Context, engine *hookonce.Engine) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = engine.Run(ctx) // the figures show a failure
	}()
	return func() {
		cancel()
		<-ended
	}
}

// listen serves handler on loopback, and returns its URL and a function that ends it.
func listen(ctx context.Context, handler http.Handler) (url string, stop func(), err error) {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(ln) // ends with Close
	}()
	return "http://" + ln.Addr().String(), func() {
		_ = server.Close() // it ends the process's own connections
		<-ended
	}, nil
}
