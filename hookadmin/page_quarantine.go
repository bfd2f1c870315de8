package hookadmin

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
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
	First, Last moment
	Headers     []headerRow
	Body        *bodyView
	Fits        []fit
}

// fit is a location that holds something like an event id.
type fit struct{ Location, Value text }

func (h *handler) showQuarantinePage(w http.ResponseWriter, r *http.Request) {
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
		content.Rows = l.quarantineRows(found.Requests, now)
		l.page(found.Next.String())
		switch {
		case len(content.Rows) > 0:
		case l.filtered():
			l.Empty = &empty{Title: "Nothing of this source is in the quarantine.", Link: &link{l.with("source", ""), "Remove source"}}
		default:
			l.Empty = &empty{Title: "The quarantine is empty.", Text: "Verified requests without a usable event would be kept here, to be read again after a correction."}
		}
	}
	p := &page{Title: "Quarantine", Content: content, Flash: h.takeFlash(w, r), Made: moment{now, now}}
	h.render(w, r, status, "quarantine.html", p)
}

// showQuarantinedPage shows one quarantined request.
func (h *handler) showQuarantinedPage(w http.ResponseWriter, r *http.Request) {
	if _, ok := h.pageQuery(w, r, nil); !ok {
		return
	}
	found, ok := h.quarantined(w, r)
	if !ok {
		return
	}
	now := time.Now()
	l := startList(r, url.Values{}, "quarantine", nil)
	content := &quarantinedPage{Root: l.Root, Form: h.newForm(r), Rows: l.quarantineRows([]driver.QuarantinedRequest{*found}, now)}
	h.render(w, r, http.StatusOK, "quarantined.html", &page{
		Title: "Quarantined request", Up: &link{l.Root + "quarantine", "Quarantine"}, Content: content, Made: moment{now, now},
	})
}

// quarantinedPage is the content of quarantined.html.
type quarantinedPage struct {
	Root string
	Form form
	Rows []quarantineRow
}

func (l *listPage) quarantineRows(requests []driver.QuarantinedRequest, now time.Time) []quarantineRow {
	rows := make([]quarantineRow, 0, len(requests))
	for i := range requests {
		q := &requests[i]
		byName, _ := headers(q.Headers) // unreadable ones are left out
		row := quarantineRow{
			ID: hex.EncodeToString(q.Key[:]), Href: l.Root + "quarantine/" + hex.EncodeToString(q.Key[:]), Source: l.newCell("source", q.Source, 40), Reason: newText(q.Reason, 300), Count: q.Count,
			First: moment{q.FirstAt, now}, Last: moment{q.LastAt, now}, Headers: headerRows(byName),
			Body: newBodyView(q.Body, contentType(byName), bodyPretty),
		}
		for _, f := range idLocations(q.Body, byName) {
			row.Fits = append(row.Fits, fit{newText(f[0], 80), newText(f[1], 60)})
		}
		rows = append(rows, row)
	}
	return rows
}

const (
	maxFits     = 5
	maxFitBody  = 256 << 10 // bytes of a body that is looked through
	maxFitDepth = 6
)

// idNames are the names that senders give to the id of an event, without case and separators. The
// best come first.
var idNames = []string{
	"eventid", "id", "webhookid", "deliveryid", "messageid", "notificationid", "uuid", "guid", "requestid", "transactionid", "reference", "key",
}

// idLocations returns locations of the request that hold something like the id of an event, best
// first, each with its value.
func idLocations(body []byte, headers map[string][]string) [][2]string {
	type candidate struct {
		rank, depth     int
		location, value string
	}
	var all []candidate
	if len(body) <= maxFitBody && json.Valid(body) {
		dec := json.NewDecoder(bytes.NewReader(body))
		dec.UseNumber()
		var v any
		if dec.Decode(&v) == nil {
			walkJSON(v, nil, func(path []string, value string) {
				if rank := slices.Index(idNames, plainName(path[len(path)-1])); rank >= 0 {
					all = append(all, candidate{rank, len(path), "body:" + strings.Join(path, "."), value})
				}
			})
		}
	}
	for _, name := range sortedNames(headers) {
		plain := strings.TrimPrefix(plainName(name), "x")
		rank := slices.IndexFunc(idNames, func(id string) bool { return id != "key" && strings.HasSuffix(plain, id) })
		if rank >= 0 && len(headers[name]) == 1 {
			all = append(all, candidate{rank, 1, "header:" + name, headers[name][0]})
		}
	}
	slices.SortStableFunc(all, func(a, b candidate) int {
		return cmp.Or(a.depth-b.depth, a.rank-b.rank, cmp.Compare(a.location, b.location))
	})
	var fits [][2]string
	for _, c := range all[:min(len(all), maxFits)] {
		fits = append(fits, [2]string{c.location, c.value})
	}
	return fits
}

// plainName returns a name in lower case, without separators.
func plainName(name string) string {
	return strings.NewReplacer("-", "", "_", "", ".", "", " ", "").Replace(strings.ToLower(name))
}

// walkJSON calls found for each string and number of an object in v, with its path. Keys that a
// location would have to escape are left out.
func walkJSON(v any, path []string, found func(path []string, value string)) {
	object, ok := v.(map[string]any)
	if !ok || len(path) > maxFitDepth {
		return
	}
	for key, value := range object {
		if key == "" || strings.ContainsAny(key, `.+|?[]\ `) {
			continue
		}
		at := append(slices.Clone(path), key)
		switch value := value.(type) {
		case string:
			if value != "" {
				found(at, value)
			}
		case json.Number:
			found(at, value.String())
		default:
			walkJSON(value, at, found)
		}
	}
}
