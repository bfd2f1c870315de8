package hookadmin

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/runbook"
	"github.com/hookonce/hookonce/internal/say"
	"github.com/hookonce/hookonce/internal/tell"
	"github.com/hookonce/hookonce/provider"
)

// sourcesPage is the content of sources.html.
type sourcesPage struct {
	Sources []sourceRow
	Stale   staleness
	Unknown bool // the database did not answer, and never has
}

// Differ reports whether the secrets of a source are elsewhere than in the settings.
func (p *sourcesPage) Differ() bool {
	return slices.ContainsFunc(p.Sources, func(s sourceRow) bool { return s.Unsigned || s.Activity != nil && s.Activity.Arming.Possible })
}

// sourceRow is a configured source, with its facts from the database.
type sourceRow struct {
	Source
	Title           string // of the provider
	Href            string
	Window, Retries string // in words; Retries is "" if not known
	Timeout         string // the provider's, in words; "" if not known
	Activity        *sourceActivity
}

// sourceActivity is how a source did in the last 24 hours.
type sourceActivity struct {
	Health, Why string   // a badge, and its reason
	Steps       []string // what to do, one after the other
	See         runbook.Entry
	Last        Time // the last delivery
	Rate        strip
	Deliveries  int64
	Refused     string // share
	P99         string
	AllRefused  bool
	SlowAnswers bool // the 99th percentile is over half the provider's time-out
	Arming      arming
	Looks       *SourceReconcile // nil without the setting reconcile
	Missed      string           // events that never arrived; "" if there were none lately
}

// arming describes whether hookonce can learn the secret of a source from its provider.
type arming struct {
	Possible bool // the provider sends its secret
	Learned  int  // secrets learned
	Until    Time
}

// specOf returns the entry of the catalog for the provider of a source.
func specOf(name provider.Name) *provider.Spec {
	spec, err := provider.Lookup(name)
	if err != nil {
		return &provider.Spec{Name: name, Title: string(name)} // no source has an unknown provider
	}
	return spec
}

func (h *handler) sourceRows() []sourceRow {
	all := h.engine.Operator().Sources()
	var rows []sourceRow
	for i, s := range NewSourcePage(all).Sources {
		spec := specOf(all[i].Provider)
		row := sourceRow{Source: s, Title: spec.Title, Href: "sources/" + url.PathEscape(s.Name), Window: inWords(seconds(s.DedupeWindowSeconds))}
		if s.ProviderRetriesSeconds > 0 {
			row.Retries = inWords(seconds(s.ProviderRetriesSeconds))
		}
		if spec.Retry.Timeout > 0 {
			row.Timeout = inWords(spec.Retry.Timeout)
		}
		rows = append(rows, row)
	}
	return rows
}

func (h *handling) showSources(w http.ResponseWriter, r *http.Request) {
	if _, ok := h.pageQuery(w, r, nil); !ok {
		return
	}
	now := time.Now()
	content := &sourcesPage{Sources: h.sourceRows()}
	var known *map[string]*sourceActivity
	known, content.Stale = fresh(h, r, func(ctx context.Context) (*map[string]*sourceActivity, error) {
		return h.activity(ctx, content.Sources, now)
	})
	content.Unknown = known == nil
	for i := range content.Sources {
		if row := &content.Sources[i]; known != nil {
			row.Activity = (*known)[row.Name]
		}
	}
	h.render(w, r, http.StatusOK, "sources.html", &page{Title: "Sources", Content: content, Live: &live{Every: 10}, Made: content.Stale.orNow(now)})
}

