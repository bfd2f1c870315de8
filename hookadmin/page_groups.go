package hookadmin

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/say"
)

// groupsShown is how many groups of dead letters a page shows.
const groupsShown = 20

// letterGroups are the groups of dead letters by the signature of their error: chart 7.
type letterGroups struct {
	Rows []groupRow
	More bool // there are more groups
	Form form
	Root string
}

// groupRow is a group of dead letters.
type groupRow struct {
	Count       string // "10,000+" at the bound
	Bar         int    // its length, from 1 to 100
	Signature   cell
	Where       cell // the destination or the source
	Events      bool // Where is a source: the events themselves are dead
	First, Last Time
	Sample      text
	Fields      []formField // select the group, in the form that replays it
}

// groupsFor returns the groups of the dead letters that a page lists; nil where groups cannot be
// selected in the same way, and on later pages.
func (h *handling) groupsFor(r *http.Request, l *listPage, now time.Time) *letterGroups {
	for name := range l.values {
		if l.values.Get(name) != "" && !slices.Contains([]string{"destination", "signature", "tz", "refresh", "limit"}, name) {
			return nil
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), queryTimeout)
	defer cancel()
	found, err := h.store.ErrorGroups(ctx, &driver.GroupFilter{
		Destination: l.values.Get("destination"), Signature: l.values.Get("signature"), Limit: groupsShown,
	})
	if err != nil {
		h.logAway(r, "grouping dead letters", err)
		return nil
	}
	groups := found.Groups
	slices.SortStableFunc(groups, func(a, b driver.ErrorGroup) int { return b.Count - a.Count })
	out := &letterGroups{More: !found.Next.IsZero(), Form: h.newForm(r), Root: l.Root}
	for i := range groups {
		out.Rows = append(out.Rows, l.groupRow(&groups[i], groups[0].Count, now))
	}
	return out
}

func (l *listPage) groupRow(g *driver.ErrorGroup, most int, now time.Time) groupRow {
	row := groupRow{
		Count: say.Number(g.Count), Bar: max(1, 100*g.Count/max(most, 1)), First: Time(g.FirstAt), Last: Time(g.LastAt),
		Sample: newText(g.Sample, 200), Events: g.Destination == "", Fields: []formField{{Name: "signature", Value: g.Signature}},
	}
	if g.More {
		row.Count += "+"
	}
	only := url.Values{"signature": {g.Signature}}
	if row.Events {
		row.Where = l.newCell("source", g.Source, 32)
		row.Fields = append(row.Fields, formField{Name: "source", Value: g.Source})
		only.Set("source", g.Source)
	} else {
		row.Where = l.newCell("destination", g.Destination, 32)
		row.Fields = append(row.Fields, formField{Name: "destination", Value: g.Destination})
		only.Set("destination", g.Destination)
	}
	row.Signature = cell{newText(g.Signature, 110), l.Root + l.path + queryOf(only)}
	return row
}
