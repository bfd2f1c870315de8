package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/hookonce/hookonce/hookmigrate"
)

func (p *program) migrateGrantsCommand() *cobra.Command {
	var role string
	var consumer bool
	cmd := &cobra.Command{
		Use:   "grants",
		Short: "Print the rights that another role needs in the schema",
		Long: "Print the GRANT statements that a gateway's role needs in a schema that another\n" +
			"role has migrated. Run them as its owner, and again after each migration. With\n" +
			"--consumer they are those of a program that calls the SQL functions.",
		Example: "  hookonce migrate grants --role gateway | psql \"$OWNER_URL\"",
		Args:    noArgs,
	}
	flags := addSettingsFlags(cmd)
	cmd.Flags().StringVar(&role, "role", "", "`name` of the role")
	cmd.Flags().BoolVar(&consumer, "consumer", false, "the rights of an SQL consumer")
	_ = cmd.RegisterFlagCompletionFunc("role", cobra.NoFileCompletions)
	cmd.RunE = func(*cobra.Command, []string) error {
		if role == "" {
			return &usageError{err: errors.New("--role is missing"), hint: "name the role of the gateway, as --role gateway"}
		}
		settings, err := p.load(flags)
		if err != nil {
			return err
		}
		if _, sqlite := settings.SQLitePath(); sqlite {
			return &usageError{err: errors.New("SQLite has no roles"), hint: "name a PostgreSQL database in the setting database"}
		}
		grants := hookmigrate.Grants
		if consumer {
			grants = hookmigrate.ConsumerGrants
		}
		_, err = fmt.Fprint(p.stdout, grants(settings.Schema, role))
		return err
	}
	return cmd
}
