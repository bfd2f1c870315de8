package hookadmin

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/runbook"
)

const (
	// maxGroupedRefusals bounds the refused requests that one grouping reads: those of five full sources.
	maxGroupedRefusals = 5000
	// maxRefusedGroups bounds the groups of an answer.
	maxRefusedGroups = 100
)

var refusedGroupParameters = []string{"source", "reason", "remote", "since", "until"}

// RefusedGroupPage is the answer of GET /api/v1/refused/groups.
type RefusedGroupPage struct {
	Groups []RefusedGroup `json:"groups"` // largest first, at most 100
	// More says that older requests or smaller groups are left out: at most 5,000 requests are read.
	More bool `json:"more"`
}

// RefusedGroup are refused requests from one address for one reason.
type RefusedGroup struct {
	Remote  string   `json:"remote"` // the client's address
	Reason  string   `json:"reason"`
	Sources []string `json:"sources"` // sorted; "" is a source that is not in the settings
	Count   int64    `json:"count,string"`
	FirstAt Time     `json:"first_at"`
	LastAt  Time     `json:"last_at"`
	ID      string   `json:"id"` // the error id of the newest one
}

func (h *handling) groupRefused(w http.ResponseWriter, r *http.Request) {
	list(h, w, r, parseRefusedGroups, h.refusedGroups, asIs)
}

// parseRefusedGroups is ParseRefusedFilter without pages.
func parseRefusedGroups(values url.Values, now time.Time) (*driver.RefusedFilter, error) {
	if err := checkParameters(values, refusedGroupParameters); err != nil {
		return nil, err
	}
	f, err := ParseRefusedFilter(values, now)
	if err == nil {
		f.Limit = driver.MaxLimit
	}
	return f, err
}

// refusedGroups reads the refused requests that f selects, up to a bound, and groups them.
func (h *handler) refusedGroups(ctx context.Context, f *driver.RefusedFilter) (*RefusedGroupPage, error) {
	type key struct{ remote, reason string }
	groups, next, read := make(map[key]*RefusedGroup), *f, 0
	out := &RefusedGroupPage{Groups: []RefusedGroup{}}
	for {
		page, err := h.engine.Operator().Refused(ctx, &next)
		if err != nil {
			return nil, err
		}
		for i := range page.Requests {
			q := &page.Requests[i]
			g := groups[key{q.Remote, q.Reason}]
			if g == nil {
				g = &RefusedGroup{Remote: q.Remote, Reason: q.Reason, LastAt: Time(q.At), ID: q.ErrorID}
				groups[key{q.Remote, q.Reason}] = g
			}
			g.Count++
			g.FirstAt = Time(q.At)
			if at, found := slices.BinarySearch(g.Sources, q.Source); !found {
				g.Sources = slices.Insert(g.Sources, at, q.Source)
			}
		}
		read += len(page.Requests)
		if next.After = page.Next; page.Next.IsZero() {
			break
		}
		if read >= maxGroupedRefusals {
			out.More = true
			break
		}
	}
	for _, g := range groups {
		out.Groups = append(out.Groups, *g)
	}
	slices.SortFunc(out.Groups, func(a, b RefusedGroup) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Remote, b.Remote), cmp.Compare(a.Reason, b.Reason))
	})
	if len(out.Groups) > maxRefusedGroups {
		out.Groups, out.More = out.Groups[:maxRefusedGroups], true
	}
	return out, nil
}

// refusedGroupsPage is the content of refusedgroups.html.
type refusedGroupsPage struct {
	*listPage
	Rows []RefusedGroup
	More bool
}

func (h *handling) showRefusedGroupsPage(w http.ResponseWriter, r *http.Request) {
	values, ok := h.query(w, r)
	if !ok {
		return
	}
	l := startList(r, values, "refused/groups", refusedGroupPageParameters)
	found, status := listed(h, r, l, parseRefusedGroups, h.refusedGroups, asIs)
	h.refusedFields(l)
	content := &refusedGroupsPage{listPage: l}
	if found != nil {
		content.Rows, content.More = found.Groups, found.More
		if len(content.Rows) == 0 && !l.Stale.Known() {
			l.Empty = h.noneRefused(r, l)
		}
	}
	var about []runbook.Entry
	if len(content.Rows) > 0 {
		about = []runbook.Entry{runbook.Flood}
	}
	h.render(w, r, status, "refusedgroups.html", &page{
		Title: "Refused requests by address and reason", Up: &link{l.Root + "refused", "Refused requests"}, Content: content,
		Live: l.orRetry(nil), Made: l.Stale.orNow(time.Now()), See: about,
	})
}
