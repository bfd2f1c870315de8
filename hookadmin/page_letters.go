package hookadmin

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/runbook"
)

// letterParameters are the parameters of the page /dead-letters. select=page ticks all rows, for
// browsers without JavaScript.
var letterParameters = []string{
	"source", "type", "destination", "note", "signature", "id", "message_id", "q", "since", "until", "tz", "limit", "cursor", "select", "refresh",
}

// lettersPage is the content of deadletters.html.
type lettersPage struct {
	*listPage
	Form    form
	Undo    *undoBox
	Groups  *letterGroups // nil if the page shows none
	Rows    []DeadLetter
	Here    string // the query of this page, for the way back
	Select  string // link to the page with all rows ticked
	Ticked  bool
	Matched []formField // the filters, as hidden fields of the form for all that match
}

// letterOf names a dead letter in a form: "m/" and the message, or "e/", the source, and the event.
func letterOf(l *DeadLetter) string {
	if l.MessageID != "" {
		return "m/" + l.MessageID
	}
	return rowOf(l.Source, l.EventID)
}

func (h *handling) showLettersPage(w http.ResponseWriter, r *http.Request) {
	values, ok := h.query(w, r)
	if !ok {
		return
	}
	now := time.Now()
	ticked := values.Get("select") == "page"
	values.Del("select")
	l := startList(r, values, "dead-letters", letterParameters)
	found, status := listed(h, r, l, h.ofSources(ParseDeadLetterFilter), h.store.DeadLetters, NewDeadLetterPage)
	l.letterFields(h)
	content := &lettersPage{
		listPage: l, Form: h.newForm(r), Undo: h.newUndoBox(r), Here: strings.TrimPrefix(queryOf(maps.Clone(values)), "?"), Ticked: ticked,
		Select: l.Root + l.path + queryOf(maps.Clone(values), "select", "page"),
	}
	if found != nil {
		content.Rows = found.DeadLetters
	}
	if l.Stale.Known() || l.Away != "" {
		content.Form, content.Undo = form{}, nil // they would fail
	} else if found != nil {
		l.page(found.Next)
		l.searchedUntil(found.SearchedUntil)
		if len(content.Rows) == 0 && l.Searched == "" {
			l.Empty = h.noLetters(r, l)
		} else {
			content.Groups = h.groupsFor(r, l)
		}
	}
	content.Matched = fieldsSet(values, letterParameters[:10]...)
	var about []runbook.Entry
	if len(content.Rows) > 0 {
		about = []runbook.Entry{runbook.DeadLetters}
	}
	h.render(w, r, status, "deadletters.html", &page{
		Title: "Dead letters", Content: content, Flash: h.takeFlash(w, r), Live: l.orRetry(liveUnless(ticked, status, l)), Made: l.Stale.orNow(now), See: about,
	})
}

// liveUnless returns how the page of dead letters stays fresh. One with ticked rows, or with a fault,
// stays as it is.
func liveUnless(ticked bool, status int, l *listPage) *live {
	if ticked || status != http.StatusOK || l.values.Get("cursor") != "" {
		return nil
	}
	return &live{On: "attempt:dead event:dead", Source: l.values.Get("source"), Type: l.values.Get("type")}
}

func (l *listPage) letterFields(h *handling) {
	l.field("source", "Source", "", h.sources()...)
	l.field("destination", "Destination", "", h.destinations()...)
	l.field("type", "Type", "invoice.paid")
	l.field("id", "Event id", "evt_1")
	l.field("message_id", "Message id", "msg_1")
	l.field("q", "Text in id, type or body", "")
	l.field("note", "Note", driver.NoteTxEnded)
	l.field("signature", "Error signature", "answered 500")
	l.spanFields()
}

func (h *handler) noLetters(r *http.Request, l *listPage) *empty {
	if !l.filtered() {
		return &empty{Title: "No dead letters.", Text: "Everything that arrived was processed, waits for its next attempt, or was given up by an operator."}
	}
	return l.whyEmpty(r, "dead letters", anyOf(h.ofSources(ParseDeadLetterFilter), h.store.DeadLetters,
		func(p *driver.DeadLetterPage) int { return len(p.DeadLetters) }))
}

// parseLetters reads the values that letterOf wrote.
func parseLetters(letters []string) (*driver.JobSelection, error) {
	s := &driver.JobSelection{}
	if len(letters) == 0 {
		return nil, fmt.Errorf("no dead letter was selected")
	}
	if len(letters) > driver.MaxLimit {
		return nil, fmt.Errorf("more than %d dead letters were selected; use “all that match”", driver.MaxLimit)
	}
	seen := make(map[string]bool)
	for _, letter := range letters {
		kind, name, _ := strings.Cut(letter, "/")
		source, id, _ := strings.Cut(name, "/")
		source, err := url.PathUnescape(source)
		switch {
		case seen[letter]:
			return nil, fmt.Errorf("the dead letter %.100q appears twice", letter)
		case kind == "m" && name != "":
			s.MessageIDs = append(s.MessageIDs, name)
		case kind == "e" && err == nil && source != "" && id != "":
			s.Events = append(s.Events, driver.JobEvent{Source: source, ID: id})
		default:
			return nil, fmt.Errorf("%.100q does not name a dead letter", letter)
		}
		seen[letter] = true
	}
	return s, nil
}
