package hookadmin

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/hookonce/hookonce/driver"
)

const (
	// lastEventsTimeout bounds the look-ups of the newest events of all sources, and
	// lastEventTimeout that of one. They are by time received: where a source has had
	// nothing for long, all that others have had since is passed by.
	lastEventsTimeout = 2 * time.Second
	lastEventTimeout  = 500 * time.Millisecond
)

// overviewPage is what overview.html shows.
type overviewPage struct {
	Warnings []warning
	Figures  []figure // none where the database did not answer
	Made     moment
}

// figure is a number with what it counts.
type figure struct {
	Name    string
	Count   string
	About   string
	Since   moment // of the oldest
	Oldest  string // what of the oldest Since tells
	Trouble bool   // anything but 0 asks for somebody
}

func (h *handler) showOverview(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	stats, err := h.stats(r)
	if err != nil {
		h.logger.WarnContext(r.Context(), "the overview is shown without its figures", slog.Any("error", err))
	}
	content := &overviewPage{Warnings: h.allWarnings(stats), Made: moment{now, now}}
	if stats != nil {
		content.Figures = figures(newStats(stats), now)
	}
	h.render(w, r, http.StatusOK, "overview.html", &page{Title: "Overview", Content: content})
}

func figures(s *Stats, now time.Time) []figure {
	return []figure{
		{
			Name: "Dead letters", Count: grouped(s.DeadLetters), Trouble: s.DeadLetters > 0,
			About: "Events and messages that are out of attempts, or failed for good. They stay until somebody replays or discards them.",
		},
		{
			Name: "Events pending", Count: grouped(s.EventsPending),
			About:  "Events that wait for a handler or an SQL consumer.",
			Oldest: "Oldest due", Since: moment{time.Time(s.OldestPendingAt), now},
		},
		{
			Name: "Messages pending", Count: grouped(s.MessagesPending),
			About:  "Messages to destinations that wait for their next attempt.",
			Oldest: "First due", Since: moment{time.Time(s.OldestDueAt), now},
		},
		{Name: "Messages being sent", Count: grouped(s.MessagesSending), About: "Messages that are under way to their destination."},
		{
			Name: "Quarantined", Count: grouped(s.Quarantined), Trouble: s.Quarantined > 0,
			About: "Verified requests without a usable event.",
		},
	}
}

// sourcesPage is what sources.html shows.
type sourcesPage struct {
	Sources []sourceRow
	Unknown bool // the database did not answer: what it knows is missing
	Made    moment
}

// sourceRow is a source as it is set up, and what the database knows of it.
type sourceRow struct {
	Source
	Window, Retries string // in words; of Retries "" where it is not known
	LastEvent       lastEvent
	Arming          arming
}

// lastEvent tells when the newest event of a source was received.
type lastEvent struct {
	At      moment // not known: there is none
	Skipped bool   // it could not be found in time
}

// arming tells of a source whose provider hands its secret over.
type arming struct {
	Possible bool // its provider does
	Learned  int  // secrets that it handed over
	Until    moment
}

func (h *handler) showSources(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	content := &sourcesPage{Made: moment{now, now}}
	for _, s := range NewSourcePage(h.engine.Sources()).Sources {
		row := sourceRow{Source: s, Window: inWords(seconds(s.DedupeWindowSeconds))}
		if s.ProviderRetriesSeconds > 0 {
			row.Retries = inWords(seconds(s.ProviderRetriesSeconds))
		}
		row.Arming.Possible = h.engine.CanLearn(s.Name)
		content.Sources = append(content.Sources, row)
	}
	// How sources are set up is shown without a database, too.
	if err := h.addStored(r, content.Sources, now); err != nil {
		content.Unknown = true
		h.logger.WarnContext(r.Context(), "sources are shown without what the database knows of them", slog.Any("error", err))
	}
	h.render(w, r, http.StatusOK, "sources.html", &page{Title: "Sources", Content: content})
}

// addStored adds to rows what the database knows of them.
func (h *handler) addStored(r *http.Request, rows []sourceRow, now time.Time) error {
	if len(rows) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), queryTimeout)
	defer cancel()
	names := make([]string, len(rows))
	for i := range rows {
		names[i] = rows[i].Name
	}
	learned, err := h.store.LearnedSecrets(ctx, names)
	if err != nil {
		return fmt.Errorf("reading learned secrets: %w", err)
	}
	for i := range rows {
		rows[i].Arming.Learned = len(learned[i].Secrets)
		if learned[i].Armed() {
			rows[i].Arming.Until = moment{learned[i].ArmedUntil, now}
		}
	}
	return h.addLastEvents(ctx, rows, now)
}

func (h *handler) addLastEvents(ctx context.Context, rows []sourceRow, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, lastEventsTimeout)
	defer cancel()
	for i := range rows {
		found, err := h.newestOf(ctx, rows[i].Name)
		switch {
		case err != nil && passes(err):
			rows[i].LastEvent.Skipped = true
		case err != nil:
			return fmt.Errorf("looking for the newest event of source %q: %w", rows[i].Name, err)
		case len(found) > 0:
			rows[i].LastEvent.At = moment{found[0].ReceivedAt, now}
		}
	}
	return nil
}

func (h *handler) newestOf(ctx context.Context, source string) ([]driver.Event, error) {
	ctx, cancel := context.WithTimeout(ctx, lastEventTimeout)
	defer cancel()
	found, err := h.store.Events(ctx, &driver.EventFilter{Source: source, Limit: 1})
	if err != nil {
		return nil, err
	}
	return found.Events, nil
}
