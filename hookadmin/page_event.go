package hookadmin

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/runbook"
	"github.com/hookonce/hookonce/internal/say"
)

// eventPageQuery are the parameters of the page of one event; source and id only at /event.
var eventPageQuery = []string{"body", "source", "id", "refresh"}

// eventPage is the content of event.html.
type eventPage struct {
	*EventDetail
	Root     string
	Stale    staleness // of all of the page
	Facts    []fact
	Timeline *timeline
	tries    map[string][]Attempt // by message id
	behind   map[string]int       // by the id of a dead message: how many wait in its line

	Shown     *bodyView // nil if the body is gone, or the page is stale
	BodyModes []spanLink
	Gone      string // why there is no body, or ""
	Download  string
	BadHeader bool       // the stored headers cannot be read
	Other     *otherBody // nil if all bodies were the same

	Commands []command
	Replay   *replayPlan // nil if the event cannot be replayed
	Reroute  bool        // its messages can be made those of the present routes
	SendTo   []string    // the destinations that it can be sent to
	Redact   bool        // its payload can be removed
	Form     form
	Undo     *undoBox
	Astray   *link // to the entries of the runbook about events that went elsewhere, or nil
}

// Earlier returns how many deliveries came before the kept ones.
func (p *eventPage) Earlier() int64 {
	return max(0, p.Deliveries.Count-int64(len(p.Deliveries.Recent)))
}

// Tries returns the attempts of a message; "" stands for the handler.
func (p *eventPage) Tries(message string) []Attempt { return p.tries[message] }

// Behind tells how many messages wait behind a dead one in its line, or events behind a dead event, "". It returns "" if none does.
func (p *eventPage) Behind(message string) string {
	n, what := p.behind[message], "message"
	if message == "" {
		what = "event"
	}
	switch {
	case n == 0:
		return ""
	case n == driver.MaxWaiting:
		return say.Count(n, what) + " or more wait behind it, in the order of their object."
	case n == 1:
		return "1 " + what + " waits behind it, in the order of its object."
	}
	return say.Count(n, what) + " wait behind it, in the order of their object."
}

// waitingBehind counts the messages and events that wait behind the dead ones of an event. Without them, the page is still of use.
func (h *handling) waitingBehind(r *http.Request, found *driver.EventDetail) map[string]int {
	ctx, cancel := context.WithTimeout(r.Context(), queryTimeout)
	defer cancel()
	behind := make(map[string]int)
	count := func(id, place string) {
		n, err := h.store.WaitingBehind(ctx, place)
		if err != nil {
			h.logAway(r, "counting what waits behind a dead letter", err)
		}
		behind[id] = n
	}
	if found.State == driver.StateDead && len(found.Messages) == 0 {
		count("", driver.EventPlace(found.Key))
	}
	for i := range found.Messages {
		if m := &found.Messages[i]; m.State == driver.StateDead && m.Route != "" {
			count(m.ID, m.ID)
		}
	}
	return behind
}

// ErrorOf returns the error of a message, or "" if its last attempt shows it.
func (p *eventPage) ErrorOf(m *Message) string {
	if tries := p.tries[m.ID]; len(tries) > 0 && tries[len(tries)-1].Error == m.LastError {
		return ""
	}
	return m.LastError
}

// fact is a name and a value about an event.
type fact struct {
	Name  string
	Value text
	When  Time
	Href  string
}

// command is a command to copy.
type command struct {
	Title, About, Text string
}

// eventOf returns the source and the id that a page of an event is about: from the path, or, for ids
// that browsers remove from paths, from the parameters.
func eventOf(r *http.Request) (source, id string) {
	if source = r.PathValue("source"); source != "" {
		return source, r.PathValue("event_id")
	}
	values := r.URL.Query()
	return values.Get("source"), values.Get("id")
}

