package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/app"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/config"
)

func (p *program) configCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Work with the settings"}
	cmd.AddCommand(p.configCheckCommand())
	return cmd
}

func (p *program) configCheckCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "check [FILE]",
		Short: "Print every fault of the settings with its place, and every warning",
		Long: "Print every fault of the settings as FILE:LINE:COLUMN, and every warning. FILE is the settings file, the\n" +
			"same as --config FILE. Variables of the environment count as they do for serve. Nothing is opened but\n" +
			"the files that hold settings and secrets.",
		Args: cobra.MaximumNArgs(1),
	}
	cmd.Flags().StringVar(&file, "config", "", "settings file (default hookonce.yaml in the working directory, if there is one)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 {
			if file != "" {
				return newUsageError(cmd, errors.New("the settings file is given twice"))
			}
			file = args[0]
		}
		text, ok := config.Check(p.loadOptions(file, config.Flags{}))
		fmt.Fprint(p.stdout, printableLines(text))
		if !ok {
			return &app.Error{Err: errors.New("the settings cannot be used"), Remedy: "mend what is listed on the standard output"}
		}
		fmt.Fprintln(p.stdout, "ok")
		return nil
	}
	return cmd
}
