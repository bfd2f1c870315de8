package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/app"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/bench"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/build"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/config"
	"github.com/hookonce/hookonce/internal/say"
	"github.com/hookonce/hookonce/internal/shown"
)

// benchFlags are the flags of bench.
type benchFlags struct {
	cmd      *cobra.Command
	database string
	seconds  int
	yes      bool
	json     bool
}

func (p *program) benchCommand() *cobra.Command {
	f := new(benchFlags)
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure this machine and a database, and what bounds them",
		Long: "Measure how fast a gateway on this machine receives deliveries, sends messages\n" +
			"and runs handlers, and say what bounds each figure. The load, the gateway and\n" +
			"the destination are in this process. The database is a temporary SQLite file;\n" +
			"with --database one beside sqlite:PATH, or a schema of a PostgreSQL database.\n" +
			"It is removed at the end, also after Ctrl-C. The command reads no settings.",
		Example: "  hookonce bench\n  hookonce bench --database sqlite:/var/lib/hookonce/hookonce.db",
		Args:    noArgs,
	}
	f.cmd = cmd
	flags := cmd.Flags()
	flags.StringVar(&f.database, "database", "", "measure on the disk of sqlite:PATH, or in a new schema of a postgres:// `URL`")
	flags.IntVar(&f.seconds, "seconds", 20, "measure for `N` seconds, 1 to 600")
	flags.BoolVar(&f.yes, "yes", false, "do not ask before the load on a PostgreSQL database")
	flags.BoolVar(&f.json, "json", false, "print JSON")
	_ = cmd.RegisterFlagCompletionFunc("database", cobra.NoFileCompletions)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return p.bench(cmd.Context(), f) }
	return cmd
}

func (p *program) bench(ctx context.Context, f *benchFlags) error {
	ctx, restore := interruptible(ctx)
	defer restore()
	if err := p.checkBench(ctx, f); err != nil {
		return err
	}
	if strings.HasPrefix(f.database, "postgres") {
		if err := app.Reach(ctx, f.database); err != nil {
			return err
		}
	}
	progress := p.newProgress()
	report, err := bench.Run(ctx, &bench.Options{
		Database: f.database, Lasts: time.Duration(f.seconds) * time.Second,
		Began: func(name string) {
			progress.end()
			progress.show("measuring %s…", name)
		},
	})
	progress.end()
	switch {
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return app.Errorf("interrupted: nothing is left behind").Try("run the same command again")
	case err != nil:
		return &app.Error{Err: err, Remedy: f.remedy()}
	}
	report.Version = build.Read().Version
	if f.json {
		return writeJSON(p.stdout, report)
	}
	p.printBench(report)
	return nil
}

// remedy returns the remedy for a failed measurement.
func (f *benchFlags) remedy() string {
	switch {
	case f.database == "":
		return "set TMPDIR to a folder that you may write to, on a disk with room"
	case strings.HasPrefix(f.database, "sqlite:"):
		return "check that you may write to the folder of --database, and that its disk has room"
	}
	return "check the database, or leave --database out; --seconds gives more time"
}

// checkBench checks the flags, and asks before the load on a server.
func (p *program) checkBench(ctx context.Context, f *benchFlags) error {
	if f.seconds < 1 || f.seconds > 600 {
		return newUsageError(f.cmd, errors.New("--seconds must be 1 to 600"))
	}
	if f.database == "" {
		return nil
	}
	if err := checkDatabase(f.database); err != nil {
		return newUsageError(f.cmd, fmt.Errorf("--database: %w", err))
	}
	if strings.HasPrefix(f.database, "sqlite:") || f.yes {
		return nil
	}
	database := (config.Settings{Database: f.database}).DatabaseDisplay()
	fmt.Fprintf(p.stderr, "This would load %s for %d seconds, in a schema of its own that is dropped at the end.\n", shown.Escape(database), f.seconds)
	return p.ask(ctx, f.cmd, "load a database that others may use")
}

func (p *program) printBench(r *bench.Report) {
	fmt.Fprintf(p.stdout, "hookonce %s · %s · %s, %s\n", r.Version, shown.Escape(r.Database), r.Platform, say.Count(r.Cores, "core"))
	t := newFacts(p.stdout, "MEASURED", "FIGURE", "MEDIAN", "P99", "BOUND BY")
	for i := range r.Figures {
		f := &r.Figures[i]
		t.row(f.Name, say.Number(int(f.PerSecond+0.5))+" "+f.Unit+"/s", latency(f.Median), latency(f.P99), f.Bound)
	}
	t.Flush()
}

// latency formats seconds; "-" for 0.
func latency(s float64) string {
	if s == 0 {
		return "-"
	}
	return say.BriefSeconds(s)
}
