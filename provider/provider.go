// Package provider is the catalog of webhook senders: how each signs, where
// the id, type and time of its events stand, and what is known of how it
// retries. The catalog is data, one JSON file for each provider, embedded and
// decoded when it is first needed.
//
// Only what is published by a provider or seen in its own code is acted on:
// schemes, event rules and limits. What is known of retries feeds warnings and
// time limits that can be overridden, and nothing else.
package provider

import (
	"cmp"
	"time"

	"github.com/hookonce/hookonce/verify"
)

// Spec is what is known of a provider. Specs are shared: do not change one.
type Spec struct {
	Name    Name            `json:"name"`
	Title   string          `json:"title"`
	Docs    string          `json:"docs,omitempty"`    // the provider's own documentation
	Schemes []verify.Scheme `json:"schemes,omitempty"` // the first is the default, if it is not Weak; none: the source must say
	Event   EventRules      `json:"event"`
	// Hint is where the fields of Event that are "" are said to stand, unconfirmed. It
	// is shown to people, and never acted on.
	Hint EventRules `json:"hint"`
	// HintNote says in a sentence why the id is only a hint, or what makes one.
	HintNote   string      `json:"hint_note,omitempty"`
	Handshakes []Handshake `json:"handshakes,omitempty"`
	// Params are what the handshakes need to know, besides the parameters of the
	// schemes; one of the same name is the same.
	Params []verify.Param `json:"params,omitempty"`
	Ack    *Ack           `json:"ack,omitempty"` // nil: any 2xx will do
	Retry  Retry          `json:"retry"`
	// CredentialHeaders carry a shared credential besides those of the schemes, which
	// are found by HiddenHeaders: they are stored only as "<secret>" and never forwarded.
	CredentialHeaders []string `json:"credential_headers,omitempty"`
	MaxBody           int64    `json:"max_body,omitempty"` // bytes, where the provider sends more than 1 MiB
	Notes             []string `json:"notes,omitempty"`    // what a user should know, a sentence each
}

// Scheme is ChooseScheme for those who need no reason: it reports false if there is no
// such scheme, or for "" no default.
func (s *Spec) Scheme(id string) (verify.Scheme, bool) {
	scheme, err := s.ChooseScheme(id)
	return scheme, err == nil
}

// EventRules say where an event's fields stand: location expressions, "" for
// unknown. A location is header:Name, header:Name#key, body:path, item:path,
// outer:path, form:field, query:name, sha256:body, sha256:item, sha256:form:field or, of Type only,
// const:text.
// "[]" behind a segment of a path takes every element of an array, 1 to 64 of them,
// each as a part; a '?' at the end lets a location be missing, as an empty part.
// "a + b" composes, "a | b" takes the first present. CompileRules checks them.
type EventRules struct {
	ID   string `json:"id,omitempty"`   // read strictly
	Type string `json:"type,omitempty"` // read leniently: absent is ""
	Time string `json:"time,omitempty"` // read leniently: absent is the zero time
	// Batch is the array that holds the items of a batch, as body:path, or
	// body: if the document itself is the array. The fields are then item:path.
	// "[]" behind a segment goes into every element of an array on the way, as
	// body:entry[].changes, and outer:path looks into that element, the innermost that
	// encloses the item. "a | b" takes the first that is there; the last one
	// may be "one": the document itself is the only item. At most 10,000 items; an
	// element on the way without the array is malformed, the others are kept.
	Batch string `json:"batch,omitempty"`
	// Document says how a body becomes the JSON document that body: and Batch look
	// into, where it is none itself: form:field (a form whose field holds JSON), xml,
	// form_xml:field (a form whose field holds base64 of XML) or jwt (the claims of
	// the JWT that the body is; texts in it that hold JSON are opened). Of XML the
	// elements are members, repeated ones an array, attributes @name, text beside
	// these #text, without prefixes: body:notification.kind. See Extractor.Document.
	Document string `json:"document,omitempty"`
}

// Or returns r, with the fields of other where r has none.
func (r EventRules) Or(other EventRules) EventRules {
	r.ID = cmp.Or(r.ID, other.ID)
	r.Type = cmp.Or(r.Type, other.Type)
	r.Time = cmp.Or(r.Time, other.Time)
	r.Batch = cmp.Or(r.Batch, other.Batch)
	r.Document = cmp.Or(r.Document, other.Document)
	return r
}

// Retry is what is known of how a provider retries. In the catalog's files a
// duration is a string, as "72h".
type Retry struct {
	// Window is for how long it retries; 0 if unknown or not at all. A dedupe
	// window shorter than it is warned of, and the default is never shorter.
	Window time.Duration `json:"window,omitempty"`
	// Timeout is how long it waits for an answer; 0 if unknown. Where 0.8 of it
	// is shorter than 3 s, that is how long a source of this provider takes for
	// its answer, if its settings do not say otherwise.
	Timeout time.Duration `json:"timeout,omitempty"`
	Note    string        `json:"note,omitempty"` // for people
}
