package provider

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hookonce/hookonce/internal/locate"
)

// Extractor takes the events out of requests of one source. It is immutable
// and safe for concurrent use.
type Extractor struct {
	fields locate.Fields
	batch  *locate.Path // nil if a request is one event
}

// Event is one event of a request.
type Event struct {
	// IDParts are the parts of the sender's id, one for most; its identity is
	// made of them.
	IDParts []string
	ID      string    // the parts joined by ':', to be shown
	Type    string    // "" if the sender did not say; at most 255 bytes
	Time    time.Time // when it happened, UTC; zero if the sender did not say
	Body    []byte    // the request's body, or of a batch the item as it was sent
}

// Malformed is a request, or an item of a batch, that holds no usable event.
type Malformed struct {
	Reason string // for the operator: where and what is wrong, without the values
	Body   []byte // as in Event
}

// RuleError is one fault of an EventRules.
type RuleError struct {
	Field string // "event.id", "event.type", "event.time" or "event.batch"
	Err   error
}

// Error returns the field and what is wrong with it.
func (e *RuleError) Error() string { return e.Field + ": " + e.Err.Error() }

// Unwrap returns Err.
func (e *RuleError) Unwrap() error { return e.Err }

// CompileRules checks r. All its faults are reported at once, joined; each is
// a *RuleError.
func CompileRules(r EventRules) (*Extractor, error) {
	x := &Extractor{}
	var faults []error
	parse := func(field, rule string) *locate.Expr {
		if rule == "" {
			return nil
		}
		e, err := locate.Parse(rule)
		if err == nil {
			err = fitsBatch(e, field, r.Batch != "")
		}
		if err != nil {
			faults = append(faults, &RuleError{field, err})
		}
		return e
	}
	x.fields = locate.Fields{
		ID: parse("event.id", r.ID), Type: parse("event.type", r.Type), Time: parse("event.time", r.Time),
	}
	if r.ID == "" {
		faults = append(faults, &RuleError{"event.id", errors.New("it is not known for this provider: " +
			"set event.id to the place of the sender's event id, such as body:id or header:X-Event-Id")})
	}
	if r.Batch != "" {
		path, err := parseBatch(r.Batch)
		if err != nil {
			faults = append(faults, &RuleError{"event.batch", err})
		}
		x.batch = &path
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	return x, nil
}

// fitsBatch refuses rules that cannot work: ids that are the same for all items
// of a batch, items where there are none, and a JSON body that is also a form.
func fitsBatch(e *locate.Expr, field string, batch bool) error {
	if !batch && e.Uses(locate.Item) {
		return fmt.Errorf("%q looks into an item: set event.batch to the array that holds them", e)
	}
	if batch && e.Uses(locate.Form) {
		return fmt.Errorf("%q looks into a form, and the body holds the batch as JSON", e)
	}
	if batch && field == "event.id" && !e.DiffersByItem() {
		return fmt.Errorf("%q is the same for all items of a batch: use item:path", e)
	}
	return nil
}

func parseBatch(rule string) (locate.Path, error) {
	text, ok := strings.CutPrefix(strings.TrimSpace(rule), string(locate.Body)+":")
	if !ok {
		return locate.Path{}, fmt.Errorf("%q is not in the body: use body:path, or body: if the body is the array", rule)
	}
	path, err := locate.ParsePath(text)
	if err != nil {
		return locate.Path{}, fmt.Errorf("%q: %w", rule, err)
	}
	return path, nil
}

// ID returns the expression that the event id is read by.
func (x *Extractor) ID() *locate.Expr { return x.fields.ID }

// Extract returns the events of a verified request, and what of it is not
// usable. Without event.batch it returns one of either. With it there is one
// for each item, in order within its kind; a batch that cannot be read as a
// whole is one Malformed with the whole body, and an empty one is nothing at
// all. Equal ids within one batch are all returned. in.Item is ignored. The
// bodies share the memory of in.Body.
func (x *Extractor) Extract(in *locate.Input) ([]Event, []Malformed) {
	r := x.fields.Reader(in)
	if x.batch == nil {
		return extract(r, nil, in.Body, nil, nil)
	}
	items, err := locate.Items(in.Body, *x.batch)
	if err != nil {
		return nil, []Malformed{{Reason: err.Error(), Body: in.Body}}
	}
	events := make([]Event, 0, len(items))
	var bad []Malformed
	for _, item := range items {
		events, bad = extract(r, item, item, events, bad)
	}
	return events, bad
}

func extract(r *locate.Reader, item, body []byte, events []Event, bad []Malformed) ([]Event, []Malformed) {
	id, typ, at, err := r.Read(item)
	if err != nil {
		return events, append(bad, Malformed{Reason: "event id: " + err.Error(), Body: body})
	}
	return append(events, Event{IDParts: id.Parts, ID: id.Shown(), Type: typ, Time: at, Body: body}), bad
}
