package hookadmin

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"

	"github.com/hookonce/hookonce/driver"
)

// groupsShown is how many groups of dead letters a page shows.
const groupsShown = 20

// letterGroups are the groups of dead letters by the signature of their error: chart 7.
type letterGroups struct {
	Rows []ErrorGroup // largest first
	More bool         // there are more groups
	Form form
	Root string
}

// Bar returns the length of the bar of a group, from 1 to 100.
func (g *letterGroups) Bar(count int64) int64 { return max(1, 100*count/max(g.Rows[0].Count, 1)) }

// groupsFor returns the groups of the dead letters that a page lists; nil where groups cannot be
// selected in the same way, and on later pages.
func (h *handling) groupsFor(r *http.Request, l *listPage) *letterGroups {
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
	groups := NewErrorPage(found)
	slices.SortStableFunc(groups.Errors, func(a, b ErrorGroup) int { return cmp.Compare(b.Count, a.Count) })
	return &letterGroups{Rows: groups.Errors, More: groups.Next != "", Form: h.newForm(r), Root: l.Root}
}

// GroupCell returns the cell of a group, which links to its dead letters.
func (l *listPage) GroupCell(g *ErrorGroup) cell {
	only := url.Values{"signature": {g.Signature}, "destination": {g.Destination}, "source": {g.Source}}
	return cell{newText(g.Signature, 110), l.Root + l.path + queryOf(only)}
}
