package hookadmin

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/runbook"
	"github.com/hookonce/hookonce/internal/say"
)

// destinationsPage is the content of destinations.html.
type destinationsPage struct {
	Destinations []destinationRow
	Stale        staleness
	Unknown      bool // the database did not answer, and never has
}

// destinationRow is a destination with its figures of the last 24 hours.
type destinationRow struct {
	Destination
	Href        string
	Health, Why string
	Retry       string // the schedule, in words
	Activity    *destinationActivity
}

// destinationActivity is how a destination did in the last 24 hours.
type destinationActivity struct {
	Success  string
	P50, P95 string
	Attempts int64
	Rate     strip
	Strip    strip
}

// destinationRows returns all destinations. If the database does not answer, they lack their counts.
func (h *handling) destinationRows(r *http.Request) []destinationRow {
	stats, err := h.stats(r)
	if err != nil {
		h.logger.WarnContext(r.Context(), "counting failed; destinations are shown without their counts", slog.Any("error", err))
	}
	all := newDestinationPage(h.engine.Operator().Destinations(), stats)
	if stats != nil {
		h.addPaused(r, all)
		h.addFailures(r, all)
	}
	rows := make([]destinationRow, 0, len(all.Destinations))
	for _, d := range all.Destinations {
		row := destinationRow{Destination: d, Href: "destinations/" + url.PathEscape(d.Name)}
		if d.Settings != nil {
			row.Retry = retryInWords(d.Settings.Retry)
		}
		row.Health, row.Why = healthOf(&row)
		rows = append(rows, row)
	}
	return rows
}

// retryInWords describes a schedule: "20 attempts, from 10 s to 12 h apart".
func retryInWords(r Retry) string {
	first, last := say.BriefSeconds(r.FirstSeconds), say.BriefSeconds(r.MaxSeconds)
	switch {
	case r.Attempts <= 1:
		return "1 attempt, no retry"
	case r.Attempts == 2 || first == last:
		return say.Count(r.Attempts, "attempt") + ", up to " + first + " apart"
	}
	return say.Count(r.Attempts, "attempt") + ", from " + first + " to " + last + " apart"
}

// healthOf judges a destination, and says why.
func healthOf(d *destinationRow) (health, why string) {
	switch {
	case momentOf(d.PausedAt) != nil:
		return "paused", "Its messages wait until you resume it."
	case !d.Configured:
		return "trouble", "It is not in the settings, so its messages wait."
	case d.Circuit.Open:
		return "open", say.Count(d.Circuit.Failures, "failure") + " in a row. It gets only probes."
	case d.Pending == nil:
		return "unknown", "The database did not answer."
	case *d.Dead > 0:
		return "watch", say.Count(*d.Dead, "dead letter") + "."
	case d.Circuit.Failures > 0:
		return "watch", "The last " + strings.TrimPrefix(say.Count(d.Circuit.Failures, "attempt"), "1 ") + " failed."
	case *d.Pending+*d.Sending > 0 && late(d.OldestDue) > time.Minute:
		return "watch", "The oldest message is late."
	}
	return "working", ""
}

// judge says that a destination does not work if no attempt has succeeded lately: a gateway that has just started has
// not seen it fail.
func (d *destinationRow) judge(lately *destinationActivity) {
	if d.Health == "working" && lately != nil && lately.Attempts > 0 && lately.Success == "0%" {
		d.Health, d.Why = "watch", "No attempt of the last 24 hours succeeded."
	}
}

// entries are the entries of the runbook about its health.
func (d *destinationRow) entries() []runbook.Entry {
	switch {
	case d.Health == "working":
		return nil
	case !d.Configured:
		return []runbook.Entry{runbook.UnknownDestination}
	case d.Health == "watch" && d.Dead != nil && *d.Dead > 0:
		return []runbook.Entry{runbook.DeadLetters}
	}
	return []runbook.Entry{entryOf(&d.Destination)}
}

// late returns how long ago at was; 0 for no time.
func late(at Time) time.Duration {
	if time.Time(at).IsZero() {
		return 0
	}
	return time.Since(time.Time(at))
}

func (h *handling) showDestinations(w http.ResponseWriter, r *http.Request) {
	if _, ok := h.pageQuery(w, r, nil); !ok {
		return
	}
	now := time.Now()
	content := &destinationsPage{Destinations: h.destinationRows(r)}
	var known *map[string]*destinationActivity
	known, content.Stale = fresh(h, r, func(ctx context.Context) (*map[string]*destinationActivity, error) {
		return h.destinationActivity(ctx, "", now)
	})
	content.Unknown = known == nil
	for i := range content.Destinations {
		if row := &content.Destinations[i]; known != nil {
			row.Activity = (*known)[row.Name]
			row.judge(row.Activity)
		}
	}
	h.render(w, r, http.StatusOK, "destinations.html", &page{Title: "Destinations", Content: content, Live: &live{Every: 10}, Made: content.Stale.orNow(now)})
}

