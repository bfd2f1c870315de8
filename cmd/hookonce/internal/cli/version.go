package cli

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/app"
)

// The linker sets these in release builds, which are made without git:
// -ldflags "-X github.com/hookonce/hookonce/cmd/hookonce/internal/cli.version=v1.2.3".
var (
	version  string
	revision string // of the source
	date     string // of that revision, as RFC 3339
)

// versions is the shape of --json.
type versions struct {
	Version  string `json:"version"`
	Revision string `json:"revision"` // of the source; "" if it was not recorded
	Date     string `json:"date"`     // of that revision, as RFC 3339; "" if it was not recorded
	Modified bool   `json:"modified"` // the source had changes beyond that revision
	Go       string `json:"go"`
	SQLite   string `json:"sqlite"`
	Platform string `json:"platform"`
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
		v := buildVersions()
		v.SQLite = sqlite
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

func buildVersions() versions {
	v := versions{
		Version:  version,
		Revision: revision,
		Date:     date,
		Go:       runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		v.Version = cmp.Or(v.Version, info.Main.Version)
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				v.Revision = cmp.Or(v.Revision, s.Value)
			case "vcs.time":
				v.Date = cmp.Or(v.Date, s.Value)
			case "vcs.modified":
				v.Modified = s.Value == "true"
			}
		}
	}
	v.Version = cmp.Or(v.Version, "(devel)")
	return v
}
