package cli

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/adminclient"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/config"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/shown"
)

// completeWithin bounds the time for a completion: the user waits for it while typing.
const completeWithin = time.Second

// complete adds completion to a command that asks the admin API: of the values of its flags, and of
// its first argument if that is a source. It knows the names of the settings and of the running
// gateway. It opens no database, and says nothing about faults.
func (p *program) complete(f *apiFlags, firstIsSource bool) {
	none := cobra.ShellCompDirectiveNoFileComp
	values := map[string]cobra.CompletionFunc{
		"source": func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return p.sourceNames(f), none
		},
		"destination": func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return p.destinationNames(f), none
		},
		"state": cobra.FixedCompletions(driver.EventStates(), none),
	}
	for name, complete := range values {
		if f.cmd.Flags().Lookup(name) != nil {
			_ = f.cmd.RegisterFlagCompletionFunc(name, complete) // fails only for an unknown flag
		}
	}
	f.cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if !firstIsSource || len(args) > 0 {
			return nil, none
		}
		return p.sourceNames(f), none
	}
}

func (p *program) sourceNames(f *apiFlags) []string {
	return p.names(f, func(settings *config.Settings) (names []string) {
		for i := range settings.Engine.Sources {
			names = append(names, settings.Engine.Sources[i].Name)
		}
		return names
	}, func(ctx context.Context, gateway *adminclient.Client) (names []string) {
		page, err := gateway.Sources(ctx)
		for i := 0; err == nil && i < len(page.Sources); i++ {
			names = append(names, page.Sources[i].Name)
		}
		return names
	})
}

func (p *program) destinationNames(f *apiFlags) []string {
	return p.names(f, func(settings *config.Settings) (names []string) {
		for i := range settings.Engine.Destinations {
			names = append(names, settings.Engine.Destinations[i].Name)
		}
		return names
	}, func(ctx context.Context, gateway *adminclient.Client) (names []string) {
		page, err := gateway.Destinations(ctx)
		for i := 0; err == nil && i < len(page.Destinations); i++ {
			names = append(names, page.Destinations[i].Name)
		}
		return names
	})
}

// names returns the sorted names of the settings and of a running gateway.
func (p *program) names(f *apiFlags, set func(*config.Settings) []string, ask func(context.Context, *adminclient.Client) []string) []string {
	ctx, cancel := context.WithTimeout(context.Background(), completeWithin)
	defer cancel()
	settings, _ := p.inspect(f.settingsFlags, config.Flags{})
	names := set(settings)
	gateway, err := p.namedOrLocal(ctx, f, settings)
	if gateway != nil && err == nil {
		names = append(names, ask(ctx, gateway)...)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name != shown.Escape(name) })
	slices.Sort(names)
	return slices.Compact(names)
}
