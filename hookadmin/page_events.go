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

// eventRow is an event in a listing.
type eventRow struct {
	State        string // for the template "state"
	StateHref    string
	Received     Time
	Source, Type cell
	ID           text
	IDHref       string
	RawID        string
	Duplicates   int64
	Attempts     int
	Destinations []cell
	Partly       bool // there may be more destinations
	Note         cell
	Error        text
	Row          string // see rowOf
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
	filter, found, status := listed(h, r, l, h.parseFilter, h.freshEvents)
	l.eventFields(h)
	content := &eventsPage{listPage: l}
	if found != nil {
		content.Rows = l.eventRows(found.Events, now)
	}
	if found != nil && !l.Stale.Known() {
		h.addDestinations(r, l, filter, content.Rows, found.Events)
		l.page(found.Next.String())
		l.searchedUntil(Time(found.SearchedUntil))
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

func (l *listPage) eventRows(events []driver.Event, now time.Time) []eventRow {
	rows := make([]eventRow, 0, len(events))
	for i := range events {
		ev := &events[i]
		rows = append(rows, eventRow{
			State: ev.State, StateHref: l.with("state", ev.State), Received: Time(ev.ReceivedAt),
			Source: l.newCell("source", ev.Source, 24), Type: l.newCell("type", ev.Type, 28),
			ID: newID(ev.EventID), IDHref: eventLink(l.Root, ev.Source, ev.EventID), RawID: ev.EventID,
			Duplicates: ev.Duplicates, Attempts: ev.Attempts, Note: l.newCell("note", ev.Note, 60), Error: newText(ev.LastError, 120),
			Row: rowOf(ev.Source, ev.EventID), Partly: l.Stale.Known(),
		})
	}
	return rows
}

// addDestinations fills in the destinations of the rows: those of the messages in the span of the
// page, in one query of at most driver.MaxLimit messages. Rows beyond them are marked.
func (h *handler) addDestinations(r *http.Request, l *listPage, f *driver.EventFilter, rows []eventRow, events []driver.Event) {
	if len(events) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), probeTimeout)
	defer cancel()
	oldest, newest := events[len(events)-1].ReceivedAt, events[0].ReceivedAt
	found, err := h.store.Messages(ctx, &driver.MessageFilter{
		Source: f.Source, Type: f.Type, EventID: f.ID, Since: oldest, Until: newest.Add(time.Microsecond), Limit: driver.MaxLimit,
	})
	if err != nil {
		for i := range rows {
			rows[i].Partly = true
		}
		return
	}
	byKey := make(map[driver.Key][]string)
	for i := range found.Messages {
		m := &found.Messages[i]
		if !slices.Contains(byKey[m.Key], m.Destination) {
			byKey[m.Key] = append(byKey[m.Key], m.Destination)
		}
	}
	for i := range rows {
		names := byKey[events[i].Key]
		slices.Sort(names)
		for _, name := range names {
			rows[i].Destinations = append(rows[i].Destinations, cell{newText(name, 24), l.Root + "destinations/" + url.PathEscape(name)})
		}
		// Messages are listed in the order of their events, so those after Next are not known.
		if next := found.Next; !next.IsZero() {
			rows[i].Partly = !events[i].ReceivedAt.After(next.At)
		}
	}
}

// noEvents says why a listing of events is empty.
func (h *handling) noEvents(r *http.Request, l *listPage) *empty {
	if l.filtered() {
		return l.whyEmpty(r, "events", func(ctx context.Context, values url.Values) (bool, error) {
			values, err := pageValues(values)
			if err != nil {
				return false, err
			}
			values.Set("limit", "1")
			filter, err := h.parseFilter(values, time.Now())
			if err != nil {
				return false, err
			}
			found, err := h.freshEvents(ctx, filter)
			return err == nil && len(found.Events) > 0, err
		})
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