// askedEvent returns the event that r asks for, or answers with an error and returns false.
func (h *handling) askedEvent(w http.ResponseWriter, r *http.Request) (source, id string, ok bool) {
	values, ok := h.query(w, r)
	if !ok {
		return "", "", false
	}
	known := eventPageQuery
	if r.PathValue("source") != "" {
		known = []string{"body", "refresh"}
	}
	err := checkParameters(values, known)
	if mode := values.Get("body"); err == nil && !slices.Contains([]string{"", bodyPretty, bodyRaw, bodyHex}, mode) {
		err = &ParameterError{"body", fmt.Sprintf("%q is not a way to show a body; use pretty, raw, hex", mode)}
	}
	if err == nil {
		_, err = parseRefresh(values.Get("refresh"))
	}
	if err != nil {
		h.fail(w, r, http.StatusBadRequest, err.Error(), nil)
		return "", "", false
	}
	source, id = eventOf(r)
	return source, id, true
}

func (h *handling) readEvent(r *http.Request, source, id string) (*driver.EventDetail, error) {
	ctx, cancel := context.WithTimeout(r.Context(), queryTimeout)
	defer cancel()
	found, err := h.freshEvent(ctx, source, id)
	if err != nil {
		return nil, fmt.Errorf("reading an event: %w", err)
	}
	return found, nil
}

func (h *handling) showEventPage(w http.ResponseWriter, r *http.Request) {
	source, id, ok := h.askedEvent(w, r)
	if !ok {
		return
	}
	now := time.Now()
	found, stale, err := h.lastEvent(r, source, id)
	if err != nil {
		h.failStore(w, r, err)
		return
	}
	content := &eventPage{Root: rootFrom(r.URL.EscapedPath()), Stale: stale}
	detail, err := NewEventDetail(found)
	if err != nil {
		h.logAway(r, "reading the headers of an event", err)
		found.Headers, content.BadHeader = nil, true
		if detail, err = NewEventDetail(found); err != nil {
			h.failStore(w, r, err)
			return
		}
	}
	content.EventDetail, content.tries = detail, make(map[string][]Attempt)
	for _, a := range detail.Attempts {
		content.tries[a.MessageID] = append(content.tries[a.MessageID], a)
	}
	content.Facts, content.Timeline, content.Other = eventFacts(content.Root, detail), newTimeline(detail, now), newOtherBody(detail)
	if !stale.Known() {
		content.addBody(r)
		content.behind = h.waitingBehind(r, found)
		content.Replay = h.newReplayPlan(r, found)
		if !detail.BodyPruned {
			content.Reroute, content.Astray = true, h.entryLink(runbook.WrongDestination)
			content.SendTo = h.destinations()
		}
		content.Redact = !detail.BodyPruned && detail.State != driver.StatePending && detail.State != driver.StateRunning
		content.Form, content.Undo = h.newForm(r), h.newUndoBox(r)
		content.Commands = h.commandsFor(r, detail)
	}
	h.render(w, r, http.StatusOK, "event.html", &page{
		Title: "Event", Heading: newText(detail.EventID, 120).Short, Up: &link{content.Root + "events", "Events"}, Content: content,
		Flash: h.takeFlash(w, r), Live: &live{Every: 10}, Made: stale.orNow(now), See: entriesOf(&detail.Event),
	})
}

// entriesOf returns the entries of the runbook about the state of an event.
func entriesOf(e *Event) []runbook.Entry {
	switch {
	case e.Note == driver.NoteNoRoute:
		return []runbook.Entry{runbook.NoRoute}
	case e.State == driver.StatePending:
		return []runbook.Entry{runbook.Pending}
	case e.State == driver.StateRunning:
		return []runbook.Entry{runbook.Running}
	case e.State == driver.StateDead:
		return []runbook.Entry{runbook.DeadLetters}
	case e.Generation > 0 || e.Attempts > 1:
		return []runbook.Entry{runbook.Twice}
	}
	return nil
}

