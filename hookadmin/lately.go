package hookadmin

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/runbook"
	"github.com/hookonce/hookonce/internal/say"
)

const (
	// lately is the span over which a rotated secret and a flood show.
	lately = 15 * time.Minute
	// floodOf is how many refused requests in that span are a flood, if they are most of all.
	floodOf = 100
	// manyWrong is how many wrong signatures after the last right delivery are no strangers.
	manyWrong = 10
)

// recent is how the requests to a source ended lately.
type recent struct {
	all, refused int64
	right        int64 // taken
	wrong        int64 // refused for a wrong signature

	lastAll, lastWrong int64 // since the minute after the last one that was taken
}

// rotated reports whether the secret of a source was probably rotated at its provider: at least four in five
// deliveries have a wrong signature, of all or of many last ones. A few requests of strangers do not count.
func (r recent) rotated() bool {
	return r.wrong >= fewRefusals && r.wrong*5 >= r.all*4 || r.justRotated()
}

func (r recent) justRotated() bool { return r.lastWrong >= manyWrong && r.lastWrong*5 >= r.lastAll*4 }

// why says what happened to the deliveries of a source whose secret was rotated.
func (r recent) why() string {
	const ask = "were refused with a wrong signature. Was the secret rotated?"
	switch {
	case r.right > 0 && r.justRotated():
		return fmt.Sprintf("%s of the last %s deliveries %s Or do strangers send them?", say.Number(r.lastWrong), say.Number(r.lastAll), ask)
	case r.right > 0:
		return fmt.Sprintf("%s of %s deliveries of the last 15 minutes %s Or do strangers send them?", say.Number(r.wrong), say.Number(r.all), ask)
	case r.wrong >= r.all:
		return fmt.Sprintf("All deliveries of the last 15 minutes (%s) %s", say.Number(r.wrong), ask)
	}
	return fmt.Sprintf("%s of %s deliveries of the last 15 minutes %s", say.Number(r.wrong), say.Number(r.all), ask)
}

// afterRotation are the steps to take.
var afterRotation = []string{
	"Add the new secret of the provider before the old one: another entry of secrets, whose variable is in the file of env_file.",
	"Reload the gateway (SIGHUP, or systemctl reload hookonce).",
	"When deliveries are right again, remove the old secret. The provider repeats those that were refused, or can be told to.",
}

// inOneText returns steps with their numbers, a space before each.
func inOneText(steps []string) string {
	var b strings.Builder
	for i, step := range steps {
		fmt.Fprintf(&b, " %d. %s", i+1, step)
	}
	return b.String()
}

// recently returns how requests ended lately, by source.
func (h *handler) recently(ctx context.Context, now time.Time) (map[string]recent, error) {
	of := func(kind driver.FigureKind) *driver.SeriesFilter {
		return &driver.SeriesFilter{
			Of: kind, Resolution: driver.ByMinute, Since: driver.ByMinute.Start(now.Add(-lately)), Until: now, ByName: true, Limit: maxGrouped,
		}
	}
	series, err := h.seriesOf(ctx, []*driver.SeriesFilter{of(driver.FigureDeliveries), of(driver.FigureRefusals)})
	if err != nil {
		return nil, err
	}
	all, wrong := make(map[string]recent), byName(series[1])
	for name, points := range byName(series[0]) {
		last := lastTaken(points)
		all[name] = recent{
			all: sumOf(points), refused: sumOf(points, "refused"), right: sumOf(points, taken...), wrong: sumOf(wrong[name], signatureWrong),
			lastAll: sumOf(after(last, points)), lastWrong: sumOf(after(last, wrong[name]), signatureWrong),
		}
	}
	return all, nil
}

// taken are the outcomes of right deliveries.
var taken = []string{"ok", "duplicate", "reopened", "handshake"}

// lastTaken returns the last minute with a right delivery, or zero.
func lastTaken(points []driver.Point) (last time.Time) {
	for i := range points {
		if p := &points[i]; p.At.After(last) && slices.Contains(taken, p.Label) {
			last = p.At
		}
	}
	return last
}

// after returns the points of the minutes after last.
func after(last time.Time, points []driver.Point) []driver.Point {
	return slices.DeleteFunc(slices.Clone(points), func(p driver.Point) bool { return !p.At.After(last) })
}

// warningsOfLately tells of rotated secrets and of floods. Without the database it tells of none: another
// warning says that it is away.
func (h *handling) warningsOfLately(r *http.Request, sources []Source) []warning {
	ctx, cancel := context.WithTimeout(r.Context(), queryTimeout)
	defer cancel()
	recent, err := h.recently(ctx, time.Now())
	if err != nil {
		h.logger.WarnContext(ctx, "reading the figures of the last minutes failed; the overview shows no rotated secret", slog.Any("error", err))
		return nil
	}
	var all []warning
	var refused, right int64
	for name, of := range recent {
		right += of.right
		known := slices.ContainsFunc(sources, func(s Source) bool { return s.Name == name })
		rotated := known && of.rotated()
		if !rotated || of.right > 0 { // or strangers send them
			refused += of.refused
		}
		if !rotated {
			continue
		}
		all = append(all, warning{
			Kind: "Wrong signatures", Grave: true, Text: "Source " + name + ": " + of.why(), Steps: afterRotation, See: runbook.Unauthorized,
			Command: "hookonce refused list --source " + name + " --since 15m",
		})
	}
	slices.SortFunc(all, func(a, b warning) int { return strings.Compare(a.Text, b.Text) })
	if refused >= floodOf && refused > right {
		all = append(all, warning{
			Kind: "Flood", See: runbook.Flood, Text: fmt.Sprintf("%s were refused in the last 15 minutes, and %s taken.", say.Number(refused)+" requests", say.Number(right)),
			Advice: "This shows who sends them, and why they are refused:", Command: "hookonce refused list --group --since 15m",
		})
	}
	return all
}
