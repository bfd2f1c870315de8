package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/app"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/build"
)

// versions is the shape of --json.
type versions struct {
	build.Info
	SQLite string `json:"sqlite"`
}

func (p *program) versionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of hookonce, Go and SQLite",
		Args:  noArgs,
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		sqlite, err := app.SQLiteVersion(cmd.Context())
		if err != nil {
			return err
		}
		v := versions{build.Read(), sqlite}
		if asJSON {
			return writeJSON(p.stdout, v)
		}
		fmt.Fprintf(p.stdout, "hookonce %s\n", v.Version)
		if v.Revision != "" {
			fmt.Fprintln(p.stdout, strings.TrimSuffix("revision "+v.Revision+", "+v.Date, ", "))
		}
		fmt.Fprintf(p.stdout, "%s %s, SQLite %s\n", v.Go, v.Platform, v.SQLite)
		return nil
	}
	return cmd
}
