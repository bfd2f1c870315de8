package hookadmin

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/runbook"
	"github.com/hookonce/hookonce/internal/say"
	"github.com/hookonce/hookonce/provider"
)

// warning is about something that works, but needs somebody to look at it.
type warning struct {
	Kind    string
	About   *link // the destination that Text is about, which comes before it; nil: Text says all
	Text    string
	Advice  string   // how to fix it; "" if Text says it
	Command string   // the command or the setting that mends it; "" for none
	Steps   []string // what to do, one after the other, after Text
	See     runbook.Entry
	Link    *link // to See; set by allWarnings
	Grave   bool  // messages are not sent; events may be forged, go unnoticed, or take effect twice
}

// shortWindow reports whether s forgets events while the provider still retries them.
func (s *Source) shortWindow() bool { return s.DedupeWindowSeconds < s.ProviderRetriesSeconds }

// ShortWindow is shortWindow for templates.
func (s sourceRow) ShortWindow() bool { return s.shortWindow() }

// Warning is a warning of the overview.
type Warning struct {
	Kind    string   `json:"kind"`    // a word or two, such as "Circuit open"
	Grave   bool     `json:"grave"`   // messages are not sent; events may be forged, go unnoticed, or take effect twice
	Text    string   `json:"text"`    // it may change
	Remedy  []string `json:"remedy"`  // what to do, one after the other
	Command string   `json:"command"` // the command or the setting that mends it, after Remedy; "" for none
	See     string   `json:"see"`     // the address of more about it; "" for none
}

// UnknownDestination is the kind of a warning of messages for a destination that is not in the settings.
const UnknownDestination = "Unknown destination"

// WarningPage is the answer of GET /api/v1/warnings.
type WarningPage struct {
	Warnings []Warning `json:"warnings"`
}

// shape returns the warning as the API prints it.
func (w *warning) shape() Warning {
	out := Warning{Kind: w.Kind, Grave: w.Grave, Text: w.Text, Remedy: notNull(w.Steps), Command: w.Command}
	if w.About != nil {
		out.Text = "The destination " + w.About.Text + " " + w.Text
	}
	if w.Advice != "" {
		out.Remedy = append(out.Remedy, w.Advice)
	}
	if w.Link != nil {
		out.See = w.Link.Href
	}
	return out
}

// showWarnings answers without the database, too; then those that come from it are missing.
func (h *handling) showWarnings(w http.ResponseWriter, r *http.Request) {
	stats, err := h.counts.soon(r.Context())
	away := ""
	if err != nil {
		away = awayText(err)
		h.logger.WarnContext(r.Context(), "counting failed; warnings that come from the database are missing", slog.Any("error", err))
	}
	page := &WarningPage{Warnings: []Warning{}}
	for _, found := range h.allWarnings(r, stats, away) {
		page.Warnings = append(page.Warnings, found.shape())
	}
	writeJSON(w, page)
}

// allWarnings returns all warnings, the most urgent first: those of what fails now, then those of settings.
// away says why the database has no answer, or is ""; stats is nil if it could not count.
func (h *handling) allWarnings(r *http.Request, stats *driver.Stats, away string) []warning {
	all := h.warningsOfReload()
	sources := NewSourcePage(h.engine.Operator().Sources()).Sources
	page := newDestinationPage(h.engine.Operator().Destinations(), stats)
	h.addFailures(r, page)
	if away == "" {
		all = append(append(all, h.warningsOfLately(r, sources)...), h.warningsOfLooks(r, sources)...)
	}
	all = append(append(all, warningsOfDestinations(page.Destinations)...), warningsOfSources(sources)...)
	for _, text := range h.warnings() {
		all = append(all, warning{Kind: "Settings", Text: text, Command: "hookonce config check"})
	}
	for i := range all {
		all[i].Link = h.entryLink(all[i].See)
	}
	return all
}

// warningsOfReload tells of settings that the last reload refused.
func (h *handler) warningsOfReload() []warning {
	if h.reload == nil {
		return nil
	}
	at, err := h.reload()
	if err == nil {
		return nil
	}
	return []warning{{
		Kind: "Reload failed", See: runbook.NoReload, Command: "hookonce config check",
		Text: fmt.Sprintf("The settings were not reloaded at %s; the old ones stay in force: %s.",
			toTheSecond(Time(at)), strings.ReplaceAll(strings.ReplaceAll(err.Error(), ":\n", ": "), "\n", "; ")),
		Advice: "Fix it, and reload again. This shows it, if the user of the gateway runs it:",
	}}
}

