package hookadmin

import (
	"fmt"

	"github.com/hookonce/hookonce/driver"
)

// warning is something that works, and that somebody should look at.
type warning struct {
	Kind   string
	Text   string
	Advice string // what to do about it; "" where the text says it
	Grave  bool   // events may be forged, lost from sight, or take effect twice
}

// shortWindow reports whether s forgets events while their sender still repeats
// them.
func (s *Source) shortWindow() bool { return s.DedupeWindowSeconds < s.ProviderRetriesSeconds }

// ShortWindow is shortWindow for templates.
func (s sourceRow) ShortWindow() bool { return s.shortWindow() }

// allWarnings returns all that is to be warned of, grave ones first; stats is nil
// where it is not known.
func (h *handler) allWarnings(stats *driver.Stats) []warning {
	sources := NewSourcePage(h.engine.Sources()).Sources
	all := append(warningsOfSources(sources), warningsOfDestinations(newDestinationPage(h.engine.Destinations(), stats).Destinations)...)
	for _, text := range h.warnings() {
		all = append(all, warning{Kind: "Settings", Text: text})
	}
	return all
}

func warningsOfSources(sources []Source) []warning {
	var all []warning
	for i := range sources {
		s := &sources[i]
		if s.Unsigned {
			all = append(all, warning{
				Kind: "Unsigned", Grave: true,
				Text:   fmt.Sprintf("Nothing that is sent to the source %s is verified: whoever reaches it can make up events.", s.Name),
				Advice: "Choose a provider or a scheme that signs, or let nobody but the sender reach it.",
			})
		}
		if s.shortWindow() {
			retries := inWords(seconds(s.ProviderRetriesSeconds))
			all = append(all, warning{
				Kind: "Short dedupe window", Grave: true,
				Text: fmt.Sprintf("The dedupe window of the source %s (%s) is shorter than how long %s retries (%s): a late retry takes effect again.",
					s.Name, inWords(seconds(s.DedupeWindowSeconds)), s.Provider, retries),
				Advice: fmt.Sprintf("Make its dedupe window at least %s, or leave it out.", retries),
			})
		}
	}
	return all
}

func warningsOfDestinations(destinations []Destination) []warning {
	var all []warning
	for i := range destinations {
		d := &destinations[i]
		switch {
		case !d.Configured && *d.Pending+*d.Sending > 0:
			all = append(all, warning{
				Kind:   "Unknown destination",
				Text:   fmt.Sprintf("%s for the destination %s, which is not in the settings.", waiting(*d.Pending+*d.Sending), d.Name),
				Advice: "Nothing is sent until it is back under its name.",
			})
		case d.Circuit != nil && d.Circuit.Open:
			all = append(all, warning{
				Kind: "Circuit open",
				Text: fmt.Sprintf("The destination %s failed %s in a row, and has been left alone but for probes since %s.",
					d.Name, countOf(int64(d.Circuit.Failures), "time"), d.Circuit.Since),
			})
		}
	}
	return all
}

func waiting(messages int64) string {
	if messages == 1 {
		return "1 message waits"
	}
	return grouped(messages) + " messages wait"
}
