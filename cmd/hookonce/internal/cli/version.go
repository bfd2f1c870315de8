package cli

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/app"
)

// version is set by the linker in release builds:
// -ldflags "-X github.com/hookonce/hookonce/cmd/hookonce/internal/cli.version=v1.2.3".
var version string

// versions is the shape of --json.
type versions struct {
	Version  string `json:"version"`
	Revision string `json:"revision"` // of the source; "" if it was not recorded
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
			fmt.Fprintf(p.stdout, "revision %s\n", v.Revision)
		}
		fmt.Fprintf(p.stdout, "%s %s, SQLite %s\n", v.Go, v.Platform, v.SQLite)
		return nil
	}
	return cmd
}

func buildVersions() versions {
	v := versions{
		Version:  cmp.Or(version, "(devel)"),
		Go:       runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	v.Version = cmp.Or(version, info.Main.Version, "(devel)")
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}