// warningsOfLooks tells of events that never arrived, and of lists that cannot be read.
func (h *handling) warningsOfLooks(r *http.Request, sources []Source) []warning {
	ctx, cancel := context.WithTimeout(r.Context(), queryTimeout)
	defer cancel()
	if err := h.addLooks(ctx, sources); err != nil {
		h.logger.WarnContext(ctx, "the overview shows no missing events", slog.Any("error", err))
		return nil
	}
	var all []warning
	for i := range sources {
		s, look := &sources[i], sources[i].Reconcile
		if look.foundLately(time.Now()) {
			all = append(all, warning{
				Kind: "Webhook broken", Grave: true, See: runbook.Missing, Text: "Source " + s.Name + ": " + look.missedText() + " They were found in the provider's list, and claimed.",
				Advice: "Look at the webhook's settings at the provider. This looks farther back:", Command: "hookonce reconcile " + s.Name + " --since 3d --plan",
			})
		}
		if look != nil && look.Error != "" {
			all = append(all, warning{
				Kind: "List not read", Text: "Source " + s.Name + ": missing events are not found. " + look.Error + ".",
				Advice: "The gateway tries again at " + toTheSecond(look.NextAt) + ".",
			})
		}
	}
	return all
}

func warningsOfSources(sources []Source) []warning {
	var all []warning
	var unsigned []string
	for i := range sources {
		s := &sources[i]
		if s.Unsigned {
			unsigned = append(unsigned, s.Name)
		}
		if s.shortWindow() {
			retries := inWords(seconds(s.ProviderRetriesSeconds))
			all = append(all, warning{
				Kind: "Short dedupe window", Grave: true, See: runbook.Twice,
				Text: fmt.Sprintf("The dedupe window of the source %s (%s) is shorter than the retry period of %s (%s): a late retry takes effect again.",
					s.Name, inWords(seconds(s.DedupeWindowSeconds)), specOf(provider.Name(s.Provider)).Title, retries),
				Advice:  fmt.Sprintf("Make the dedupe window at least %s, or remove the setting.", retries),
				Command: "dedupe_window: " + say.Setting(seconds(s.ProviderRetriesSeconds)),
			})
		}
	}
	if len(unsigned) > 0 {
		all = append(all, warning{
			Kind: "Unsigned", Grave: true,
			Text:   "Requests to these sources are not verified: " + strings.Join(unsigned, ", ") + ". Anyone who can reach them can forge events.",
			Advice: "Choose a provider or a scheme that signs, or make sure that only the sender can reach it.", Command: "hookonce providers",
		})
	}
	return all
}

func warningsOfDestinations(destinations []Destination) []warning {
	var all []warning
	for i := range destinations {
		d := &destinations[i]
		about := &link{"destinations/" + url.PathEscape(d.Name), d.Name}
		switch {
		case !d.Configured && *d.Pending+*d.Sending > 0:
			all = append(all, warning{
				Kind: UnknownDestination, About: about, See: runbook.UnknownDestination,
				Text:   fmt.Sprintf("is not in the settings, and %s for it.", waiting(*d.Pending+*d.Sending)),
				Advice: "They are sent when the settings have a destination of that name.", Command: "hookonce config check",
			})
		case d.Circuit != nil && d.Circuit.Open:
			w := warning{
				Kind: "Circuit open", Grave: true, About: about, See: entryOf(d),
				Text: fmt.Sprintf("failed %s in a row. Since %s it gets only probes.",
					say.Count(d.Circuit.Failures, "time"), toTheSecond(d.Circuit.Since)),
				Advice: "Once it is repaired, this retries at once:", Command: d.RetryCommand(),
			}
			if d.LastFailure != nil {
				w.Text += " The last error: " + d.LastFailure.String() + "."
			}
			all = append(all, w)
		}
	}
	return all
}

// entryOf returns the entries of the runbook about a destination that fails.
func entryOf(d *Destination) runbook.Entry {
	if d.Settings != nil && d.Settings.Address != "" && !strings.HasPrefix(d.Settings.Address, "http") {
		return runbook.Broker
	}
	return runbook.Waiting
}

func toTheSecond(at Time) string { return time.Time(at).UTC().Format("2006-01-02 15:04:05 UTC") }

func waiting(messages int64) string {
	if messages == 1 {
		return "1 message waits"
	}
	return say.Number(messages) + " messages wait"
}
