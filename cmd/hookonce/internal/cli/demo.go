package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/app"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/demo"
)

func (p *program) demoCommand() *cobra.Command {
	o := &demo.Options{Environ: p.environ}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show in half a minute that each event takes effect once",
		Long: "Start a gateway, a small bank behind it, and a receiver that checks, then acts.\n" +
			"Deliver 2,000 events of five providers about 10,000 times to both: forgeries,\n" +
			"late events, many copies at once. The bank fails for a while, and both receivers\n" +
			"are killed with -9 and started again, twice. The table at the end is counted\n" +
			"from the ledgers and the database.\n\n" +
			"The demo needs no settings and no network, and leaves nothing behind. The\n" +
			"dashboard stays up until Ctrl-C. The exit code is 1 if a number of hookonce is\n" +
			"wrong.",
		Example: "  hookonce demo --exit",
		Args:    noArgs,
	}
	cmd.Flags().BoolVar(&o.Exit, "exit", false, "end after the table")
	cmd.Flags().StringVar(&o.Database, "database", "", "run in a temporary database on the PostgreSQL of this `URL`; its user needs CREATEDB")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return p.demo(cmd, o) }
	cmd.AddCommand(p.demoPart("bank", demo.Bank), p.demoPart("naive", demo.Naive))
	return cmd
}

func (p *program) demo(cmd *cobra.Command, o *demo.Options) (err error) {
	if o.Database != "" {
		if !strings.HasPrefix(o.Database, "postgres://") && !strings.HasPrefix(o.Database, "postgresql://") {
			return newUsageError(cmd, errors.New("--database: the demo makes its own SQLite file; name a PostgreSQL, as postgres://HOST/DATABASE"))
		}
		if err := app.CheckPostgres(o.Database); err != nil {
			return newUsageError(cmd, err)
		}
	}
	if o.Program, err = os.Executable(); err != nil {
		return err
	}
	width, onTerminal := terminalWidth(p.stdout)
	o.Screen = &demo.Screen{Out: p.stdout, Narrow: onTerminal && width < 80, Colors: onTerminal && coloured()}
	if width, ok := terminalWidth(p.stderr); ok {
		o.Screen.Live, o.Screen.Width = p.stderr, width
	}
	ctx, restore := untilSignal(cmd.Context())
	defer restore()
	if o.Database != "" {
		if err := app.Reach(ctx, o.Database); err != nil {
			return err
		}
	}
	err = demo.Run(ctx, o)
	if errors.Is(err, syscall.EPIPE) { // of stdout: the gateway and the bank have their own
		return app.Errorf("the reader of the output has ended, so the demo ended too; everything was removed").
			Try("hookonce demo --exit, and read its output to the end")
	}
	return err
}

// untilSignal returns a context that ends with any signal that ends a program. Further signals do
// nothing, until the returned function is called: the demo removes its processes and files meanwhile.
func untilSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	// Otherwise a closed pipe at stdout kills the program. The channel is not read: the write fails.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	return signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
}

// demoPart is the command of a process of the demo.
func (p *program) demoPart(name string, run func(ctx context.Context, folder string, out io.Writer) error) *cobra.Command {
	return &cobra.Command{
		Use: name + " FOLDER", Hidden: true, Args: arguments("FOLDER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, restore := interruptible(cmd.Context())
			defer restore()
			return run(ctx, args[0], p.stdout)
		},
	}
}