// destinationActivity reads how destinations did; a name selects one.
func (h *handler) destinationActivity(ctx context.Context, name string, now time.Time) (*map[string]*destinationActivity, error) {
	f := &driver.SeriesFilter{
		Of: driver.FigureAttempts, Resolution: driver.ByHour, Name: name, Since: driver.ByHour.Start(now.Add(-23 * time.Hour)), Until: now,
		ByName: true, Limit: maxGrouped,
	}
	series, err := h.seriesOf(ctx, []*driver.SeriesFilter{f})
	if err != nil {
		return nil, err
	}
	all := make(map[string]*destinationActivity)
	for of, points := range byName(series[0]) {
		buckets, bounds := bucketsOf(points), f.Of.Bounds()
		all[of] = &destinationActivity{
			Success: sentShare(points), P50: within(buckets, bounds, .5), P95: within(buckets, bounds, .95), Attempts: sumOf(points),
			Rate: sparkline(f, points, "attempt", "attempts"), Strip: attemptsStrip(f, points),
		}
	}
	return &all, nil
}

// destinationPage is the content of destination.html.
type destinationPage struct {
	destinationRow
	Form     form
	Span     spanChoice
	Figures  *destinationFigures // nil if the database did not answer, and never has
	Stale    staleness
	Messages string // link to its dead letters
}

// destinationFigures is the part of the page of a destination that comes from the database.
type destinationFigures struct {
	Activity *destinationActivity // nil without attempts
	Strip    strip
	Failures []Failure
	Charts   []chart
}

func (h *handling) showDestination(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	span, ok := h.chartSpan(w, r, now)
	if !ok {
		return
	}
	var row *destinationRow
	for _, d := range h.destinationRows(r) {
		if d.Name == r.PathValue("name") {
			row = &d
		}
	}
	if row == nil {
		h.fail(w, r, http.StatusNotFound, "There is no such destination: it is not in the settings, and no message waits for it.", nil)
		return
	}
	content := &destinationPage{destinationRow: *row, Span: *span, Form: h.newForm(r)}
	content.Messages = "../dead-letters" + queryOf(url.Values{"destination": {row.Name}})
	content.Figures, content.Stale = fresh(h, r, func(ctx context.Context) (*destinationFigures, error) {
		return h.destinationFigures(ctx, row.Name, span, now)
	})
	if content.Figures != nil {
		content.judge(content.Figures.Activity)
	}
	if content.Stale.Known() {
		content.Form = form{} // it would fail
	}
	h.render(w, r, http.StatusOK, "destination.html", &page{
		Title: row.Name + " · Destinations", Heading: row.Name, Up: &link{"../destinations", "Destinations"}, Content: content,
		Flash: h.takeFlash(w, r), Live: &live{Every: 10}, Charts: true, Made: content.Stale.orNow(now), See: content.entries(),
	})
}

func (h *handler) destinationFigures(ctx context.Context, name string, span *spanChoice, now time.Time) (*destinationFigures, error) {
	activity, err := h.destinationActivity(ctx, name, now)
	if err != nil {
		return nil, err
	}
	attempts, backlog := span.of(driver.FigureAttempts), span.of(driver.FigureBacklog)
	attempts.Name, backlog.Name = name, name
	series, err := h.seriesOf(ctx, []*driver.SeriesFilter{attempts, backlog})
	if err != nil {
		return nil, err
	}
	failures, err := h.failuresOf(ctx, name)
	if err != nil {
		return nil, err
	}
	waiting := onlyOf(url.Values{"of": {"backlog"}, "destination": {name}}, series[1])
	return &destinationFigures{
		Activity: (*activity)[name], Strip: attemptsStrip(attempts, series[0]), Failures: failures,
		Charts: []chart{attemptsChart(attempts, series[0]), answersOf(attempts, series[0]), backlogChart(backlog, waiting)},
	}, nil
}

// Missing reports whether the page has no figures, not even old ones.
func (p *destinationPage) Missing() bool { return p.Figures == nil }

// Missing reports whether the page has no figures, not even old ones.
func (p *destinationsPage) Missing() bool { return p.Unknown }

// actDestination retries, pauses or resumes a destination: the forms of its page.
func (h *handling) actDestination(w http.ResponseWriter, r *http.Request) {
	values := h.action(w, r, "name", "action")
	if values == nil {
		return
	}
	name := values.Get("name")
	h.logger = h.logger.With(slog.String("destination", name))
	back := "../destinations/" + url.PathEscape(name)
	ctx, cancel := changing(r)
	defer cancel()
	var err error
	var done string
	switch values.Get("action") {
	case "pause":
		done = "Paused. Its messages wait until you resume it."
		_, err = h.engine.Operator().PauseDestination(ctx, name)
	case "resume":
		done = "Resumed. Its due messages are sent."
		_, err = h.engine.Operator().ResumeDestination(ctx, name)
	case "retry":
		var n int
		var more bool
		n, more, err = h.engine.Operator().RetryDestination(ctx, name)
		done = messagesAre(n) + " due now."
		if more {
			done += " Others wait: press Retry now again."
		}
	default:
		h.fail(w, r, http.StatusBadRequest, `The form is refused: the field "action" must be pause, resume or retry. Nothing was changed.`, nil)
		return
	}
	h.counts.forget()
	if err != nil {
		h.undone(w, r, back, h.failedText(r, nil, "changing a destination", err))
		return
	}
	h.done(w, r, back, "%s", done)
}
