// Package provider is the catalog of webhook senders. For each provider it holds the signature
// schemes, the locations of an event's id, type and time, the handshakes, the expected answer, and
// known facts about retries. The catalog is data: one embedded JSON file per provider, decoded on
// first use.
//
// Lookup returns the Spec of a provider. From there:
//
//   - ChooseScheme and SetParams give the scheme to pass to verify.Compile.
//   - CompileRules turns the event rules into an Extractor, and Extractor.Extract reads the events
//     of a request.
//   - CompileHandshakes turns the handshakes into a matcher. Handshakes.Match recognises a
//     handshake, and Shake.Reply answers it.
//   - AckSignature.Signer signs answers for providers that demand it.
//
// Schemes, event rules and limits hold only facts that the provider publishes, or that its own code
// shows. Hints are unconfirmed, and only shown to users. Facts about retries feed warnings, and
// defaults that settings can override.
package provider

import (
	"cmp"
	"time"

	"github.com/hookonce/hookonce/verify"
)

// Spec is the catalog's entry for a provider. Callers of Lookup share it: do not change it.
type Spec struct {
	Name  Name   `json:"name"`
	Title string `json:"title"`
	Docs  string `json:"docs,omitempty"` // URL of the provider's documentation
	// Evidence says how the entry is known.
	Evidence Evidence        `json:"evidence"`
	Schemes  []verify.Scheme `json:"schemes,omitempty"` // the first is the default, unless it is weak; empty: the source must describe its scheme
	Event    EventRules      `json:"event"`
	// Hint holds unconfirmed locations for fields of Event that are "". It is shown to users, but
	// never used.
	Hint EventRules `json:"hint"`
	// HintNote says in one sentence why the id is only a hint, or how to make one.
	HintNote   string      `json:"hint_note,omitempty"`
	Handshakes []Handshake `json:"handshakes,omitempty"`
	// Params lists parameters of the handshakes. One that a scheme also has is the same parameter.
	Params []verify.Param `json:"params,omitempty"`
	Ack    *Ack           `json:"ack,omitempty"` // nil: the provider accepts any 2xx
	Retry  Retry          `json:"retry"`
	List   *List          `json:"list,omitempty"` // nil: it is not known that an API lists the events
	// NoList says why a provider whose API shows events has no List, after "no: ". "" if nothing is known.
	NoList string `json:"no_list,omitempty"`
	// CredentialHeaders names headers with a shared credential, besides those of the schemes. They
	// are stored only as "<secret>" and never forwarded. See HiddenHeaders for all of them.
	CredentialHeaders []string `json:"credential_headers,omitempty"`
	MaxBody           int64    `json:"max_body,omitempty"` // bytes; set if the provider sends more than 1 MiB
	Notes             []string `json:"notes,omitempty"`    // facts for users, one sentence each
	// Sample maps locations (header:Name, body:path, query:name, form:field) to values that every
	// request of the provider has, and that its own verifier may demand. Made-up requests get them
	// where nothing else is set. {time:FORMAT} is the time, in a format of verify.Timestamp; the
	// location may be that of the event's time.
	Sample map[string]string `json:"sample,omitempty"`
}

// Scheme is ChooseScheme without the reason: it returns false if there is no such scheme, or no
// default for "".
func (s *Spec) Scheme(id string) (verify.Scheme, bool) {
	scheme, err := s.ChooseScheme(id)
	return scheme, err == nil
}

// EventRules holds the location expressions of an event's fields; "" means unknown. CompileRules
// checks them.
//
// A location is header:Name, header:Name#key, body:path, item:path, outer:path, form:field,
// query:name, sha256:body, sha256:item, sha256:form:field or, for Type only, const:text. "[]" after
// a segment of a path takes every element of an array, 1 to 64 of them, each as a part. A '?' at
// the end allows a location to be absent, as an empty part. "a + b" composes parts, "a | b" takes
// the first present one.
type EventRules struct {
	ID   string `json:"id,omitempty"`   // required; read strictly: anything but one clear value is malformed
	Type string `json:"type,omitempty"` // read leniently: "" if absent
	Time string `json:"time,omitempty"` // read leniently: zero if absent
	// Batch is the array with the items of a batch: body:path, or body: if the document is the
	// array. The fields are then item:path. At most 10,000 items.
	//
	// "[]" after a segment goes into every element of an array on the way, such as
	// body:entry[].changes; outer:path then looks into the innermost such element around the item.
	// An element without the array is malformed; the others are kept. "a | b" takes the first
	// present array, and the last alternative may be "one": the document itself is the only item.
	Batch string `json:"batch,omitempty"`
	// Document says how to turn a body that is not JSON into the JSON document of body: and Batch:
	// form:field (a form field with JSON), xml, form_xml:field (a form field with base64 of XML) or
	// jwt (the claims of the JWT in the body, with texts that hold JSON replaced by that JSON). See
	// Extractor.Document.
	//
	// For XML, elements become members, repeated elements an array, attributes @name, and text
	// beside them #text, all without prefixes: body:notification.kind.
	Document string `json:"document,omitempty"`
}

// Or returns r with its empty fields set from other.
func (r EventRules) Or(other EventRules) EventRules {
	r.ID = cmp.Or(r.ID, other.ID)
	r.Type = cmp.Or(r.Type, other.Type)
	r.Time = cmp.Or(r.Time, other.Time)
	r.Batch = cmp.Or(r.Batch, other.Batch)
	r.Document = cmp.Or(r.Document, other.Document)
	return r
}

// Retry holds known facts about a provider's retries. The catalog's files write a duration as a
// string, such as "72h".
type Retry struct {
	// Window is how long the provider retries; 0 if unknown, or if it does not. The default dedupe
	// window is never shorter, and a shorter one in the settings gives a warning.
	Window time.Duration `json:"window,omitempty"`
	// Timeout is how long the provider waits for an answer; 0 if unknown. If 0.8 of Timeout is less
	// than 3 s, it becomes the default ack_timeout of a source.
	Timeout time.Duration `json:"timeout,omitempty"`
	Note    string        `json:"note,omitempty"` // for users
	// Signed says which time the attempts carry: SignedAnew, SignedOnce or SignedUndocumented; "" if there are no
	// retries, or if the schemes sign no time. SignedSource says where that is known from, or where it was looked for.
	Signed       string `json:"signed,omitempty"`
	SignedSource string `json:"signed_source,omitempty"`
}

// Values of Retry.Signed.
const (
	SignedAnew = "anew" // every attempt has a time and a signature of its own
	SignedOnce = "once" // every attempt has those of the first, so the tolerance must cover the retries

	SignedUndocumented = "not documented"
)
