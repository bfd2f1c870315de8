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
	// lastEventTimeout that of one source. The database looks through events by time received, so a
	// source that had no event for a long time is slow to look up.
	lastEventsTimeout = 2 * time.Second
	lastEventTimeout  = 500 * time.Millisecond
)

// overviewPage is the content of overview.html.
type overviewPage struct {
	Warnings []warning
	Figures  []figure // empty if the database did not answer
}

// figure is a number and its explanation.
type figure struct {
	Name    string
	Count   string
	About   string
	Since   moment // time of the oldest item
	Oldest  string // label of Since
	Trouble bool   // somebody has to act
}

func (h *handler) showOverview(w http.ResponseWriter, r *http.Request) {
	if _, ok := h.pageQuery(w, r, nil); !ok {
		return
	}
	now := time.Now()
	stats, err := h.stats(r)
	if err != nil {
		h.logger.WarnContext(r.Context(), "counting failed; the overview has no figures", slog.Any("error", err))
	}
	content := &overviewPage{Warnings: h.allWarnings(stats)}
	if stats != nil {
		content.Figures = figures(newStats(stats), now)
	}
	h.render(w, r, http.StatusOK, "overview.html", &page{Title: "Overview", Content: content, Live: &live{Every: 10}, Made: moment{now, now}})
}

func figures(s *Stats, now time.Time) []figure {
	return []figure{
		{
			Name: "Dead letters", Count: s.shown("dead_letters", s.DeadLetters), Trouble: s.DeadLetters > 0,
			About: "Events and messages that are out of attempts or failed for good. They stay until you replay or discard them.",
		},
		{
			Name: "Events pending", Count: s.shown("events_pending", s.EventsPending),
			About:  "Events that wait for a handler or an SQL consumer.",
			Oldest: "Oldest due", Since: moment{time.Time(s.OldestPendingAt), now},
		},
		{
			Name: "Messages pending", Count: s.shown("messages_pending", s.MessagesPending),
			About:  "Messages to destinations that wait for their next attempt.",
			Oldest: "First due", Since: moment{time.Time(s.OldestDueAt), now},
		},
		{Name: "Messages being sent", Count: s.shown("messages_sending", s.MessagesSending), About: "Messages that are on their way to their destination."},
		{
			Name: "Quarantined", Count: s.shown("quarantined", s.Quarantined), Trouble: s.Quarantined > 0,
			About: "Verified requests without a usable event.",
		},
	}
}

// sourcesPage is the content of sources.html.
type sourcesPage struct {
	Sources []sourceRow
	Unknown bool // the database did not answer, so the rows lack its part
}

// sourceRow is a configured source, with its facts from the database.
type sourceRow struct {
	Source
	Window, Retries string // in words; Retries is "" if not known
	LastEvent       lastEvent
	Arming          arming
}

// lastEvent is the time when the newest event of a source was received.
type lastEvent struct {
	At      moment // unknown time: no event
	Skipped bool   // the look-up took too long
}

// arming describes whether hookonce can learn the secret of a source from its provider.
type arming struct {
	Possible bool // the provider sends its secret
	Learned  int  // secrets learned
	Until    moment
}

func (h *handler) showSources(w http.ResponseWriter, r *http.Request) {
	if _, ok := h.pageQuery(w, r, nil); !ok {
		return
	}
	now := time.Now()
	content := &sourcesPage{}
	for _, s := range NewSourcePage(h.engine.Sources()).Sources {
		row := sourceRow{Source: s, Window: inWords(seconds(s.DedupeWindowSeconds))}
		if s.ProviderRetriesSeconds > 0 {
			row.Retries = inWords(seconds(s.ProviderRetriesSeconds))
		}
		row.Arming.Possible = h.engine.CanLearn(s.Name)
		content.Sources = append(content.Sources, row)
	}
	// The configured sources are shown even without the database.
	if err := h.addStored(r, content.Sources, now); err != nil {
		content.Unknown = true
		h.logger.WarnContext(r.Context(), "reading sources from the database failed; the page shows only their settings", slog.Any("error", err))
	}
	h.render(w, r, http.StatusOK, "sources.html", &page{Title: "Sources", Content: content, Live: &live{Every: 10}, Made: moment{now, now}})
}

// addStored fills the rows with facts from the database.
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
