package cli

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/app"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/config"
	"github.com/hookonce/hookonce/internal/shown"
)

func (p *program) configCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Check the settings"}
	cmd.AddCommand(p.configCheckCommand())
	return cmd
}

func (p *program) configCheckCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "check [FILE]",
		Short: "Print every fault and every warning of the settings",
		Long: "Print every fault of the settings as FILE:LINE:COLUMN, and every warning.\n" +
			"FILE is the settings file, like --config FILE. Environment variables apply as\n" +
			"they do for serve. The command opens only the settings file, the files that\n" +
			"hold secrets, and those of tls. In a folder without settings it takes those of\n" +
			"the package, if there are any.",
		Args: atMostOne("FILE"),
	}
	addConfigFlag(cmd, &file)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 {
			if file != "" {
				return newUsageError(cmd, errors.New("the settings file is given twice"))
			}
			file = args[0]
		}
		here := file
		if file = p.takeInstalled(file); file != here {
			fmt.Fprintf(p.stderr, "Settings: %s\n", file)
		}
		text, ok := config.Check(p.loadOptions(file, config.Flags{}))
		fmt.Fprint(p.stdout, shown.EscapeLines(text))
		switch {
		case !ok:
			return app.Errorf("the settings cannot be used").Try("fix the faults listed on the standard output")
		case file == "" && p.variable("HOOKONCE_CONFIG") == "" && !exists(config.DefaultFile):
			return app.Errorf("no %s here", config.DefaultFile).
				Try("hookonce init, which writes one; or hookonce config check FILE")
		}
		fmt.Fprintln(p.stdout, "ok")
		p.noteKept(file)
		return nil
	}
	return cmd
}

// noteKept says which values a running gateway would not take over at a reload.
func (p *program) noteKept(file string) {
	settings, faults := p.inspect(&settingsFlags{config: file}, config.Flags{})
	if faults != nil || len(settings.FromEnvironment) == 0 {
		return
	}
	if address, _ := app.LocalGateway(settings); address == "" {
		return
	}
	fmt.Fprintf(p.stderr, "A gateway runs on these settings. It keeps the values of %s until a restart, because a process keeps its environment; "+
		"a reload takes those in the file of env_file.\n", strings.Join(settings.FromEnvironment, ", "))
}

// exists reports whether there is something at path, readable or not.
func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, os.ErrNotExist)
}
