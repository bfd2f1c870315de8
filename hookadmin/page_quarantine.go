package hookadmin

import (
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/hookonce/hookonce/driver"
)

var quarantinePageParameters = append(slices.Clone(quarantineParameters), "refresh")

// quarantinePage is the content of quarantine.html.
type quarantinePage struct {
	*listPage
	Form form
	Rows []quarantineRow
}

// quarantineRow is a quarantined request in a listing.
type quarantineRow struct {
	ID, Href    string
	Source      cell
	Reason      text
	Count       int64
	First, Last Time
	Headers     []headerRow
	Body        *bodyView // nil if it was not kept
	Documented  documentedFit
	Fits        []fit
}

func (h *handling) showQuarantinePage(w http.ResponseWriter, r *http.Request) {
	values, ok := h.query(w, r)
	if !ok {
		return
	}
	now := time.Now()
	l := startList(r, values, "quarantine", quarantinePageParameters)
	l.Spans = nil // the quarantine is not listed by time
	_, found, status := listed(h, r, l, ParseQuarantineFilter, h.store.Quarantined)
	l.field("source", "Source", "", h.sources()...)
	content := &quarantinePage{listPage: l, Form: h.newForm(r)}
	if found != nil {
		content.Rows = h.quarantineRows(l, found.Requests, now)
	}
	if l.Stale.Known() || l.Away != "" {
		content.Form = form{} // it would fail
	} else if found != nil {
		l.page(found.Next.String())
		switch {
		case len(content.Rows) > 0:
		case l.filtered():
			l.Empty = &empty{Title: "Nothing of this source is in the quarantine.", Link: &link{l.with("source", ""), "Remove source"}}
		default:
			l.Empty = &empty{Title: "The quarantine is empty.", Text: "Verified requests without a usable event would be kept here, to be read again after a correction."}
		}
	}
	p := &page{Title: "Quarantine", Content: content, Flash: h.takeFlash(w, r), Live: l.orRetry(nil), Made: l.Stale.orNow(now)}
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
	content := &quarantinedPage{Root: l.Root, Form: h.newForm(r), Rows: h.quarantineRows(l, []driver.QuarantinedRequest{*found}, now)}
	h.render(w, r, http.StatusOK, "quarantined.html", &page{
		Title: "Quarantined request", Up: &link{l.Root + "quarantine", "Quarantine"}, Content: content, Made: Time(now),
	})
}

// quarantinedPage is the content of quarantined.html.
type quarantinedPage struct {
	Root string
	Form form
	Rows []quarantineRow
}

func (h *handler) quarantineRows(l *listPage, requests []driver.QuarantinedRequest, now time.Time) []quarantineRow {
	specs := h.specs()
	rows := make([]quarantineRow, 0, len(requests))
	for i := range requests {
		q := &requests[i]
		byName, _ := headers(q.Headers) // unreadable ones are left out
		row := quarantineRow{
			ID: hex.EncodeToString(q.Key[:]), Href: l.Root + "quarantine/" + hex.EncodeToString(q.Key[:]), Source: l.newCell("source", q.Source, 40), Reason: newText(q.Reason, 300), Count: q.Count,
			First: Time(q.FirstAt), Last: Time(q.LastAt), Headers: headerRows(byName),
		}
		if l.Stale.Known() {
			rows = append(rows, row) // bodies are not kept
			continue
		}
		row.Body = newBodyView(q.Body, contentType(byName), bodyPretty)
		row.Documented = documentedFor(specs[q.Source], q, byName)
		for _, f := range idLocations(q.Body, byName) {
			if f[0] != row.Documented.Location.Full {
				row.Fits = append(row.Fits, fit{newText(f[0], 80), newText(f[1], 60)})
			}
		}
		rows = append(rows, row)
	}
	return rows
}
