package cli

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"

	"charm.land/bubbles/v2/key"
	"charm.land/huh/v2"
	"golang.org/x/term"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/app"
	"github.com/hookonce/hookonce/provider"
)

// canAsk returns nil if there is a person to ask. The form needs a terminal that can move its cursor.
func (p *program) canAsk() error {
	in, ok := p.stdin.(*os.File)
	_, shows := terminalWidth(p.stderr)
	switch {
	case !ok || !shows || !term.IsTerminal(int(in.Fd())):
		return errors.New("there is no terminal to ask on")
	case p.variable("TERM") == "dumb":
		return errors.New("a dumb terminal cannot show the questions")
	}
	return nil
}

// initWithFlags is the remedy where init cannot ask.
const initWithFlags = "hookonce init --provider NAME --forward URL; hookonce providers lists the names"

// askBeginning asks for the values that no flag gives.
func (p *program) askBeginning(ctx context.Context, b *beginning) error {
	var groups []*huh.Group
	question := func(flag, title string, field huh.Field) {
		if !b.cmd.Flags().Changed(flag) {
			groups = append(groups, huh.NewGroup(field).Title(title)) // a field that searches hides its own title
		}
	}
	question("provider", "Which providers send to you?", huh.NewMultiSelect[string]().
		Title("Search: ").
		Description("Type to search, then Enter. x chooses, / searches again, Enter goes on.").
		Options(providerOptions()...).
		Filtering(true).
		Height(14).
		Value(&b.providers).
		Validate(func(chosen []string) error { // after Value, which would call it: nothing is chosen yet
			if len(chosen) == 0 {
				return errors.New("choose at least one with x; " + anySender)
			}
			return nil
		}))
	question("forward", "Which URL takes the events?", huh.NewInput().
		Description("Your application, such as http://127.0.0.1:3000/hooks.\nEmpty: no destination, events are stored only.").
		Validate(checkForward).
		Value(&b.forward))
	question("database", "Which database?", huh.NewInput().
		Description("sqlite:PATH needs no server; postgres://USER@HOST/NAME serves several gateways.").
		Validate(checkDatabase).
		Value(&b.database))
	if len(groups) == 0 {
		return nil
	}
	keys := huh.NewDefaultKeyMap()
	for _, binding := range []*key.Binding{&keys.MultiSelect.Filter, &keys.MultiSelect.Next, &keys.MultiSelect.Submit, &keys.MultiSelect.Prev} {
		binding.SetEnabled(false) // until the search ends
	}
	keys.MultiSelect.SetFilter.SetEnabled(true)
	form := huh.NewForm(groups...).WithKeyMap(keys).WithTheme(theme()).WithInput(p.stdin).WithOutput(p.stderr)
	err := form.RunWithContext(ctx)
	if err != nil && !errors.Is(err, huh.ErrUserAborted) && ctx.Err() == nil {
		return app.Errorf("asking on the terminal: %w", err).Try(initWithFlags)
	}
	if form.State != huh.StateCompleted { // Ctrl-C, or a signal
		return app.Errorf("interrupted: nothing was written").Try("run the same command again")
	}
	return nil
}

// theme returns a theme that is made once: huh asks for it with each option that it draws, at each key.
func theme() huh.Theme {
	light := sync.OnceValue(func() *huh.Styles { return huh.ThemeBase16(false) })
	dark := sync.OnceValue(func() *huh.Styles { return huh.ThemeBase16(true) })
	return huh.ThemeFunc(func(isDark bool) *huh.Styles {
		if isDark {
			return dark()
		}
		return light()
	})
}

// usual are the providers that most people look for. The form has them on top.
var usual = []provider.Name{
	provider.Stripe, provider.GitHub, provider.Shopify, provider.Slack, provider.PayPal,
	provider.Twilio, provider.GitLab, provider.Square, provider.SendGrid, provider.Adyen,
}

func providerOptions() []huh.Option[string] {
	others := slices.DeleteFunc(provider.Names(), func(name provider.Name) bool { return slices.Contains(usual, name) })
	var options []huh.Option[string]
	for _, name := range slices.Concat(usual, others) {
		label := string(name)
		if spec, err := provider.Lookup(name); err == nil && spec.Title != label {
			label += "  " + spec.Title
		}
		options = append(options, huh.NewOption(label, string(name)))
	}
	return options
}
