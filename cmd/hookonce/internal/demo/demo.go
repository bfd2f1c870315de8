package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hookonce/hookonce/provider"
)

// kills is how often each receiver is killed.
const kills = 2

// The moments of the traffic, in percent of it.
const (
	closing    = 10 // the bank, and the work of the other receiver, are out of service
	firstKill  = 45
	secondKill = 75
)

// outage is how long they are. It does not end by progress: a receiver that fails makes none.
const outage = 1200 * time.Millisecond

// Options are the parameters of Run.
type Options struct {
	// Program is the path of this program. Its commands "serve", "demo bank FOLDER" and "demo naive
	// FOLDER" run as processes.
	Program string
	Environ []string // of those processes, as os.Environ returns it
	// Database is a PostgreSQL URL; "" for SQLite in the temporary folder.
	Database string
	// Exit makes Run return after the table. Otherwise the gateway stays until ctx ends.
	Exit   bool
	Screen *Screen
}

// Error is a failure with a remedy.
type Error struct {
	Err    error
	Remedy string
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// Hint returns the remedy.
func (e *Error) Hint() string { return e.Remedy }

// errBroken is a wrong number of hookonce.
var errBroken = errors.New("hookonce broke its promise")

// Run runs the demo. Its error says which numbers are wrong. When it returns, its processes, its folder
// and its database are gone, also if ctx has ended.
func Run(ctx context.Context, o *Options) (err error) {
	folder, err := os.MkdirTemp("", "hookonce-demo-")
	if err != nil {
		return &Error{fmt.Errorf("making the demo's folder: %w", err), "set TMPDIR to a folder that you may write to"}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	o.Screen.fail = cancel
	s := &stage{Options: o, folder: folder, secrets: newSecrets(), plan: newPlan(), fail: cancel}
	defer func() { err = errors.Join(err, s.remove()) }()
	if err := s.play(ctx); err != nil {
		if errors.Is(err, errBroken) {
			return err
		}
		// The failure of a process, or of a moment, is the cause of the others.
		if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
			return cause
		}
		if ctx.Err() != nil {
			return &Error{errors.New("interrupted; everything was removed"), "run the same command again"}
		}
		return err
	}
	return nil
}

// stage is one run of the demo.
type stage struct {
	*Options
	folder  string
	secrets map[provider.Name]string
	plan    *plan
	fail    context.CancelCauseFunc // ends the run

	db                   *database
	bank, naive, gateway *process
	died                 int // dead letters before the replay
}

// play sets the stage, plays the traffic, and shows the result.
func (s *stage) play(ctx context.Context) error {
	if err := s.set(ctx); err != nil {
		return err
	}
	s.Screen.print("hookonce demo · 5 providers → gateway (%s) → a small bank", s.db.kind)
	senders, err := newSenders(s.secrets)
	if err != nil {
		return err
	}
	ours := newTraffic(s.plan, senders, s.gateway.address)
	other := newTraffic(s.plan, senders, s.naive.address)
	if err := s.run(ctx, ours, other); err != nil {
		return err
	}
	return s.show(ctx, ours, other)
}

// set makes the database and starts the processes.
func (s *stage) set(ctx context.Context) (err error) {
	if s.Database != "" {
		s.db, err = createPostgres(ctx, s.Database)
	} else {
		s.db, err = openSQLite(s.folder)
	}
	if err != nil {
		return err
	}
	text, err := json.Marshal(s.secrets)
	if err == nil {
		err = os.WriteFile(filepath.Join(s.folder, secretsFile), text, 0o600)
	}
	if err != nil {
		return err
	}
	s.bank = s.process("bank", "demo", "bank", s.folder)
	s.naive = s.process("receiver that checks, then acts", "demo", "naive", s.folder)
	s.gateway = s.process("gateway", "serve", "--config", filepath.Join(s.folder, settingsFile),
		"--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--log-format", "json")
	s.gateway.hasAdmin = true
	if err := s.bank.start(ctx); err != nil {
		return err
	}
	if err := writeSettings(s.folder, s.db.url, "http://"+s.bank.address()+"/transfers", s.secrets); err != nil {
		return err
	}
	if err := s.gateway.start(ctx); err != nil {
		return err
	}
	return s.naive.start(ctx)
}

func (s *stage) process(name string, args ...string) *process {
	return &process{name: name, died: s.fail, command: func() *exec.Cmd {
		cmd := exec.Command(s.Program, args...)
		cmd.Dir, cmd.Env = s.folder, s.environment()
		return cmd
	}}
}

// environment returns the environment of the processes: without the user's settings of hookonce and of
// OpenTelemetry, and with the demo's folder as that for files of running programs.
func (s *stage) environment() []string {
	env := slices.DeleteFunc(slices.Clone(s.Environ), func(entry string) bool {
		return strings.HasPrefix(entry, "HOOKONCE_") || strings.HasPrefix(entry, "OTEL_") || strings.HasPrefix(entry, "XDG_RUNTIME_DIR=")
	})
	return append(env, "XDG_RUNTIME_DIR="+s.folder)
}

// run plays the traffic to both receivers at once, until every delivery is answered and booked.
func (s *stage) run(ctx context.Context, ours, other *traffic) error {
	defer s.Screen.watch(&ours.counts, s.plan.deliveries)()
	var playing sync.WaitGroup
	playing.Go(func() {
		err := ours.play(ctx, s.moments(ctx, bankLedger, s.gateway, s.Screen.print))
		if err == nil {
			err = s.settle(ctx)
		}
		s.failIf(err)
	})
	playing.Go(func() {
		s.failIf(other.play(ctx, s.moments(ctx, naiveLedger, s.naive, func(string, ...any) {})))
	})
	playing.Wait()
	return context.Cause(ctx)
}

// failIf ends the run with err, unless it is nil.
func (s *stage) failIf(err error) {
	if err != nil {
		s.fail(err)
	}
}

// moments returns the outage of a ledger's till, and the kills of the receiver before it. tell shows them.
func (s *stage) moments(ctx context.Context, ledger string, receiver *process, tell func(format string, args ...any)) []moment {
	away := awayFile(s.folder, ledger)
	kill := func(percent int) moment {
		return moment{percent, func() {
			took, err := receiver.restart(ctx)
			s.failIf(err)
			if err == nil {
				tell("%4d %%  %s killed with -9; back in %d ms", percent, receiver.name, took.Milliseconds())
			}
		}}
	}
	return []moment{
		{closing, func() {
			tell("%4d %%  the bank is out of service for %s", closing, outage)
			s.failIf(os.WriteFile(away, nil, 0o600))
			select {
			case <-time.After(outage):
				s.failIf(os.Remove(away))
			case <-ctx.Done():
			}
		}},
		kill(firstKill), kill(secondKill),
	}
}

// settle waits until the gateway has finished. Then it opens the closed account, and replays the
// transfers to it, which are dead letters.
func (s *stage) settle(ctx context.Context) error {
	dead, err := s.await(ctx)
	if err != nil {
		return err
	}
	s.died = dead
	if err := os.WriteFile(openedFile(s.folder), nil, 0o600); err != nil {
		return err
	}
	replayed, err := replay(ctx, s.gateway.at.Load().Admin)
	if err != nil {
		return err
	}
	s.Screen.print(" 100 %%  %d dead letters, because an account is closed: opened it, replayed %d", dead, replayed)
	_, err = s.await(ctx)
	return err
}

// patience is how long await waits while nothing changes.
const patience = time.Minute

// await waits until no event is open, and returns how many are dead. When nothing has changed for a
// while, it returns as well: the table shows the open events.
func (s *stage) await(ctx context.Context) (dead int, err error) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	before, since := -1, time.Now()
	for {
		states, err := s.db.states(ctx)
		if err != nil {
			return 0, fmt.Errorf("reading the events of the gateway: %w", err)
		}
		open := states["pending"] + states["running"]
		if open != before {
			before, since = open, time.Now()
		}
		if open == 0 || time.Since(since) > patience {
			return states["dead"], nil
		}
		s.Screen.wait("waiting for the bank: %d events", open)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// show prints the table, and leaves the gateway running until ctx ends. The error says which numbers are
// wrong.
func (s *stage) show(ctx context.Context, ours, other *traffic) error {
	hookonce, err := countGateway(ctx, s.plan.events, s.db, s.folder)
	if err != nil {
		return err
	}
	hookonce.dead = s.died
	hookonce.saw(&ours.counts, s.gateway.kills)
	naive, err := countNaive(ctx, s.plan.events, s.folder)
	if err != nil {
		return err
	}
	naive.saw(&other.counts, s.naive.kills)
	columns := wide
	if s.Screen.Narrow {
		columns = narrow
	}
	s.Screen.print("\n%s", table(s.plan, hookonce, naive, columns, s.Screen.Colors))
	faults := hookonce.faults(s.plan)
	for _, fault := range faults {
		s.Screen.print("WRONG: %s", fault)
	}
	s.Screen.print("%s", moral(s.plan, naive))
	if !s.Exit {
		s.naive.kill()
		s.Screen.print("A kill -9 loses about a second of the dashboard's figures, but never an event.")
		s.Screen.print("Look around: http://%s/   (Ctrl-C ends and removes it)", s.gateway.at.Load().Admin)
		<-ctx.Done()
		if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
			return cause
		}
	}
	if len(faults) > 0 {
		return fmt.Errorf("%w: %s", errBroken, strings.Join(faults, "; "))
	}
	return nil
}

// remove ends the processes, and removes the folder and the database.
func (s *stage) remove() error {
	for _, p := range []*process{s.gateway, s.naive, s.bank} {
		if p != nil {
			p.kill()
		}
	}
	var failed error
	if s.db != nil {
		failed = s.db.remove()
	}
	return errors.Join(failed, os.RemoveAll(s.folder))
}
