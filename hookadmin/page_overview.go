package hookadmin

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/say"
)

// overviewPage is the content of overview.html.
type overviewPage struct {
	Warnings []warning
	Figures  *overviewFigures // nil if the database did not answer, and never has
	Stale    staleness        // of the figures
	Span     spanChoice
}

// overviewFigures is the part of the overview that comes from the database.
type overviewFigures struct {
	Story    string
	Cards    []figure
	Charts   []chart
	Strips   []destinationStrip
	Failures []DeadLetter
	Send     string // the command to begin with; "" if there were deliveries, or no source
	Bare     bool   // there is no source
}

// figure is a number and its explanation.
type figure struct {
	Name    string
	Count   string
	About   string
	Href    string // the page that lists them
	Since   Time   // time of the oldest item
	Oldest  string // label of Since
	Trouble bool   // somebody has to act
}

// destinationStrip is the strip of one destination.
type destinationStrip struct {
	Name, Href string
	Strip      strip
	Sent       string // share of attempts
}

// spanParameters are the parameters of pages with charts, besides those of all pages.
var (
	spanParameters      = []string{"since", "until"}
	chartPageParameters = slices.Concat(spanParameters, pageParameters)
)

// spanChoice is the span of time of the charts of a page, with links to others.
type spanChoice struct {
	Links  []spanLink
	Chosen string // the span in words
	filter driver.SeriesFilter
}

var spanNames = []struct{ value, name string }{{"1h", "1 h"}, {"6h", "6 h"}, {"24h", "24 h"}, {"7d", "7 d"}, {"30d", "30 d"}}

// chartSpan reads the span of the charts of a page, or answers with an error and returns false.
func (h *handling) chartSpan(w http.ResponseWriter, r *http.Request, now time.Time) (*spanChoice, bool) {
	values, ok := h.pageQuery(w, r, spanParameters)
	if !ok {
		return nil, false
	}
	c, err := parseChartSpan(values, now)
	if err != nil {
		h.fail(w, r, http.StatusBadRequest, err.Error(), nil)
		return nil, false
	}
	return c, true
}

func parseChartSpan(values url.Values, now time.Time) (*spanChoice, error) {
	given := url.Values{"of": {"deliveries"}}
	for _, name := range spanParameters {
		given[name] = values[name]
	}
	f, err := ParseSeriesFilter(given, now)
	if err != nil {
		return nil, err
	}
	c := &spanChoice{filter: *f}
	chosen := values.Get("since")
	if chosen == "" && values.Get("until") == "" {
		chosen = spanNames[0].value
	}
	known := false
	for _, s := range spanNames {
		current := chosen == s.value && values.Get("until") == ""
		known = known || current
		to := url.Values{"since": {s.value}}
		if refresh := values.Get("refresh"); refresh != "" {
			to.Set("refresh", refresh)
		}
		c.Links = append(c.Links, spanLink{link{"?" + to.Encode(), s.name}, current})
	}
	if !known {
		c.Chosen = f.Since.Format("2006-01-02 15:04") + " to " + f.Until.UTC().Format("2006-01-02 15:04 UTC")
	}
	return c, nil
}

// of returns the filter of another kind of figures in the span of c.
func (c *spanChoice) of(kind driver.FigureKind) *driver.SeriesFilter {
	f := c.filter
	f.Of = kind
	return &f
}

func (h *handling) showOverview(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	span, ok := h.chartSpan(w, r, now)
	if !ok {
		return
	}
	stats, err := h.counts.soon(r.Context())
	if err != nil {
		h.logger.WarnContext(r.Context(), "counting failed; the overview has no counts", slog.Any("error", err))
	}
	content := &overviewPage{Span: *span}
	content.Figures, content.Stale = fresh(h, r, func(ctx context.Context) (*overviewFigures, error) {
		if err != nil {
			return nil, err
		}
		return h.overviewFigures(ctx, stats, span, now)
	})
	content.Warnings = h.allWarnings(r, stats, content.Stale.Why)
	p := &page{Title: "Overview", Content: content, Live: &live{Every: 10}, Charts: true, Made: content.Stale.orNow(now)}
	if err == nil && stats == nil && content.Stale.Why == "" {
		p.Live.Every, p.Watched = 2, true // the count goes on
	}
	h.render(w, r, http.StatusOK, "overview.html", p)
}

