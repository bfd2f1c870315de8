package hookadmin

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/runbook"
)

// eventPageParameters are the parameters of the page /events.
var eventPageParameters = append(slices.Clone(eventParameters), "tz", "refresh")

// eventsPage is the content of events.html.
type eventsPage struct {
	*listPage
	Rows    []eventRow
	Form    form        // plans a reroute of all that match
	Matched []formField // the filters that are set
	Astray  *link       // to the entry of the runbook about such events, or nil
}

// Repeated reports whether a row has duplicates: a column without any is left out.
func (p *eventsPage) Repeated() bool {
	return slices.ContainsFunc(p.Rows, func(r eventRow) bool { return r.Duplicates > 0 })
}

// Noted reports whether a row has something in the column of notes.
func (p *eventsPage) Noted() bool {
	return slices.ContainsFunc(p.Rows, func(r eventRow) bool { return r.Note != "" || r.LastError != "" || r.By == "reconcile" })
}

// eventRow is an event in a listing, with the names of its destinations.
type eventRow struct {
	Event
	Destinations []string
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
	found, status := listed(h, r, l, h.parseFilter, h.eventsAndDestinations, asIs)
	l.eventFields(h)
	content := &eventsPage{listPage: l, Astray: h.entryLink(runbook.WrongDestination)}
	if found != nil {
		for i := range found.Events {
			content.Rows = append(content.Rows, eventRow{newEvent(&found.Events[i]), found.Events[i].Destinations})
		}
	}
	if found != nil && !l.Stale.Known() {
		l.page(found.Next.String())
		l.searchedUntil(Time(found.SearchedUntil))
		l.addExports()
		content.Form = h.newForm(r)
		content.Matched = fieldsSet(values, "source", "type", "destination", "state", "note", "id", "q", "since", "until", "tz")
		if len(content.Rows) == 0 && l.Searched == "" {
			l.Empty = h.noEvents(r, l)
		}
	}
	p := &page{
		Title: "Events", Content: content, Made: l.Stale.orNow(now), See: entriesOf(&Event{State: values.Get("state"), Note: values.Get("note")}),
	}
	if l.values.Get("cursor") == "" && status == http.StatusOK {
		p.Live = &live{On: "delivery:ok", Source: values.Get("source"), Type: values.Get("type")}
	}
	p.Live = l.orRetry(p.Live)
	h.render(w, r, status, "events.html", p)
}

func (h *handling) eventsAndDestinations(ctx context.Context, f *driver.EventFilter) (*driver.EventPage, error) {
	f.Destinations = true
	return h.freshEvents(ctx, f)
}

// addExports links to the same events as files.
func (l *listPage) addExports() {
	query := queryOf(maps.Clone(l.asked), "cursor", "", "limit", "")
	l.Exports = []link{{l.Root + "api/v1/events.csv" + query, "CSV"}, {l.Root + "api/v1/events.ndjson" + query, "NDJSON"}}
}

func (l *listPage) eventFields(h *handling) {
	l.field("source", "Source", "", h.sources()...)
	l.field("type", "Type", "invoice.paid")
	l.field("state", "State", "", driver.EventStates()...)
	l.field("destination", "Destination", "", h.destinations()...)
	l.field("id", "Event id", "evt_1")
	l.field("q", "Text in id, type or body", "")
	l.field("note", "Note", driver.NoteNoRoute)
	l.spanFields()
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
