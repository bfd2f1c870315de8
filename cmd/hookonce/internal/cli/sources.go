package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/adminclient"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/app"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookadmin"
	"github.com/hookonce/hookonce/internal/operate"
	"github.com/hookonce/hookonce/internal/say"
	"github.com/hookonce/hookonce/internal/shown"
	"github.com/hookonce/hookonce/provider"
)

func (p *program) sourcesCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "sources", Short: "List sources, or let one learn its secret"}
	cmd.AddCommand(p.sourcesListCommand(), p.sourcesArmCommand())
	return cmd
}

var sourceList = &list[hookadmin.SourcePage, hookadmin.Source]{
	things: "sources", doing: "listing the sources",
	ask: func(client *adminclient.Client, ctx context.Context, _ url.Values) (*hookadmin.SourcePage, error) {
		return client.Sources(ctx)
	},
	rows: func(page *hookadmin.SourcePage) ([]hookadmin.Source, string, hookadmin.Time) {
		return page.Sources, "", hookadmin.Time{}
	},
	narrow: []narrowing{
		{"WHY", whole},
		{"LAST DELIVERY", brief},
		{"ARMED UNTIL", brief},
		{"ADDRESS", below},
		{"ARMED UNTIL", out},
		{"SCHEME", 16},
		{"PROVIDER", 12},
		{"SOURCE", 16},
		{"LEARNED", out},
		{"24 HOURS", out},
		{"SCHEME", out},
	},
	columns: []string{"SOURCE", "HEALTH", "LAST DELIVERY", "24 HOURS", "PROVIDER", "SCHEME", "LEARNED", "ARMED UNTIL", "ADDRESS", "WHY"},
	cells: func(s *hookadmin.Source) []string {
		scheme := orDash(effectiveScheme(s))
		if s.Unsigned {
			scheme += " (unsigned)"
		}
		learned := "unknown"
		switch n := s.LearnedSecrets; {
		case n == nil:
		case *n == 0:
			learned = "-"
		default:
			learned = strconv.Itoa(*n)
		}
		return []string{
			s.Name, s.ShownHealth(), at(s.LastDeliveryAt), say.Number(s.Deliveries), s.Provider, scheme, learned, at(s.ArmedUntil),
			s.Address, orDash(s.Why),
		}
	},
}

func (p *program) sourcesListCommand() *cobra.Command {
	return sourceList.command(p, &cobra.Command{Use: "list", Short: "List the sources: health, last delivery, address, learned secrets"})
}

// effectiveScheme returns the scheme that a source uses, named or by default; "" if the source
// describes its own.
func effectiveScheme(s *hookadmin.Source) string {
	spec, err := provider.Lookup(provider.Name(s.Provider))
	if err != nil {
		return s.Scheme
	}
	scheme, _ := spec.Scheme(s.Scheme) // the zero Scheme if there is none
	return scheme.ID
}

// armed is the shape of --json.
type armed struct {
	Source     string         `json:"source"`
	ArmedUntil hookadmin.Time `json:"armed_until"`
	Secret     *string        `json:"secret"` // null with --no-wait
}

func (p *program) sourcesArmCommand() *cobra.Command {
	var long time.Duration
	var replace, noWait, asJSON bool
	cmd := &cobra.Command{
		Use:   "arm NAME",
		Short: "Let a source learn its secret from the provider",
		Long: "Let a source take one secret that its provider hands over while a webhook is set\n" +
			"up, and wait for it. Ctrl-C disarms the source again.\n\n" +
			"The secret is printed once, because some providers ask for it. From then on it\n" +
			"is in force in every gateway on this database, beside the secrets of the\n" +
			"settings. It is stored in the database, readable by anyone who can read its\n" +
			"table, and shown nowhere else.",
		Args: arguments("NAME"),
	}
	flags := addSettingsFlags(cmd)
	p.complete(&apiFlags{settingsFlags: flags}, true)
	cmd.Flags().DurationVar(&long, "for", 15*time.Minute, "take a secret for this `DURATION`")
	cmd.Flags().BoolVar(&replace, "replace", false, "forget the secrets learned before, once this one arrives")
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "do not wait for the secret, and do not print it")
	addJSONFlag(cmd, &asJSON)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if long <= 0 || long > operate.MaxArmed {
			return newUsageError(cmd, fmt.Errorf("--for must be more than 0 and at most %s", operate.MaxArmed))
		}
		ctx, stop := interruptible(cmd.Context())
		defer stop()
		return p.withEngine(ctx, flags, nil, func(ctx context.Context, e *engine) error {
			before, err := e.store.LearnedSecrets(ctx, args[:1])
			if err != nil {
				return err
			}
			state, err := e.Arm(ctx, args[0], long, replace)
			if err != nil {
				return armFailed(args[0], err)
			}
			if state.ArmedUntil.IsZero() { // the secret came before the state was read
				state.ArmedUntil = state.Now.Add(long)
			}
			state.Secrets = before[0].Secrets
			out := armed{Source: args[0], ArmedUntil: hookadmin.Time(state.ArmedUntil)}
			fmt.Fprintf(p.stderr, "%s takes one secret until %s: let the provider send it now\n", args[0], moment(state.ArmedUntil))
			if !noWait {
				secret, err := app.AwaitSecret(ctx, e.store, state)
				if err != nil {
					return err
				}
				out.Secret = &secret
			}
			return p.printArmed(&out, asJSON)
		})
	}
	return cmd
}

func (p *program) printArmed(out *armed, asJSON bool) error {
	if asJSON {
		return writeJSON(p.stdout, out)
	}
	if out.Secret == nil {
		return nil
	}
	fmt.Fprintln(p.stderr, "The secret arrived, and is in force:")
	_, err := fmt.Fprintln(p.stdout, shown.Escape(*out.Secret))
	return err
}

func armFailed(source string, err error) error {
	switch {
	case errors.Is(err, driver.ErrNotFound):
		return &app.Error{Err: err, Remedy: "hookonce sources list"}
	case errors.Is(err, operate.ErrNoSecretDelivered):
		return &app.Error{Err: err, Remedy: "set secrets of that source in the settings"}
	case errors.Is(err, driver.ErrTooManySecrets):
		return &app.Error{Err: err, Remedy: "hookonce sources arm " + word(source) + " --replace, which forgets them"}
	}
	return err
}