// overviewFigures reads the figures. counted is nil while the work is still being counted.
func (h *handler) overviewFigures(ctx context.Context, counted *driver.Stats, span *spanChoice, now time.Time) (*overviewFigures, error) {
	byDay := func(kind driver.FigureKind) *driver.SeriesFilter {
		return &driver.SeriesFilter{Of: kind, Resolution: driver.ByHour, Since: driver.ByHour.Start(now.Add(-23 * time.Hour)), Until: now, Limit: maxPoints}
	}
	attempts := span.of(driver.FigureAttempts)
	attempts.ByName, attempts.Limit = true, maxGrouped
	filters := []*driver.SeriesFilter{
		span.of(driver.FigureDeliveries), attempts, span.of(driver.FigureBacklog), byDay(driver.FigureDeliveries), byDay(driver.FigureAttempts),
	}
	series, err := h.seriesOf(ctx, filters)
	if err != nil {
		return nil, err
	}
	dead, err := h.store.DeadLetters(ctx, &driver.MessageFilter{Limit: 5})
	if err != nil {
		return nil, fmt.Errorf("reading the newest failures: %w", err)
	}
	all := &overviewFigures{
		Story: story(series[3], series[4], len(h.engine.Operator().Destinations()) > 0, now),
		Charts: []chart{
			deliveriesChart(filters[0], series[0]), answersChart(filters[0], series[0], h.firstTimeout("")), backlogChart(filters[2], series[2]),
		},
	}
	if counted != nil {
		stats := newStats(counted)
		all.Story, all.Cards = all.Story+" "+deadNow(stats), figures(stats)
	} else {
		all.Cards = figures(&Stats{})
		for i := range all.Cards {
			all.Cards[i].Count = "…"
		}
	}
	if sum := sumOf(series[3]); sum == 0 {
		if _, answered := h.engine.Operator().Outage(); answered > 0 { // a full disk takes no figures
			all.Story = countWord(answered, "delivery", "deliveries") + " answered 503; their figures wait for the database."
		} else if sources := h.engine.Operator().Sources(); len(sources) > 0 {
			all.Send = h.sendCommand(&sources[0])
		} else {
			all.Bare = true
		}
	}
	attempted := byName(series[1])
	for _, d := range h.engine.Operator().Destinations() {
		of := attempted[d.Name]
		all.Strips = append(all.Strips, destinationStrip{
			Name: d.Name, Href: "destinations/" + url.PathEscape(d.Name), Strip: attemptsStrip(attempts, of), Sent: sentShare(of),
		})
	}
	all.Failures = NewDeadLetterPage(dead).DeadLetters
	return all, nil
}

// maxGrouped bounds the points of series by name.
const maxGrouped = 100_000

// seriesOf reads several series.
func (h *handler) seriesOf(ctx context.Context, filters []*driver.SeriesFilter) ([][]driver.Point, error) {
	all := make([][]driver.Point, len(filters))
	for i, f := range filters {
		points, err := h.store.Series(ctx, f)
		if err != nil {
			return nil, fmt.Errorf("reading figures: %w", err)
		}
		all[i] = points[:min(len(points), f.Limit)]
	}
	return all, nil
}

// story says in one sentence how the last 24 hours went.
func story(deliveries, attempts []driver.Point, sends bool, now time.Time) string {
	all := sumOf(deliveries)
	if all == 0 {
		return "No deliveries in the last 24 hours."
	}
	parts := []string{countWord(all, "delivery", "deliveries"), say.Number(sumOf(deliveries, "ok")) + " new"}
	if n := sumOf(deliveries, "duplicate"); n > 0 {
		parts[1] += " (" + countWord(n, "duplicate", "duplicates") + " absorbed)"
	}
	if sends {
		sent := say.Number(sumOf(attempts, "sent")) + " sent"
		if died := sumOf(attempts, "dead"); died > 0 {
			sent += " · " + say.Number(died) + " failed for good"
		}
		parts = append(parts, sent)
	}
	text := strings.Join(parts, " → ")
	if refused := sumOf(deliveries, "refused"); refused > 0 {
		text += " · " + say.Number(refused) + " refused"
	}
	if unavailable := sumOf(deliveries, "unavailable"); unavailable > 0 {
		text += " · " + say.Number(unavailable) + " answered 503"
	}
	return text + ", since " + driver.ByHour.Start(now.Add(-23*time.Hour)).Format("Monday 15:04 UTC") + "."
}

// deadNow says how many are dead now: some that died were replayed or discarded, and others are older.
func deadNow(s *Stats) string {
	switch s.DeadLetters {
	case 0:
		return "Nothing is dead now."
	case 1:
		return "1 is dead now."
	}
	return s.shown("dead_letters", s.DeadLetters) + " are dead now."
}

func countWord(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return say.Number(n) + " " + many
}

func sentShare(points []driver.Point) string {
	sent := sumOf(points, "sent")
	return percent(sent, sent+sumOf(points, "retry", "dead"))
}

func figures(s *Stats) []figure {
	return []figure{
		{
			Name: "Dead letters", Count: s.shown("dead_letters", s.DeadLetters), Trouble: s.DeadLetters > 0, Href: "dead-letters",
			About: "Out of attempts, or failed for good. They stay until you replay or discard them.",
		},
		{
			Name: "Events pending", Count: s.shown("events_pending", s.EventsPending), Href: "events?state=" + driver.StatePending,
			About:  "Wait for a handler or an SQL consumer.",
			Oldest: "Oldest due", Since: s.OldestPendingAt,
		},
		{
			Name: "Messages pending", Count: s.shown("messages_pending", s.MessagesPending), Href: "destinations",
			About:  "Wait for their next attempt.",
			Oldest: "First due", Since: s.OldestDueAt,
		},
		{Name: "Messages being sent", Count: s.shown("messages_sending", s.MessagesSending), Href: "destinations", About: "On their way to their destination."},
		{
			Name: "Quarantined", Count: s.shown("quarantined", s.Quarantined), Trouble: s.Quarantined > 0, Href: "quarantine",
			About: "Verified requests without a usable event.",
		},
	}
}

// firstTimeout returns how long the provider of a source waits for an answer; "" means the least
// patient one of all sources. 0 means that none is known.
func (h *handler) firstTimeout(source string) (first time.Duration) {
	for _, s := range h.engine.Operator().Sources() {
		spec := specOf(s.Provider)
		if (source == "" || s.Name == source) && spec.Retry.Timeout > 0 && (first == 0 || spec.Retry.Timeout < first) {
			first = spec.Retry.Timeout
		}
	}
	return first
}

// Missing reports whether the page has no figures, not even old ones.
func (p *overviewPage) Missing() bool { return p.Figures == nil }
