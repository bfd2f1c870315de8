package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	hookonce "github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/certs"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/config"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/traces"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookadmin"
	"github.com/hookonce/hookonce/internal/limit"
	"github.com/hookonce/hookonce/internal/metrics"
	"github.com/hookonce/hookonce/observe"
)

// Options are the parameters of Serve.
type Options struct {
	Settings *config.Settings
	Logger   *slog.Logger
	// Version and Revision of this program, for the metrics; the dashboard shows the former, and links to Docs.
	Version, Revision, Docs string
	// Hangups receives each request to reload the settings, and Reload reads them. If Hangups is
	// nil, the settings are never reloaded.
	Hangups <-chan os.Signal
	Reload  func() (*config.Settings, error)
	// Serving, if not nil, is called once, when both listeners answer. Its arguments are their addresses,
	// as http://HOST:PORT: public is that for senders, which is https with TLS; admin is for programs on
	// this machine.
	Serving func(public, admin string)
}

// Serve runs the gateway until ctx ends, and then stops it gracefully. It returns nil if every open
// delivery was answered, and every message being sent was finished or released.
//
// It starts in this order: on SQLite, take the lock that keeps a second gateway out; open the
// database, and wait up to 30 s for one that is still starting; read the certificates of tls and
// open the listeners, so that a failure to do so changes nothing; migrate the schema or refuse it;
// refuse a database that may lose acknowledged events; serve.
func Serve(ctx context.Context, o *Options) (err error) {
	defer keepHeadroom()()
	warnOfSettings(o.Settings, o.Logger)
	warnOfFileSystem(o.Settings, o.Logger)
	presence, err := takePresence(o.Settings, o.Logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, presence.release()) }()
	store, err := awaitStore(ctx, o.Settings, o.Logger)
	if err != nil {
		return startFailed(ctx, err, o.Logger)
	}
	defer func() {
		closeErr := closeStore(store)
		if errors.Is(closeErr, errStillInUse) {
			// All work is done by now, so nothing is lost.
			o.Logger.Warn("stopping with a database connection still open", "error", closeErr)
			closeErr = nil
		}
		err = errors.Join(err, closeErr)
	}()
	exporter, err := traces.New(ctx, os.Getenv, o.Version, o.Logger)
	if err != nil {
		return err
	}
	defer exporter.Close()
	g, err := newGateway(ctx, store, o, exporter)
	if err != nil {
		return err
	}
	if err := g.prepare(ctx, store); err != nil {
		return startFailed(ctx, errors.Join(err, g.public.Close(), g.admin.Close()), o.Logger)
	}
	if err := presence.announce(g.admin.Addr()); err != nil {
		o.Logger.Warn("commands on this machine will not find this gateway", "error", err)
	}
	return g.run(ctx)
}

func warnOfSettings(settings *config.Settings, log *slog.Logger) {
	for _, fault := range settings.Warnings {
		log.Warn("settings: " + fault.Text(settings.File))
	}
}

// prepare prepares the schema and checks the durability of store.
func (g *gateway) prepare(ctx context.Context, store driver.Store) error {
	if err := prepareSchema(ctx, store, g.options.Settings.Migrate == config.MigrateAuto, g.log); err != nil {
		return err
	}
	return withRemedy(g.engine.Operator().CheckDurability(ctx))
}

// startFailed returns err, or nil if ctx has ended: the gateway was told to stop, and had accepted
// nothing.
func startFailed(ctx context.Context, err error, log *slog.Logger) error {
	if ctx.Err() == nil {
		return err
	}
	log.Info("stopped before serving", "error", err)
	return nil
}

// gateway is a running gateway.
type gateway struct {
	log           *slog.Logger
	engine        *hookonce.Engine
	metrics       *metrics.Metrics
	public, admin *listener
	certs         certs.Keeper // nil without tls
	limits        stopLimits
	stopping      atomic.Bool
	warnings      atomic.Pointer[[]string]     // of the settings, for the dashboard
	refused       atomic.Pointer[failedReload] // the last reload; nil if it succeeded
	options       *Options
}

