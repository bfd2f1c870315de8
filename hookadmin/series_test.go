package hookadmin_test

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookadmin"
	"github.com/hookonce/hookonce/internal/tell"
	"github.com/hookonce/hookonce/internal/test/rig"
)

func (g *gateway) addFigures(t *testing.T, figures ...driver.Figure) {
	t.Helper()
	if err := g.store.AddFigures(t.Context(), &driver.AddFiguresParams{Figures: figures}); err != nil {
		t.Fatal(err)
	}
}

func TestSeries(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	var fast [driver.FigureBuckets]int64
	fast[0], fast[driver.FigureBuckets-1] = 1, 2
	g.addFigures(t,
		driver.Figure{Of: driver.FigureDeliveries, At: noon.Add(10 * time.Second), Name: "lab", Label: "ok", N: 3, Buckets: fast},
		driver.Figure{Of: driver.FigureDeliveries, At: noon.Add(2 * time.Minute), Name: "lab", Label: "ok", N: 1 << 60},
		driver.Figure{Of: driver.FigureDeliveries, At: noon, Name: "shop", Label: "duplicate", N: 5},
		driver.Figure{Of: driver.FigureRefusals, At: noon, Name: "shop", Label: "signature_wrong", N: 7},
		driver.Figure{Of: driver.FigureAttempts, At: noon, Name: "billing", Label: "sent", N: 9},
		driver.Figure{Of: driver.FigureTypes, At: noon, Name: "lab", Label: "<b>", N: 11},
		driver.Figure{Of: driver.FigureDuplicates, At: noon, Name: "lab", N: 3, Buckets: fast},
		driver.Figure{Of: driver.FigureBacklog, At: noon, Name: "lab", Label: "events", N: 4},
		driver.Figure{Of: driver.FigureBacklog, At: noon, Name: "lab", Label: "messages_age", N: 6},
		driver.Figure{Of: driver.FigureBacklog, At: noon, Name: "shop", Label: "events", N: 5},
	)
	const at0, at2 = "2026-01-31T12:00:00.000000Z", "2026-01-31T12:02:00.000000Z"
	zeros := func() []any {
		return slices.Repeat([]any{"0"}, driver.FigureBuckets)
	}
	first := zeros()
	first[0], first[driver.FigureBuckets-1] = "1", "2"
	point := func(at, n string, buckets []any) any { return map[string]any{"at": at, "n": n, "buckets": buckets} }
	of := func(name string, points ...any) any { return map[string]any{"name": name, "points": points} }
	lab := of("ok", point(at0, "3", first), point(at2, "1152921504606846976", zeros()))
	for query, want := range map[string][]any{
		"of=deliveries&resolution=minute":                           {of("duplicate", point(at0, "5", zeros())), lab},
		"of=deliveries&resolution=minute&source=lab":                {lab},
		"of=deliveries&resolution=minute&outcome=duplicate":         {of("duplicate", point(at0, "5", zeros()))},
		"of=deliveries&resolution=minute&source=lab&outcome=failed": {},
		"of=deliveries&resolution=hour&source=shop":                 {of("duplicate", point(at0, "5", zeros()))},
		"of=deliveries&resolution=auto&source=shop":                 {of("duplicate", point("2026-01-31T00:00:00.000000Z", "5", zeros()))}, // long ago
		"of=refusals&resolution=minute&reason=signature_wrong":      {of("signature_wrong", point(at0, "7", []any{}))},
		"of=attempts&resolution=minute&destination=billing":         {of("sent", point(at0, "9", zeros()))},
		"of=types&type=%3Cb%3E":                                     {of("<b>", point(at0, "11", []any{}))},
		"of=types&source=shop&resolution=hour":                      {},
		"of=duplicates&resolution=minute&source=lab":                {of("", point(at0, "3", first))},
		"of=backlog&resolution=minute":                              {of("events", point(at0, "9", []any{})), of("messages_age", point(at0, "6", []any{}))},
		"of=backlog&resolution=minute&source=lab":                   {of("events", point(at0, "4", []any{}))},
		"of=backlog&resolution=minute&destination=lab":              {of("messages_age", point(at0, "6", []any{}))},
		"of=deliveries&resolution=hour&by=source&outcome=duplicate": {
			map[string]any{"group": "shop", "name": "duplicate", "points": []any{point(at0, "5", zeros())}},
		},
	} {
		got := readJSON[map[string]any](t, g.get(t, "/api/v1/series?since=2026-01-31T12:00:59Z&until=2026-01-31T13:00:00Z&"+query))
		if diff := cmp.Diff(want, got["series"]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
	}
	got := readJSON[map[string]any](t, g.get(t, "/api/v1/series?of=attempts&since=2026-01-31T12:00:59Z&until=2026-01-31T12:01:30Z&resolution=minute"))
	delete(got, "series")
	want := map[string]any{
		"of": "attempts", "resolution": "minute", "since": at0, "until": "2026-01-31T12:01:30.000000Z",
		"bounds_seconds": []any{.005, .01, .025, .05, .1, .25, .5, 1.0, 2.5, 5.0, 10.0, 15.0, 30.0, 60.0},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSeriesRefuses(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	for query, want := range map[string]string{
		"":                                          `of: "" is no kind of figures; use deliveries, refusals, attempts, duplicates, backlog, types`,
		"of=events":                                 `of: "events" is no kind`,
		"of=types&of=types":                         "of: given more than once",
		"of=deliveries&destination=a":               "destination: not a parameter of of=deliveries, which takes source and outcome",
		"of=attempts&source=a":                      "source: not a parameter of of=attempts",
		"of=backlog&source=a&destination=b":         "destination: given together with source; choose one",
		"of=backlog&by=source":                      `by: "source" does not group of=backlog`,
		"of=attempts&by=source":                     `by: "source" does not group of=attempts`,
		"of=types&reason=method":                    "reason: not a parameter of of=types",
		"of=deliveries&outcome=sent":                `outcome: "sent" is unknown; use ok, duplicate,`,
		"of=attempts&outcome=ok":                    `outcome: "ok" is unknown; use sent, retry, dead, skipped`,
		"of=refusals&reason=x":                      `reason: "x" is unknown; use unknown_source,`,
		"of=types&resolution=minute":                "resolution: figures of types exist by the hour",
		"of=deliveries&resolution=week":             `resolution: "week" is no resolution; use auto, minute, hour, day`,
		"of=deliveries&since=x":                     `since: "x" is neither`,
		"of=deliveries&since=1h&until=2h":           "until: must be later than since",
		"of=deliveries&since=2100-01-01T00:00:00Z":  "since: must be earlier than until",
		"of=deliveries&since=49h&resolution=minute": "since: more than 2880 spans of one minute (2d) before until",
		"of=types&since=200d":                       "since: more than 2880 spans of one hour",
		"of=deliveries&since=36500d":                "since: more than 2880 spans of one day",
		"of=deliveries&source=%00":                  "source: holds a control character",
		"of=deliveries&limit=5":                     `"limit": unknown parameter`,
	} {
		wantDetail(t, g.get(t, "/api/v1/series?"+query), http.StatusBadRequest, want)
	}
	wantDetail(t, newGatewayOn(t, plenty{g.store}).get(t, "/api/v1/series?of=types"), http.StatusBadRequest,
		"since: there are more than 30000 points; choose a later since")
}

// plenty is a store with more points than a series may have.
type plenty struct{ driver.Store }

func (plenty) Series(_ context.Context, filter *driver.SeriesFilter) ([]driver.Point, error) {
	return make([]driver.Point, min(filter.Limit, 30_000)+1), nil
}

// TestSeriesChoosesAResolution takes the finest resolution that is kept and fits a chart.
func TestSeriesChoosesAResolution(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]driver.SeriesFilter{
		"of=deliveries":                        {Resolution: driver.ByMinute, Since: noon.Add(-time.Hour), Until: noon},
		"of=deliveries&since=6h":               {Resolution: driver.ByMinute, Since: noon.Add(-6 * time.Hour), Until: noon},
		"of=deliveries&since=1d":               {Resolution: driver.ByHour, Since: noon.Add(-24 * time.Hour), Until: noon},
		"of=deliveries&since=50h&until=49h30m": {Resolution: driver.ByHour, Since: noon.Add(-50 * time.Hour), Until: noon.Add(-49*time.Hour - 30*time.Minute)},
		"of=deliveries&since=30d":              {Resolution: driver.ByDay, Since: noon.Add(-30*24*time.Hour - 12*time.Hour), Until: noon},
		"of=deliveries&since=100d&until=99d":   {Resolution: driver.ByDay, Since: noon.Add(-100*24*time.Hour - 12*time.Hour), Until: noon.Add(-99 * 24 * time.Hour)},
		"of=types":                             {Of: driver.FigureTypes, Resolution: driver.ByHour, Since: noon.Add(-24 * time.Hour), Until: noon},
		"of=types&since=30d":                   {Of: driver.FigureTypes, Resolution: driver.ByHour, Since: noon.Add(-30 * 24 * time.Hour), Until: noon},
	} {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		got, err := hookadmin.ParseSeriesFilter(values, noon)
		if err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		want.Limit = 30_000
		if diff := cmp.Diff(&want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
	}
}

// TestSeriesOfAllThatIsKept asks within a minute for every minute that is kept.
func TestSeriesOfAllThatIsKept(t *testing.T) {
	t.Parallel()
	now := noon.Add(59 * time.Second)
	got, err := hookadmin.ParseSeriesFilter(url.Values{"of": {"deliveries"}, "since": {"48h"}, "resolution": {"minute"}}, now)
	if err != nil {
		t.Fatal(err)
	}
	want := &driver.SeriesFilter{Resolution: driver.ByMinute, Since: noon.Add(-48 * time.Hour), Until: now, Limit: 30_000}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for values, ok := range map[[2]string]bool{
		{"47h59m", ""}: true, {"48h", ""}: true, {"48h1s", ""}: false,
		{"2026-01-29T12:00:59Z", ""}: true, {"2026-01-29T12:00:58Z", ""}: false,
		{"50h", "2h"}: true, {"51h", "2h"}: false,
		{"2026-01-29T12:00:00Z", "2026-01-31T12:00:00Z"}: true, {"2026-01-29T11:59:59Z", "2026-01-31T12:00:00Z"}: false,
	} {
		_, err := hookadmin.ParseSeriesFilter(url.Values{
			"of": {"deliveries"}, "since": {values[0]}, "until": {values[1]}, "resolution": {"minute"},
		}, now.Add(900*time.Millisecond)) // a client's time of 48 hours ago lacks the fraction
		if (err == nil) != ok {
			t.Errorf("%q: %v", values, err)
		}
	}
	if all := len(tell.DeliveryOutcomes()) * int(driver.ByMinute.Kept()/time.Minute); all > got.Limit {
		t.Errorf("%d points of deliveries are more than the limit of %d", all, got.Limit)
	}
}

// TestSeriesNamesAreDescribed compares the lists of the document with those of the code.
func TestSeriesNamesAreDescribed(t *testing.T) {
	t.Parallel()
	c := &document().Components
	if diff := cmp.Diff(tell.Reasons(), c.Schemas["Reason"].Enum) + cmp.Diff(tell.Kept(), c.Schemas["KeptReason"].Enum); diff != "" {
		t.Errorf("reasons (-code +described):\n%s", diff)
	}
	faults := c.Schemas["Problem"].Properties["reason"].Enum
	if diff := cmp.Diff(slices.Sorted(slices.Values(hookadmin.FaultWords())), slices.Sorted(slices.Values(faults))); diff != "" {
		t.Errorf("words of faults (-code +described):\n%s", diff)
	}
	outcomes := slices.Concat(tell.DeliveryOutcomes(), tell.MessageOutcomes())
	if diff := cmp.Diff(outcomes, c.Parameters["outcome"].Schema.Enum); diff != "" {
		t.Errorf("outcomes (-code +described):\n%s", diff)
	}
}

// away is a store whose database does not answer for figures.
type away struct{ driver.Store }

func (away) Series(context.Context, *driver.SeriesFilter) ([]driver.Point, error) {
	return nil, driver.ErrUnavailable
}

func TestSeriesWithoutTheDatabase(t *testing.T) {
	t.Parallel()
	g := newGatewayOn(t, away{rig.OpenSQLite(t)})
	wantProblem(t, g.get(t, "/api/v1/series?of=types"), http.StatusServiceUnavailable)
}