// activity reads how sources did.
func (h *handler) activity(ctx context.Context, rows []sourceRow, now time.Time) (*map[string]*sourceActivity, error) {
	all := make(map[string]*sourceActivity, len(rows))
	if len(rows) == 0 {
		return &all, nil
	}
	names := make([]string, len(rows))
	for i := range rows {
		names[i] = rows[i].Name
	}
	learned, err := h.store.LearnedSecrets(ctx, names)
	if err != nil {
		return nil, fmt.Errorf("reading learned secrets: %w", err)
	}
	of := func(by driver.Resolution, since time.Duration) *driver.SeriesFilter {
		f := &driver.SeriesFilter{Of: driver.FigureDeliveries, Resolution: by, Since: by.Start(now.Add(-since)), Until: now, ByName: true, Limit: maxGrouped}
		if len(names) == 1 {
			f.Name = names[0]
		}
		return f
	}
	filters := []*driver.SeriesFilter{of(driver.ByHour, 23*time.Hour), of(driver.ByMinute, time.Hour), of(driver.ByDay, driver.ByHour.Kept())}
	series, err := h.seriesOf(ctx, filters)
	if err != nil {
		return nil, err
	}
	recent, err := h.recently(ctx, now)
	if err != nil {
		return nil, err
	}
	today, hour, long := byName(series[0]), byName(series[1]), byName(series[2])
	sources := make([]Source, len(rows))
	for i := range rows {
		sources[i] = rows[i].Source
		if looks := sources[i].Reconcile; looks != nil {
			own := *looks // rows are kept
			sources[i].Reconcile = &own
		}
	}
	if err := h.addLooks(ctx, sources); err != nil {
		return nil, err
	}
	_, unavailable := h.engine.Operator().Outage()
	var wrong map[string][]driver.Point // of all sources, once one refused everything
	for i := range rows {
		name := names[i]
		a := newActivity(&rows[i], filters[0], today[name], recent[name])
		if a.AllRefused {
			if wrong == nil {
				refusals := *filters[0]
				refusals.Of, refusals.Label = driver.FigureRefusals, signatureWrong
				read, err := h.seriesOf(ctx, []*driver.SeriesFilter{&refusals})
				if err != nil {
					return nil, err
				}
				wrong = byName(read[0])
			}
			if sumOf(wrong[name]) > 0 {
				a.Why, a.See = "Every delivery of the last 24 hours was refused. Wrong secret?", runbook.Unauthorized
			}
		}
		a.Last = Time(cmp.Or(lastOf(hour[name], time.Minute, now), lastOf(today[name], time.Hour, now), lastOf(long[name], 24*time.Hour, now)))
		if a.Looks = sources[i].Reconcile; a.Looks.foundLately(now) {
			a.Missed = a.Looks.missedText()
			a.Health, a.Why, a.See = "trouble", a.Missed+" Look at the webhook's settings at the provider.", runbook.Missing
		} else if a.Looks != nil && a.Looks.Error != "" && (a.Health == "working" || a.Health == "silent") {
			a.Health, a.Why = "watch", "The provider's list of events cannot be read."
		}
		if unavailable > 0 && a.Health == "silent" {
			a.Health, a.Why, a.See = "watch", "Deliveries cannot be accepted; their figures wait for the database.", runbook.Unavailable
		}
		a.Arming = arming{Possible: h.engine.Operator().CanLearn(name), Learned: len(learned[i].Secrets)}
		if learned[i].Armed() {
			a.Arming.Until = Time(learned[i].ArmedUntil)
		}
		all[name] = a
	}
	return &all, nil
}

// newActivity sums up the deliveries of a source by the hour, and judges them.
func newActivity(s *sourceRow, f *driver.SeriesFilter, points []driver.Point, last recent) *sourceActivity {
	n, refused, failed := sumOf(points), sumOf(points, "refused"), sumOf(points, "failed", "unavailable")
	buckets := bucketsOf(points)
	a := &sourceActivity{
		Rate: sparkline(f, points, "delivery", "deliveries"), Deliveries: n, Refused: percent(refused, n), P99: within(buckets, driver.FigureDeliveries.Bounds(), .99),
	}
	spec := specOf(provider.Name(s.Provider))
	if b := bucketOf(buckets, .99); b >= 0 && spec.Retry.Timeout > 0 {
		a.SlowAnswers = placeOf(spec.Retry.Timeout/2, driver.FigureDeliveries.Bounds()) < float64(b)
	}
	switch {
	case last.rotated():
		a.Health, a.Why, a.Steps, a.See = "trouble", last.why(), afterRotation, runbook.Unauthorized
	case n > 0 && refused == n:
		a.AllRefused, a.Health, a.Why = true, "trouble", "Every delivery of the last 24 hours was refused. Look at the reasons."
	case failed > 0:
		a.Health, a.Why, a.See = "watch", countWord(failed, "delivery was", "deliveries were")+" answered 5xx. The provider repeats them.", runbook.Unavailable
	case s.shortWindow():
		a.Health, a.Why, a.See = "watch", "The provider retries for longer than the dedupe window.", runbook.Twice
	case a.SlowAnswers:
		a.Health, a.Why, a.See = "watch", "Answers take over half of the provider's time-out.", runbook.Slow
	case refused*20 > n:
		a.Health, a.Why, a.See = "watch", a.Refused+" of the deliveries were refused.", runbook.Unauthorized
	case s.Unsigned:
		a.Health, a.Why = "watch", "Requests are not verified."
	case n == 0:
		a.Health, a.Why = "silent", "No deliveries in the last 24 hours."
	default:
		a.Health, a.Why = "working", ""
	}
	return a
}

