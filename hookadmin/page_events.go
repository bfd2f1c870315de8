package hookadmin

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// eventPageParameters are the parameters of the page /events.
var eventPageParameters = append(slices.Clone(eventParameters), "tz", "refresh")

// eventsPage is the content of events.html.
type eventsPage struct {
	*listPage
	Rows []eventRow
}

// eventRow is an event in a listing, with the names of its destinations.
type eventRow struct {
	Event
	Destinations []string
	Partly       bool // there may be more destinations
}

// rowOf names the row of an event for app.js, which knows events of the stream by it.
func rowOf(source, eventID string) string { return "e/" + url.PathEscape(source) + "/" + eventID }

func (h *handling) showEventsPage(w http.ResponseWriter, r *http.Request) {
	values, ok := h.query(w, r)
	if !ok {
		return
	}
	now := time.Now()
	l := startList(r, values, "events", eventPageParameters[:len(eventPageParameters)-1])
	filter, found, status := listed(h, r, l, h.parseFilter, h.freshEvents, NewEventPage)
	l.eventFields(h)
	content := &eventsPage{listPage: l}
	if found != nil {
		for i := range found.Events {
			content.Rows = append(content.Rows, eventRow{Event: found.Events[i], Partly: l.Stale.Known()})
		}
	}
	if found != nil && !l.Stale.Known() {
		h.addDestinations(r, filter, content.Rows)
		l.page(found.Next)
		l.searchedUntil(found.SearchedUntil)
		l.addExports()
		if len(content.Rows) == 0 && l.Searched == "" {
			l.Empty = h.noEvents(r, l)
		}
	}
	p := &page{Title: "Events", Content: content, Made: l.Stale.orNow(now)}
	if l.values.Get("cursor") == "" && status == http.StatusOK {
		p.Live = &live{On: "delivery:ok", Source: values.Get("source"), Type: values.Get("type")}
	}
	p.Live = l.orRetry(p.Live)
	h.render(w, r, status, "events.html", p)
}

// addExports links to the same events as files.
func (l *listPage) addExports() {
	values, err := pageValues(l.values)
	if err != nil {
		return
	}
	for _, name := range []string{"cursor", "limit"} {
		values.Del(name)
	}
	for _, form := range []struct{ file, text string }{{"csv", "CSV"}, {"ndjson", "NDJSON"}} {
		l.Exports = append(l.Exports, link{l.Root + "api/v1/events." + form.file + queryOf(maps.Clone(values)), form.text})
	}
}

func (l *listPage) eventFields(h *handling) {
	l.field("source", "Source", "", h.sources()...)
	l.field("type", "Type", "invoice.paid")
	l.field("state", "State", "", driver.EventStates()...)
	l.field("id", "Event id", "evt_1")
	l.field("q", "Text in id, type or body", "")
	l.field("note", "Note", driver.NoteNoRoute)
	l.field("since", "Since", "2h, 7d or 2026-01-31 08:00")
	l.field("until", "Until", "")
	l.field("tz", "Time zone", "UTC, +02:00, Europe/Berlin")
}

// addDestinations fills in the destinations of the rows: those of the messages in the span of the
// page, in one query of at most driver.MaxLimit messages. Rows beyond them are marked.
func (h *handler) addDestinations(r *http.Request, f *driver.EventFilter, rows []eventRow) {
	if len(rows) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), probeTimeout)
	defer cancel()
	oldest, newest := time.Time(rows[len(rows)-1].ReceivedAt), time.Time(rows[0].ReceivedAt)
	found, err := h.store.Messages(ctx, &driver.MessageFilter{
		Source: f.Source, Type: f.Type, EventID: f.ID, Since: oldest, Until: newest.Add(time.Microsecond), Limit: driver.MaxLimit,
	})
	if err != nil {
		for i := range rows {
			rows[i].Partly = true
		}
		return
	}
	names := make(map[string][]string)
	for i := range found.Messages {
		m := &found.Messages[i]
		row := rowOf(m.Source, m.EventID)
		names[row] = append(names[row], m.Destination)
	}
	for i := range rows {
		row := &rows[i]
		row.Destinations = names[rowOf(row.Source, row.EventID)]
		slices.Sort(row.Destinations)
		row.Destinations = slices.Compact(row.Destinations)
		// Messages are listed in the order of their events, so those after Next are not known.
		if next := found.Next; !next.IsZero() {
			row.Partly = !time.Time(row.ReceivedAt).After(next.At)
		}
	}
}

// noEvents says why a listing of events is empty.
func (h *handling) noEvents(r *http.Request, l *listPage) *empty {
	if l.filtered() {
		return l.whyEmpty(r, "events", anyOf(h.parseFilter, h.freshEvents, func(p *driver.EventPage) int { return len(p.Events) }))
	}
	sources := h.engine.Operator().Sources()
	if len(sources) == 0 {
		return &empty{Title: "No events yet.", Text: "There are no sources in the settings. Add one, then reload the gateway."}
	}
	return &empty{
		Title: "No events yet.", Text: "Send one to the first source, as its provider would:",
		Command: h.sendCommand(&sources[0]),
	}
}