func eventFacts(root string, d *EventDetail) []fact {
	filter := func(name, value string) string {
		if value == "" {
			return ""
		}
		return root + "events" + queryOf(url.Values{name: {value}})
	}
	facts := []fact{
		{Name: "Source", Value: newText(d.Source, 60), Href: filter("source", d.Source)},
		{Name: "Type", Value: newText(d.Type, 80), Href: filter("type", d.Type)},
		{Name: "Received", When: d.ReceivedAt},
	}
	if !time.Time(d.OccurredAt).IsZero() {
		facts = append(facts, fact{Name: "Occurred, says the sender", When: d.OccurredAt})
	}
	arrived := deliveries(d.Deliveries.Count)
	if d.By == byReconcile {
		facts = append(facts, fact{Name: "By", Value: newText("reconcile: found in the provider's list, so it has no signature", 80)})
		arrived = "no delivery"
		if late := d.Deliveries.Count - 1; late > 0 {
			arrived = deliveries(late) + " later, absorbed"
		}
	} else if d.Deliveries.Count > 1 {
		arrived += ", " + say.Number(d.Deliveries.Count-1) + " absorbed"
	}
	facts = append(facts, fact{Name: "Arrived", Value: newText(arrived, 80)})
	if d.Deliveries.OtherBodies > 0 {
		facts = append(facts, fact{Name: "With another body", Value: newText(deliveries(d.Deliveries.OtherBodies), 80)})
	}
	if d.Deliveries.RepeatOf != "" {
		facts = append(facts, fact{Name: "Same body as", Value: newText(d.Deliveries.RepeatOf, 60), Href: eventLink(root, d.Source, d.Deliveries.RepeatOf)})
	}
	return append(facts,
		fact{Name: "Attempts", Value: newText(say.Number(d.AttemptCount), 20)},
	)
}

func deliveries(n int64) string {
	if n == 1 {
		return "1 delivery"
	}
	return say.Number(n) + " deliveries"
}

func (p *eventPage) addBody(r *http.Request) {
	switch {
	case p.Redacted:
		p.Gone = "The body and the headers were redacted. The identity and the history of the event stay."
	case p.BodyPruned:
		p.Gone = "The body and the headers are past their retention. The identity of the event stays."
	default:
		p.Shown = newBodyView(bytesOf(p.Body, p.BodyBase64), contentType(p.Headers), r.URL.Query().Get("body"))
		p.Download = p.Root + "event/body" + queryOf(url.Values{"source": {p.Source}, "id": {p.EventID}})
		for _, m := range []string{bodyPretty, bodyRaw, bodyHex} {
			values := r.URL.Query()
			values.Del("refresh")
			p.BodyModes = append(p.BodyModes, spanLink{link{queryOf(values, "body", m) + "#body", m}, p.Shown.Mode == m})
		}
	}
}

func contentType(headers map[string][]string) string {
	if values := headers["Content-Type"]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// downloadBody answers with the bytes of a body. The type is one that a browser only stores.
func (h *handling) downloadBody(w http.ResponseWriter, r *http.Request) {
	source, id, ok := h.askedEvent(w, r)
	if !ok {
		return
	}
	found, err := h.readEvent(r, source, id)
	if err != nil {
		h.failStore(w, r, err)
		return
	}
	if found.BodyPruned {
		h.fail(w, r, http.StatusGone, "The body of the event is past its retention or redacted.", nil)
		return
	}
	header := w.Header()
	setSecurityHeaders(header)
	header.Set("Content-Type", "application/octet-stream")
	header.Set("Content-Disposition", `attachment; filename="`+bodyFile(found.EventID)+`"`)
	header.Set("Content-Length", fmt.Sprint(len(found.Body)))
	_, _ = w.Write(found.Body) // a client that is gone needs no answer
}

// bodyFile returns the name of the file that holds the body of an event: letters, digits, "-" and "_"
// of its id.
func bodyFile(id string) string {
	name := strings.Map(func(c rune) rune {
		if strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-", c) {
			return c
		}
		return '_'
	}, id)
	return "event-" + name[:min(len(name), 80)] + ".body"
}