// sourcePage is the content of source.html.
type sourcePage struct {
	sourceRow
	URL     string
	Full    bool   // URL is one that senders elsewhere can reach
	Path    string // of URL
	Send    string
	Spec    *provider.Spec
	Span    spanChoice
	Figures *sourceFigures // nil if the database did not answer, and never has
	Stale   staleness
	Events  string // link to its events
	Told    string // link to its refused requests
}

// Sender names the sender in a sentence.
func (p *sourcePage) Sender() string {
	if p.Spec.Docs == "" { // any HMAC sender, for example
		return "the sender"
	}
	return p.Title
}

// Arm is the command that lets the source take a secret.
func (p *sourcePage) Arm() string { return "hookonce sources arm " + p.Name }

// entries are the entries of the runbook about its health.
func (p *sourcePage) entries() []runbook.Entry {
	if p.Figures == nil || p.Figures.Activity == nil || p.Figures.Activity.See == "" {
		return nil
	}
	return []runbook.Entry{p.Figures.Activity.See}
}

// sourceFigures is the part of the page of a source that comes from the database.
type sourceFigures struct {
	Activity *sourceActivity
	Charts   []chart
	Refusals []reasonCount
}

// reasonCount is how often a source refused for a reason.
type reasonCount struct {
	Reason string
	N      string
}

func (h *handling) showSource(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	span, ok := h.chartSpan(w, r, now)
	if !ok {
		return
	}
	rows := h.sourceRows()
	at := slices.IndexFunc(rows, func(s sourceRow) bool { return s.Name == r.PathValue("name") })
	if at < 0 {
		h.fail(w, r, http.StatusNotFound, "There is no such source in the settings.", nil)
		return
	}
	row, status := &rows[at], h.engine.Operator().Sources()[at]
	content := &sourcePage{
		sourceRow: *row, URL: h.webhookURL(row.Name), Path: "/webhooks/" + url.PathEscape(row.Name), Full: h.public(), Send: h.sendCommand(&status), Span: *span, Spec: specOf(status.Provider),
	}
	content.Events = "../events" + queryOf(url.Values{"source": {row.Name}})
	content.Told = "../refused" + queryOf(url.Values{"source": {row.Name}, "since": {"24h"}})
	content.Figures, content.Stale = fresh(h, r, func(ctx context.Context) (*sourceFigures, error) {
		return h.sourceFigures(ctx, row, span, now)
	})
	h.render(w, r, http.StatusOK, "source.html", &page{
		Title: row.Name + " · Sources", Heading: row.Name, Up: &link{"../sources", "Sources"}, Content: content,
		Live: &live{Every: 10}, Charts: true, Made: content.Stale.orNow(now), See: content.entries(),
	})
}

func (h *handler) sourceFigures(ctx context.Context, row *sourceRow, span *spanChoice, now time.Time) (*sourceFigures, error) {
	activity, err := h.activity(ctx, []sourceRow{*row}, now)
	if err != nil {
		return nil, err
	}
	named := func(kind driver.FigureKind) *driver.SeriesFilter {
		f := span.of(kind)
		f.Name = row.Name
		return f
	}
	// Late duplicates are rare: the histogram covers all that is kept by the hour.
	late := named(driver.FigureDuplicates)
	late.Resolution, late.Since, late.Until = driver.ByDay, driver.ByDay.Start(now.Add(-driver.ByHour.Kept())), now
	filters := []*driver.SeriesFilter{named(driver.FigureDeliveries), named(driver.FigureRefusals), late}
	series, err := h.seriesOf(ctx, filters)
	if err != nil {
		return nil, err
	}
	timeout := h.firstTimeout(row.Name)
	all := &sourceFigures{Activity: (*activity)[row.Name], Charts: []chart{
		deliveriesChart(filters[0], series[0]), answersChart(filters[0], series[0], timeout),
		latenessChart(series[2], seconds(row.DedupeWindowSeconds)),
	}}
	for _, reason := range tell.Reasons() {
		if n := sumOf(series[1], reason); n > 0 {
			all.Refusals = append(all.Refusals, reasonCount{reason, say.Number(n)})
		}
	}
	return all, nil
}

// Missing reports whether the page has no figures, not even old ones.
func (p *sourcePage) Missing() bool { return p.Figures == nil }

// Missing reports whether the page has no figures, not even old ones.
func (p *sourcesPage) Missing() bool { return p.Unknown }
