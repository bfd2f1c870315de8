package provider

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/hookonce/hookonce/internal/locate"
)

// Extractor reads the events from the requests of a source. It is immutable and safe for concurrent
// use.
type Extractor struct {
	fields   locate.Fields
	batch    *locate.Batch // nil if a request is one event
	document *documentRule // nil if the body is the document
}

// Event is one event of a request.
type Event struct {
	// IDParts holds the parts of the sender's event id, usually one. They identify the event.
	IDParts []string
	ID      string    // the parts joined by ':', for display
	Type    string    // "" if the sender gave none; at most 255 bytes
	Time    time.Time // when the event happened, in UTC; zero if the sender did not say
	// Body is the request's body, or the item of a batch as it was sent. If EventRules.Document
	// converted the batch, it is the item's JSON.
	Body []byte
}

// Malformed is a request, or an item of a batch, without a usable event.
type Malformed struct {
	Reason string // for the operator: the location and the fault, without values
	Body   []byte // as in Event
	Part   Part
}

// Part is the part of a request that Malformed.Body holds.
type Part int

const (
	PartRequest Part = iota // all of its body
	PartItem                // one item of a batch
	PartEntry               // an element of a batch that should hold items and does not
)

// RuleError is one fault of an EventRules.
type RuleError struct {
	Field string // "event.id", "event.type", "event.time", "event.batch" or "event.document"
	Err   error
}

// Error returns the field and its fault.
func (e *RuleError) Error() string { return e.Field + ": " + e.Err.Error() }

// Unwrap returns Err.
func (e *RuleError) Unwrap() error { return e.Err }

// CompileRules checks r and returns its Extractor. It reports all faults at once, joined by
// errors.Join; each is a *RuleError. An empty r.ID is a fault.
func CompileRules(r EventRules) (*Extractor, error) {
	x := &Extractor{}
	var faults []error
	fault := func(field string, err error) {
		if err != nil {
			faults = append(faults, &RuleError{field, err})
		}
	}
	// Document and Batch come first, because the checks of the fields need them.
	document, documentErr := parseDocument(r.Document)
	x.document = document
	var batchErr error
	if r.Batch != "" {
		x.batch, batchErr = locate.ParseBatch(r.Batch)
	}
	parse := func(field, rule string, parse func(string) (*locate.Expr, error)) *locate.Expr {
		if rule == "" {
			return nil
		}
		e, err := parse(rule)
		if err == nil {
			err = fits(e, r.Batch != "", x.document)
		}
		if err == nil && x.batch != nil && !x.batch.Encloses() && e.Uses(locate.Outer) {
			err = fmt.Errorf("%q looks into the element around an item, but event.batch has no \"[]\": use item:path or body:path", e)
		}
		if err == nil && field == "event.id" && r.Batch != "" && !e.DiffersByItem() {
			err = fmt.Errorf("%q is the same for all items of a batch: use item:path", e)
		}
		fault(field, err)
		return e
	}
	x.fields = locate.Fields{
		ID:   parse("event.id", r.ID, locate.Parse),
		Type: parse("event.type", r.Type, locate.ParseType),
		Time: parse("event.time", r.Time, locate.Parse),
	}
	if r.ID == "" {
		fault("event.id", errors.New("it is not known for this provider: "+
			"set event.id to the place of the sender's event id, such as body:id or header:X-Event-Id"))
	}
	fault("event.batch", batchErr)
	fault("event.document", documentErr)
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	return x, nil
}

// fits refuses locations that cannot exist: in an item without a batch, or in a form if the body is
// not one.
func fits(e *locate.Expr, batch bool, document *documentRule) error {
	switch {
	case !batch && e.Uses(locate.Item):
		return fmt.Errorf("%q looks into an item: set event.batch to the array that holds them", e)
	case !batch && e.Uses(locate.Outer):
		return fmt.Errorf("%q looks into the element around an item: set event.batch to the array of the items, through \"[]\"", e)
	case !e.Uses(locate.Form) || document != nil && document.isForm():
		return nil
	case document != nil:
		return fmt.Errorf("%q looks into a form, but the body is %s", e, document.kind)
	case batch:
		return fmt.Errorf("%q looks into a form, but the body holds the batch as JSON", e)
	}
	return nil
}

// ID returns the expression for the event id.
func (x *Extractor) ID() *locate.Expr { return x.fields.ID }

