package cli

import (
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"

	hookonce "github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/build"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/config"
	"github.com/hookonce/hookonce/internal/say"
	"github.com/hookonce/hookonce/internal/shown"
)

// maxBannerSources bounds the sources of the banner: a pipe takes it whole, also if no program reads it.
const maxBannerSources = 50

// banner says that the gateway serves, and where.
type banner struct {
	settings      *config.Settings
	public, admin string // see app.Options.Serving
}

// printBanner prints b on stdout; the log on stderr stays as it is. Where the log is JSON and stdout is
// no terminal, b is one line of JSON, because collectors of logs merge both streams.
func (p *program) printBanner(b *banner, logs *logFlags) {
	if !isTerminal(p.stdout) && logs.isJSON(p.stderr) {
		slog.New(slog.NewJSONHandler(shown.Writer(p.stdout), &slog.HandlerOptions{ReplaceAttr: logTime})).Info("ready",
			"version", build.Read().Version, "database", b.settings.DatabaseDisplay(), "webhooks", b.public+"/webhooks/",
			"dashboard", b.admin+"/", "sources", len(b.settings.Engine.Sources))
		return
	}
	width, isTerminal := terminalWidth(p.stdout)
	if !isTerminal {
		width = 80
	}
	fmt.Fprint(p.stdout, b.text(width, isTerminal, isTerminal && coloured()))
}

// text returns the banner as text. Lines of sources that are longer than width are broken before the
// destinations. The command to try is one line, unless folds is set.
func (b *banner) text(width int, folds, colours bool) string {
	sources := b.settings.Engine.Sources
	listed := sources[:min(len(sources), maxBannerSources)]
	labels := len("dashboard")
	for i := range listed {
		labels = max(labels, len(listed[i].Name))
	}
	var out strings.Builder
	line := func(label, value string) { fmt.Fprintf(&out, "  %-*s  %s\n", labels, label, value) }
	count := "no sources"
	if len(sources) > 0 {
		count = say.Count(len(sources), "source")
	}
	fmt.Fprintf(&out, "hookonce %s · %s · %s\n", build.Read().Version, shown.Escape(b.settings.DatabaseDisplay()), count)
	for i := range listed {
		s := &listed[i]
		post, target := "POST "+webhookURL(b.public, s.Name), " → "+takers(b.settings, s)
		if labels+4+text.StringWidthWithoutEscSequences(post+target+"  UNSIGNED") > width {
			target = "\n" + strings.Repeat(" ", labels+3) + target
		}
		if unsigned(s) {
			target += "  " + text.Colors{text.FgYellow}.Sprint("UNSIGNED")
		}
		line(s.Name, post+target)
	}
	if more := len(sources) - len(listed); more > 0 {
		line("", fmt.Sprintf("and %d more: hookonce sources list", more))
	}
	line("dashboard", b.admin+"/")
	next := b.next()
	if folds {
		line("try", next.folded(width, labels+4))
	} else {
		line("try", next.String())
	}
	if colours {
		return out.String()
	}
	return text.StripEscape(out.String())
}

// next returns the command to run next.
func (b *banner) next() commandLine {
	sources := b.settings.Engine.Sources
	switch {
	case len(sources) == 0 && b.settings.File == "":
		return commandLine{"hookonce init, which writes settings with a source"}
	case len(sources) == 0:
		return commandLine{"add a source to " + shown.Escape(b.settings.File) + "; hookonce providers NAME prints one"}
	}
	for i := range sources {
		if command := sendCommand(b.settings, &sources[i], b.public); command != nil {
			return command
		}
	}
	return commandLine{"hookonce events tail"}
}

// webhookURL returns the address of a source below base.
func webhookURL(base, source string) string { return base + "/webhooks/" + url.PathEscape(source) }

// takers names the destinations of a source, or says why there is none.
func takers(settings *config.Settings, s *hookonce.Source) string {
	if s.Consume == hookonce.ConsumeSQL {
		return settings.Schema + ".take"
	}
	var names []string
	for i := range settings.Engine.Routes {
		if r := &settings.Engine.Routes[i]; takesFrom(r, s) && !slices.Contains(names, r.To) {
			names = append(names, r.To)
		}
	}
	if len(names) == 0 {
		return "no route"
	}
	return strings.Join(names, ", ")
}

func takesFrom(r *hookonce.Route, s *hookonce.Source) bool {
	return len(r.Sources) == 0 || slices.Contains(r.Sources, s.Name)
}