// newGateway returns a gateway that listens. exporter is nil if there is nothing to trace.
func newGateway(ctx context.Context, store driver.Store, o *Options, exporter *traces.Exporter) (_ *gateway, err error) {
	measured := metrics.New(o.Version, o.Revision)
	store = measured.Store(store)
	var tracer observe.Tracer
	if exporter != nil {
		tracer = exporter
	}
	engine, err := newEngine(store, o.Settings, o.Logger, measured.Observer(), tracer)
	if err != nil {
		return nil, err
	}
	_, oneClock := o.Settings.SQLitePath()
	measured.Watch(metrics.Watched{Engine: engine, Store: store, OneClock: oneClock})
	g := &gateway{log: o.Logger, engine: engine, metrics: measured, limits: defaultStopLimits, options: o}
	g.showWarnings(o.Settings)
	if g.certs, err = openCertificates(o, measured); err != nil {
		return nil, err
	}
	if g.public, err = listen(ctx, "listen", o.Settings.Listen, publicServer(engine), o.Logger); err != nil {
		return nil, err
	}
	g.public.lean()
	if g.admin, err = listen(ctx, "admin.listen", o.Settings.Admin.Listen, adminServer(nil), o.Logger); err != nil {
		return nil, errors.Join(err, g.public.Close())
	}
	if g.certs != nil {
		encrypt(g.public.server, g.certs, measured.HandshakeFailed)
	}
	g.admin.server.Handler, err = hookadmin.New(&hookadmin.Config{
		Store:          store,
		Engine:         engine,
		Ready:          g.ready,
		Token:          string(o.Settings.Admin.Token),
		ReadToken:      string(o.Settings.Admin.ReadToken),
		Loopback:       limit.Loopback(g.admin.Addr().String()),
		TrustedProxies: o.Settings.Engine.TrustedProxies,
		Warnings:       g.allWarnings,
		ReloadFailed:   g.reloadFailed,
		StreamClients:  func(n int) { measured.StreamClients.Set(float64(n)) },
		Metrics:        measured.Handler(),
		WebhookURL:     g.webhookURL(),
		About:          aboutOf(o),
		Docs:           o.Docs,
		Logger:         o.Logger,
	})
	if err != nil {
		return nil, errors.Join(err, g.public.Close(), g.admin.Close())
	}
	return g, nil
}

// aboutOf tells commands and pages which gateway this is. A relative path of a SQLite file is that of this
// process, which commands elsewhere do not know.
func aboutOf(o *Options) hookadmin.Gateway {
	about := hookadmin.Gateway{Title: o.Settings.Admin.Title, Version: o.Version, Database: o.Settings.DatabaseDisplay()}
	if path, is := o.Settings.SQLitePath(); is {
		if absolute, err := filepath.Abs(path); err == nil {
			about.Database = "sqlite:" + absolute
		}
	}
	return about
}

// showWarnings shows the warnings of settings on the dashboard, except those that it derives from
// the status of a source.
func (g *gateway) showWarnings(settings *config.Settings) {
	var texts []string
	for _, fault := range settings.Warnings {
		if !fault.InStatus {
			texts = append(texts, fault.Text(settings.File))
		}
	}
	g.warnings.Store(&texts)
}

// allWarnings returns the warnings for the dashboard.
func (g *gateway) allWarnings() []string {
	texts := *g.warnings.Load()
	if g.certs != nil {
		texts = slices.Concat(texts, g.certs.Troubles())
	}
	if path, is := g.options.Settings.SQLitePath(); is {
		if text, remedy := largeLog(path); text != "" {
			texts = slices.Concat(texts, []string{text + "; " + remedy})
		}
	}
	return texts
}

// webhookURL returns the address for senders, as far as the gateway knows it. With TLS its host is one
// that the certificate covers.
func (g *gateway) webhookURL() string {
	if address := g.options.Settings.PublicURL; address != "" {
		return address
	}
	if hosts := g.options.Settings.TLS.Hosts; len(hosts) > 0 {
		return "https://" + hosts[0]
	}
	host, port := localAddress(g.public)
	files, encrypted := g.certs.(*certs.Files)
	if !encrypted {
		return "http://" + net.JoinHostPort(host, port)
	}
	return strings.TrimSuffix("https://"+net.JoinHostPort(files.Host(host), port), ":443")
}

var errStopping = errors.New("the gateway is stopping")

func (g *gateway) ready(ctx context.Context) error {
	if g.stopping.Load() {
		return errStopping
	}
	return g.engine.Ready(ctx)
}

// run serves until ctx ends or a part fails, and then stops in order.
func (g *gateway) run(ctx context.Context) error {
	// The work outlives ctx: deliveries that arrive during the stop are claimed and counted like
	// all others.
	work, stopWork := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWork()
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		if g.certs != nil {
			g.certs.Keep(work)
		}
	}()
	failed := make(chan error, 3)
	worked := make(chan struct{})
	go func() {
		defer close(worked)
		if err := withRemedy(g.engine.Run(work)); err != nil {
			failed <- fmt.Errorf("sending and upkeep: %w", err)
		}
	}()
	for _, l := range []*listener{g.public, g.admin} {
		go func() {
			if err := l.serve(); err != nil {
				failed <- err
			}
		}()
	}
	g.log.Info("serving webhooks", "listen", g.public.Addr().String())
	g.log.Info("serving the admin API and the dashboard", "admin", g.admin.Addr().String())
	if g.options.Serving != nil {
		g.options.Serving(g.webhookURL(), localURL(g.admin))
	}

	var cause error
	hangups, read := g.options.Hangups, make(chan reading, 1)
	for serving := true; serving; {
		select {
		case <-hangups:
			hangups = nil // one reading at a time; Hangups keeps the next request
			go func() { read <- g.read() }()
		case r := <-read:
			hangups = g.options.Hangups
			g.apply(r)
		case <-ctx.Done():
			serving = false
		case cause = <-failed:
			serving = false
		}
	}
	return errors.Join(cause, g.stop(stopWork, worked, kept))
}
