package hookadmin

import (
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/runbook"
)

var quarantinePageParameters = append(slices.Clone(quarantineParameters), "refresh")

// quarantinePage is the content of quarantine.html and quarantined.html.
type quarantinePage struct {
	*listPage
	Form  form
	Rows  []quarantineRow
	Alone bool // the page of one request, which shows its body at once
}

// quarantineRow is a quarantined request, with what its body shows.
type quarantineRow struct {
	QuarantinedRequest
	View       *bodyView // nil if the body was not kept
	Documented documentedFit
	Fits       []fit
}

func (h *handling) showQuarantinePage(w http.ResponseWriter, r *http.Request) {
	values, ok := h.query(w, r)
	if !ok {
		return
	}
	now := time.Now()
	l := startList(r, values, "quarantine", quarantinePageParameters)
	l.Spans = nil // the quarantine is not listed by time
	found, status := listed(h, r, l, ParseQuarantineFilter, h.store.Quarantined, asIs)
	l.field("source", "Source", "", h.sources()...)
	content := &quarantinePage{listPage: l, Form: h.newForm(r)}
	if found != nil {
		content.Rows = h.quarantineRows(found.Requests, l.Stale.Known())
	}
	if l.Stale.Known() || l.Away != "" {
		content.Form = form{} // it would fail
	} else if found != nil {
		l.page(found.Next.String())
		switch {
		case len(content.Rows) > 0:
		case l.filtered():
			l.Empty = &empty{Title: "Nothing of this source is in the quarantine.", Link: &link{l.With("source", ""), "Remove source"}}
		default:
			l.Empty = &empty{Title: "The quarantine is empty.", Text: "Verified requests without a usable event would be kept here, to be read again after a correction."}
		}
	}
	p := &page{Title: "Quarantine", Content: content, Flash: h.takeFlash(w, r), Live: l.orRetry(nil), Made: l.Stale.orNow(now)}
	if len(content.Rows) > 0 {
		p.See = []runbook.Entry{runbook.Unreadable, runbook.RefusedByDatabase}
	}
	h.render(w, r, status, "quarantine.html", p)
}

// showQuarantinedPage shows one quarantined request.
func (h *handling) showQuarantinedPage(w http.ResponseWriter, r *http.Request) {
	if _, ok := h.pageQuery(w, r, nil); !ok {
		return
	}
	found, ok := h.quarantined(w, r)
	if !ok {
		return
	}
	now := time.Now()
	l := startList(r, url.Values{}, "quarantine", nil)
	content := &quarantinePage{listPage: l, Form: h.newForm(r), Alone: true, Rows: h.quarantineRows([]driver.QuarantinedRequest{*found}, false)}
	h.render(w, r, http.StatusOK, "quarantined.html", &page{
		Title: "Quarantined request", Up: &link{l.Root + "quarantine", "Quarantine"}, Content: content, Made: Time(now), See: []runbook.Entry{runbook.Unreadable},
	})
}

// quarantineRows returns the rows of requests. Stale ones have no bodies.
func (h *handler) quarantineRows(requests []driver.QuarantinedRequest, stale bool) []quarantineRow {
	specs := h.specs()
	rows := make([]quarantineRow, 0, len(requests))
	for i := range requests {
		q := &requests[i]
		shape, _ := newQuarantined(q) // unreadable headers are left out
		row := quarantineRow{QuarantinedRequest: *shape}
		if !stale {
			row.View = newBodyView(q.Body, contentType(shape.Headers), bodyPretty)
			row.Documented = documentedFor(specs[q.Source], q, shape.Headers)
			for _, f := range idLocations(q.Body, shape.Headers) {
				if f[0] != row.Documented.Location.Full {
					row.Fits = append(row.Fits, fit{newText(f[0], 80), newText(f[1], 60)})
				}
			}
		}
		rows = append(rows, row)
	}
	return rows
}
