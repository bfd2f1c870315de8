package hookadmin

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/say"
	"github.com/hookonce/hookonce/internal/tell"
)

const (
	// maxSpans bounds the spans from since to until: 48 hours of minutes, which is all that is kept.
	maxSpans = 2880
	// maxPoints bounds the points of all series of an answer: every outcome of deliveries in each of those minutes.
	maxPoints = 30_000
)

var seriesParameters = []string{"of", "source", "destination", "outcome", "reason", "type", "by", "resolution", "since", "until"}

// figureKind is a kind of figures, as the parameters name it.
type figureKind struct {
	kind   driver.FigureKind
	names  []string        // the parameters that select a source or a destination; at most one is given
	label  string          // the parameter that selects one series; "" for none
	labels func() []string // all series; nil if there is no list
	last   time.Duration   // the default from since to until
}

var (
	figureNames = []string{"deliveries", "refusals", "attempts", "duplicates", "backlog", "types"} // the index is the driver.FigureKind
	figureKinds = map[string]*figureKind{
		"deliveries": {driver.FigureDeliveries, []string{"source"}, "outcome", tell.DeliveryOutcomes, time.Hour},
		"refusals":   {driver.FigureRefusals, []string{"source"}, "reason", tell.Reasons, time.Hour},
		"attempts":   {driver.FigureAttempts, []string{"destination"}, "outcome", tell.MessageOutcomes, time.Hour},
		"duplicates": {driver.FigureDuplicates, []string{"source"}, "", nil, 24 * time.Hour},
		"backlog":    {driver.FigureBacklog, []string{"source", "destination"}, "", nil, time.Hour},
		"types":      {driver.FigureTypes, []string{"source"}, "type", nil, 24 * time.Hour},
	}
	resolutionNames = []string{"minute", "hour", "day"} // the index is the driver.Resolution
)

func (h *handling) showSeries(w http.ResponseWriter, r *http.Request) {
	values, ok := h.query(w, r)
	if !ok {
		return
	}
	filter, err := ParseSeriesFilter(values, time.Now())
	if err != nil {
		h.fail(w, r, http.StatusBadRequest, err.Error(), nil)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), queryTimeout)
	defer cancel()
	points, err := h.store.Series(ctx, filter)
	switch {
	case err != nil:
		h.failStore(w, r, fmt.Errorf("reading figures: %w", err))
	case len(points) > filter.Limit:
		h.fail(w, r, http.StatusBadRequest, fmt.Sprintf("since: there are more than %d points; "+
			"choose a later since, a coarser resolution, or one source, destination, outcome, reason or type", filter.Limit), nil)
	default:
		writeJSON(w, newSeries(filter, onlyOf(values, points)))
	}
}

// onlyOf returns the points of the backlog that belong to a source, or to a destination, if one is
// given: both may have one name.
func onlyOf(values url.Values, points []driver.Point) []driver.Point {
	return slices.DeleteFunc(points, func(p driver.Point) bool {
		if values.Get("of") != "backlog" {
			return false
		}
		isEvents := p.Label == driver.BacklogEvents || p.Label == driver.BacklogEventsAge
		return values.Get("source") != "" && !isEvents || values.Get("destination") != "" && isEvents
	})
}

// ParseSeriesFilter reads the parameters of GET /api/v1/series, as ParseFilter does. of is required.
func ParseSeriesFilter(values url.Values, now time.Time) (*driver.SeriesFilter, error) {
	if err := checkParameters(values, seriesParameters); err != nil {
		return nil, err
	}
	of := figureKinds[values.Get("of")]
	if of == nil {
		return nil, &ParameterError{"of", fmt.Sprintf("%q is no kind of figures; use %s", values.Get("of"), strings.Join(figureNames, ", "))}
	}
	f, err := of.parse(values)
	if err != nil {
		return nil, err
	}
	if of.labels != nil && f.Label != "" && !slices.Contains(of.labels(), f.Label) {
		return nil, &ParameterError{of.label, fmt.Sprintf("%q is unknown; use %s", f.Label, strings.Join(of.labels(), ", "))}
	}
	if f.Since, f.Until, err = parseSpan(values.Get("since"), values.Get("until"), now); err != nil {
		return nil, err
	}
	if f.Until.IsZero() {
		f.Until = now
	}
	if f.Since.IsZero() {
		f.Since = f.Until.Add(-of.last)
	}
	if !f.Since.Before(f.Until) {
		return nil, &ParameterError{"since", "must be earlier than until, which is now by default"}
	}
	if f.Resolution, err = parseResolution(values.Get("resolution"), f, now); err != nil {
		return nil, err
	}
	// Compares before rounding down: the first span may begin before since. A client's own time has no fraction of a second.
	longest := maxSpans * f.Resolution.Span()
	if f.Until.Sub(f.Since) >= longest+time.Second {
		return nil, &ParameterError{"since", fmt.Sprintf("more than %d spans of one %s (%s) before until; choose a later since or a coarser resolution",
			maxSpans, resolutionNames[f.Resolution], say.Setting(longest))}
	}
	f.Since = f.Resolution.Start(f.Since)
	return f, nil
}