// Batch reports whether one request may hold several events.
func (x *Extractor) Batch() bool { return x.batch != nil }

// HasDocument reports whether EventRules.Document is set, so that events and items are read from a
// document other than the body.
func (x *Extractor) HasDocument() bool { return x.document != nil }

// Document returns the JSON document that body: and EventRules.Batch refer to. Without
// EventRules.Document it is body without a byte order mark. Document does not check that it is valid JSON. The error
// matches locate.ErrMalformed, and holds no values.
func (x *Extractor) Document(body []byte) ([]byte, error) {
	if x.document == nil {
		return locate.Unmarked(body), nil
	}
	doc := x.document.read(body)
	if doc.Err != nil {
		return nil, fmt.Errorf("%w: %w", locate.ErrMalformed, doc.Err)
	}
	return locate.Unmarked(doc.JSON), nil
}

// EventDocument is Document for the body of one event, as Event.Body has it: an item of a batch is JSON.
func (x *Extractor) EventDocument(body []byte) ([]byte, error) {
	if x.batch != nil {
		return locate.Unmarked(body), nil
	}
	return x.Document(body)
}

// Form reports whether the event is read from the fields of a form: then its body is not JSON.
func (x *Extractor) Form() bool {
	form := false
	for _, e := range []*locate.Expr{x.fields.ID, x.fields.Type, x.fields.Time} {
		if e == nil {
			continue
		}
		if slices.ContainsFunc(e.Refs(), func(r locate.Ref) bool { return r.Kind == locate.Body }) {
			return false
		}
		form = form || e.Uses(locate.Form)
	}
	return form && x.document == nil
}

// Stored returns the input for expressions of Spec.ParseStored, from the header and body of a
// stored event. The body must be without its content encoding.
func (x *Extractor) Stored(header http.Header, body []byte) *locate.Input {
	in := &locate.Input{Header: header, Body: body}
	switch {
	case x.batch != nil:
		in.Item = body
		if x.document != nil {
			in.Document = &locate.Document{JSON: body, XML: x.document.isXML()}
		}
	case x.document != nil:
		in.Document = x.document.read(body)
	}
	return in
}

// Extract returns the events of a verified request, and its malformed parts. Without event.batch it
// returns exactly one Event or one Malformed. With event.batch it returns one per item, and keeps
// their order within each slice. A batch that cannot be read at all gives one Malformed with the
// whole body; an empty batch gives nothing. It does not remove repeated ids within a batch.
//
// Extract ignores in.Item, in.Outer and in.Document. The bodies share the memory of in.Body, or of
// its document.
func (x *Extractor) Extract(in *locate.Input) ([]Event, []Malformed) {
	var made *locate.Document
	if x.document != nil {
		made = x.document.read(in.Body)
	}
	if made != in.Document {
		with := *in
		with.Document = made
		in = &with
	}
	r := x.fields.Reader(in)
	defer r.Close()
	if x.batch == nil {
		return extract(r, &locate.BatchItem{}, in.Body, nil, nil)
	}
	items, err := x.items(in)
	if err != nil {
		return nil, []Malformed{{Reason: err.Error(), Body: in.Body}}
	}
	events := make([]Event, 0, len(items))
	var bad []Malformed
	for i := range items {
		item := &items[i]
		if item.Err != nil {
			bad = append(bad, Malformed{Reason: item.Err.Error(), Body: item.Raw, Part: PartEntry})
			continue
		}
		events, bad = extract(r, item, item.Raw, events, bad)
	}
	return events, bad
}

func (x *Extractor) items(in *locate.Input) ([]locate.BatchItem, error) {
	switch {
	case in.Document == nil:
		return x.batch.Items(in.Body, false)
	case in.Document.Err != nil:
		return nil, in.Document.Err
	}
	return x.batch.Items(in.Document.JSON, in.Document.XML)
}

func extract(r *locate.Reader, item *locate.BatchItem, body []byte, events []Event, bad []Malformed) ([]Event, []Malformed) {
	id, typ, at, err := r.Read(item.Raw, item.Outer)
	if err != nil {
		part := PartRequest
		if item.Raw != nil {
			part = PartItem
		}
		return events, append(bad, Malformed{Reason: "event id: " + err.Error(), Body: body, Part: part})
	}
	return append(events, Event{IDParts: id.Parts, ID: id.Shown(), Type: typ, Time: at, Body: body}), bad
}
