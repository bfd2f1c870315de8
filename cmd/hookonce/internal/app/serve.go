package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"

	hookonce "github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/config"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookadmin"
)

// Options say what to serve.
type Options struct {
	Settings *config.Settings
	Logger   *slog.Logger
	// Hangups tells of each wish to reload the settings, and Reload reads them
	// again. Without Hangups they are read once.
	Hangups <-chan os.Signal
	Reload  func() (*config.Settings, error)
}

// Serve runs the gateway until ctx ends, and then stops it gracefully; it
// returns nil when everything that had arrived was answered and everything
// that was being sent was finished or given back.
//
// It starts in this order: on SQLite take the lock that keeps a second gateway
// out; open the database, waiting up to 30 s for one that is starting too; take
// the addresses, so that a start which fails for one of them changes nothing;
// bring the schema up to date or refuse it; refuse a database that may lose
// what was acknowledged; serve.
func Serve(ctx context.Context, o *Options) (err error) {
	defer keepHeadroom()()
	warnOfSettings(o.Settings, o.Logger)
	release, err := lockDatabase(o.Settings)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	store, err := awaitStore(ctx, o.Settings, o.Logger)
	if err != nil {
		return startFailed(ctx, err, o.Logger)
	}
	defer func() {
		closeErr := closeStore(store)
		if errors.Is(closeErr, errStillInUse) {
			// Everything is answered and finished by now: nothing is lost with it.
			o.Logger.Warn("stopping without waiting any longer", "error", closeErr)
			closeErr = nil
		}
		err = errors.Join(err, closeErr)
	}()
	g, err := newGateway(ctx, store, o)
	if err != nil {
		return err
	}
	if err := prepare(ctx, store, o); err != nil {
		return startFailed(ctx, errors.Join(err, g.public.Close(), g.admin.Close()), o.Logger)
	}
	return g.run(ctx)
}

func warnOfSettings(settings *config.Settings, log *slog.Logger) {
	for _, fault := range settings.Warnings {
		log.Warn("settings: " + fault.Text(settings.File))
	}
}

// prepare makes sure that store can be served from.
func prepare(ctx context.Context, store driver.Store, o *Options) error {
	if err := prepareSchema(ctx, store, o.Settings.Migrate == config.MigrateAuto, o.Logger); err != nil {
		return err
	}
	return checkDurability(ctx, store, o.Settings.AllowUnsafe, o.Logger)
}

// startFailed returns err, or nil where the start was only given up because
// the gateway was told to stop: nothing had been accepted.
func startFailed(ctx context.Context, err error, log *slog.Logger) error {
	if ctx.Err() == nil {
		return err
	}
	log.Info("stopped before it served", "error", err)
	return nil
}

// gateway is everything that runs.
type gateway struct {
	log           *slog.Logger
	inbox         *hookonce.Engine
	public, admin *listener
	limits        stopLimits
	stopping      atomic.Bool
	warnings      atomic.Pointer[[]string] // of the settings, for the dashboard
	options       *Options
}

func newGateway(ctx context.Context, store driver.Store, o *Options) (_ *gateway, err error) {
	inbox, err := NewEngine(store, o.Settings, o.Logger)
	if err != nil {
		return nil, err
	}
	g := &gateway{log: o.Logger, inbox: inbox, limits: defaultStopLimits, options: o}
	g.showWarnings(o.Settings)
	if g.public, err = listen(ctx, "listen", o.Settings.Listen, publicServer(inbox), o.Logger); err != nil {
		return nil, err
	}
	if g.admin, err = listen(ctx, "admin.listen", o.Settings.Admin.Listen, adminServer(nil), o.Logger); err != nil {
		return nil, errors.Join(err, g.public.Close())
	}
	g.admin.server.Handler, err = hookadmin.New(&hookadmin.Config{
		Store:    store,
		Engine:   inbox,
		Ready:    g.ready,
		Token:    string(o.Settings.Admin.Token),
		Loopback: isLoopback(g.admin),
		Warnings: func() []string { return *g.warnings.Load() },
		Logger:   o.Logger,
	})
	if err != nil {
		return nil, errors.Join(err, g.public.Close(), g.admin.Close())
	}
	return g, nil
}

// showWarnings makes the warnings of settings those of the dashboard, which tells
// by itself what the status of a source says.
func (g *gateway) showWarnings(settings *config.Settings) {
	var texts []string
	for _, fault := range settings.Warnings {
		if !fault.InStatus {
			texts = append(texts, fault.Text(settings.File))
		}
	}
	g.warnings.Store(&texts)
}

var errStopping = errors.New("the gateway is stopping")

func (g *gateway) ready(ctx context.Context) error {
	if g.stopping.Load() {
		return errStopping
	}
	return g.inbox.Ready(ctx)
}

// run serves until ctx ends or a part fails, and stops in order.
func (g *gateway) run(ctx context.Context) error {
	// The work outlives ctx: what is still arriving while the gateway stops is
	// claimed and counted like everything else.
	work, stopWork := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWork()
	failed := make(chan error, 3)
	worked := make(chan struct{})
	go func() {
		defer close(worked)
		if err := g.inbox.Run(work); err != nil {
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

	var cause error
	for serving := true; serving; {
		select {
		case <-g.options.Hangups:
			g.reload()
		case <-ctx.Done():
			serving = false
		case cause = <-failed:
			serving = false
		}
	}
	return errors.Join(cause, g.stop(stopWork, worked))
}