// parse reads the parameters that select figures of a kind, but not their time.
func (of *figureKind) parse(values url.Values) (*driver.SeriesFilter, error) {
	takes := of.names
	if of.label != "" {
		takes = append(slices.Clone(takes), of.label)
	}
	f := &driver.SeriesFilter{Of: of.kind, Limit: maxPoints}
	for _, name := range []string{"source", "destination", "outcome", "reason", "type"} {
		value := values.Get(name)
		switch {
		case value == "":
		case !slices.Contains(takes, name):
			return nil, &ParameterError{name, fmt.Sprintf("not a parameter of of=%s, which takes %s", values.Get("of"), strings.Join(takes, " and "))}
		case name == of.label:
			f.Label = value
		case f.Name != "":
			return nil, &ParameterError{name, "given together with " + of.names[0] + "; choose one"}
		default:
			f.Name = value
		}
	}
	switch by := values.Get("by"); {
	case by == "":
	case len(of.names) == 1 && by == of.names[0]:
		f.ByName = true
	default:
		return nil, &ParameterError{"by", fmt.Sprintf("%q does not group of=%s; use source for deliveries, refusals, duplicates and types, destination for attempts",
			by, values.Get("of"))}
	}
	return f, nil
}

// parseResolution reads a resolution. "" and "auto" choose the finest one that is kept since then and
// has a number of spans that a chart can show.
func parseResolution(s string, f *driver.SeriesFilter, now time.Time) (driver.Resolution, error) {
	named := slices.Index(resolutionNames, s)
	hourly := f.Of == driver.FigureTypes
	switch {
	case named >= 0 && hourly && driver.Resolution(named) != driver.ByHour:
		return 0, &ParameterError{"resolution", "figures of types exist by the hour; use hour or auto"}
	case named >= 0:
		return driver.Resolution(named), nil
	case s != "" && s != "auto":
		return 0, &ParameterError{"resolution", fmt.Sprintf("%q is no resolution; use auto, %s", s, strings.Join(resolutionNames, ", "))}
	case hourly:
		return driver.ByHour, nil
	}
	const chart = 400 // spans
	for _, r := range []driver.Resolution{driver.ByMinute, driver.ByHour} {
		if f.Until.Sub(f.Since) <= chart*r.Span() && now.Sub(f.Since) <= r.Kept() {
			return r, nil
		}
	}
	return driver.ByDay, nil
}

// SeriesPage is the answer of GET /api/v1/series.
type SeriesPage struct {
	Of         string `json:"of"`
	Resolution string `json:"resolution"`
	Since      Time   `json:"since"` // the beginning of the first span
	Until      Time   `json:"until"`
	// BoundsSeconds are the upper bounds of the buckets, each included; the last bucket has none.
	// Empty for figures without durations.
	BoundsSeconds []float64 `json:"bounds_seconds"`
	Series        []Series  `json:"series"` // by group and name
}

// Series is one outcome, reason or type over time. Duplicates have one series, with the name "". Those
// of the backlog are events, events_age, messages and messages_age; the ages are in seconds.
type Series struct {
	Group  string        `json:"group,omitempty"` // with by: the source or destination
	Name   string        `json:"name"`
	Points []SeriesPoint `json:"points"` // oldest first; spans without any are left out
}

// SeriesPoint is the sum of one span; of the backlog, the most that was seen in it.
type SeriesPoint struct {
	At      Time      `json:"at"` // the beginning of the span
	N       int64     `json:"n,string"`
	Buckets []decimal `json:"buckets"` // how many of N had which duration; empty without durations
}

// decimal is an integer of 64 bits as the API prints it: a string.
type decimal int64

// MarshalJSON implements json.Marshaler.
func (d decimal) MarshalJSON() ([]byte, error) {
	return strconv.AppendQuote(nil, strconv.FormatInt(int64(d), 10)), nil
}

func newSeries(f *driver.SeriesFilter, points []driver.Point) SeriesPage {
	page := SeriesPage{
		Of: figureNames[f.Of], Resolution: resolutionNames[f.Resolution], Since: Time(f.Since), Until: Time(f.Until),
		BoundsSeconds: []float64{}, Series: []Series{},
	}
	bounds := f.Of.Bounds()
	for _, b := range bounds {
		page.BoundsSeconds = append(page.BoundsSeconds, b.Seconds())
	}
	place := make(map[[2]string]int) // in page.Series
	for i := range points {
		p := &points[i]
		at, known := place[[2]string{p.Name, p.Label}]
		if !known {
			at = len(page.Series)
			place[[2]string{p.Name, p.Label}] = at
			page.Series = append(page.Series, Series{Group: p.Name, Name: p.Label})
		}
		point := SeriesPoint{At: Time(p.At), N: p.N, Buckets: []decimal{}}
		if bounds != nil {
			for _, n := range p.Buckets {
				point.Buckets = append(point.Buckets, decimal(n))
			}
		}
		page.Series[at].Points = append(page.Series[at].Points, point)
	}
	slices.SortFunc(page.Series, func(a, b Series) int {
		return cmp.Or(strings.Compare(a.Group, b.Group), strings.Compare(a.Name, b.Name))
	})
	return page
}
