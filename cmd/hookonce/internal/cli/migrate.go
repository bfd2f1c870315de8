package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/app"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookmigrate"
)

func (p *program) migrateCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "migrate", Short: "Bring the database schema up to date"}
	cmd.AddCommand(p.migrateUpCommand(), p.migrateStatusCommand(), p.migrateSQLCommand(), p.migrateGrantsCommand(), p.migrateIDsCommand())
	return cmd
}

// appliedStep and schemaStep are the shapes of --json.
type appliedStep struct {
	Version int    `json:"version"`
	Name    string `json:"name"`
}

type schemaStep struct {
	Version int    `json:"version"`
	Name    string `json:"name"`
	Applied bool   `json:"applied"`
	Unknown bool   `json:"unknown"` // applied by a newer program
	// OtherBuild says that another build applied it, before the first release.
	OtherBuild bool `json:"other_build"`
}

func (p *program) migrateUpCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Apply every missing step, in one transaction",
		Args:  noArgs,
	}
	flags := addSettingsFlags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		settings, err := p.loadToOpen(cmd.Context(), flags)
		if err != nil {
			return err
		}
		return using(cmd.Context(), settings, app.CreateStore, func(ctx context.Context, store driver.Store) error {
			applied, err := app.Migrate(ctx, store)
			if err != nil {
				return err
			}
			if asJSON {
				out := struct {
					Applied []appliedStep `json:"applied"`
				}{Applied: []appliedStep{}}
				for _, step := range applied {
					out.Applied = append(out.Applied, appliedStep{step.Version, step.Name})
				}
				return writeJSON(p.stdout, out)
			}
			for _, step := range applied {
				fmt.Fprintf(p.stdout, "applied %d %s to %s\n", step.Version, step.Name, settings.DatabaseDisplay())
			}
			if len(applied) == 0 {
				fmt.Fprintln(p.stdout, settings.DatabaseDisplay()+" is up to date")
			}
			return nil
		})
	}
	return cmd
}

func (p *program) migrateStatusCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show every step, and whether it is applied",
		Args:  noArgs,
	}
	flags := addSettingsFlags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		settings, err := p.loadToOpen(cmd.Context(), flags)
		if err != nil {
			return err
		}
		steps, err := app.SchemaStatus(cmd.Context(), settings)
		if err != nil {
			return err
		}
		if asJSON {
			out := struct {
				Steps []schemaStep `json:"steps"`
			}{Steps: []schemaStep{}}
			for _, s := range steps {
				out.Steps = append(out.Steps, schemaStep(s))
			}
			return writeJSON(p.stdout, out)
		}
		t := newTable(p.stdout, nil, "VERSION", "NAME", "STATUS")
		for _, s := range steps {
			t.row(strconv.Itoa(s.Version), orDash(s.Name), stepStatus(s))
		}
		t.Flush()
		return nil
	}
	return cmd
}

func stepStatus(s hookmigrate.Step) string {
	switch {
	case s.Unknown:
		return "applied by a newer hookonce"
	case s.OtherBuild:
		return "applied by another build"
	case s.Applied:
		return "applied"
	}
	return "pending"
}

func (p *program) migrateSQLCommand() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "sql",
		Short: "Print the SQL of the missing steps",
		Args:  noArgs,
	}
	flags := addSettingsFlags(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "print every step, without opening the database")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		settings, err := p.load(flags)
		if err != nil {
			return err
		}
		var done []hookmigrate.Step
		if !all {
			if done, err = app.SchemaStatus(cmd.Context(), settings); err != nil {
				return err
			}
		}
		begin := "BEGIN"
		if _, sqlite := settings.SQLitePath(); sqlite {
			begin = "PRAGMA journal_mode = WAL;\n\nBEGIN IMMEDIATE"
		}
		p.printSQL(app.Migrations(settings), done, begin)
		return nil
	}
	return cmd
}

// printSQL prints the migrations that are not applied according to done. They are in one
// transaction, because half a schema cannot be repaired.
func (p *program) printSQL(migrations []driver.Migration, done []hookmigrate.Step, begin string) {
	applied := make(map[int]bool)
	for _, step := range done {
		applied[step.Version] = step.Applied
	}
	missing := slices.DeleteFunc(slices.Clone(migrations), func(m driver.Migration) bool { return applied[m.Version] })
	if len(missing) == 0 {
		return
	}
	fmt.Fprintf(p.stdout, "%s;\n\n", begin)
	for _, m := range missing {
		fmt.Fprintf(p.stdout, "-- step %d: %s\n%s\n", m.Version, m.Name, m.SQL)
	}
	fmt.Fprintln(p.stdout, "COMMIT;")
}
