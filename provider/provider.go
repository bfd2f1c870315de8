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
	"time"

	"github.com/hookonce/hookonce/verify"
)

// Name names a provider of the catalog.
type Name string

// The providers of the catalog.
const (
	Stripe           Name = "stripe"
	GitHub           Name = "github"
	StandardWebhooks Name = "standard-webhooks"
	HMAC             Name = "hmac" // any HMAC sender; the source says how it signs
	None             Name = "none" // unsigned; the source says where the event id stands
)

// Spec is what is known of a provider. Specs are shared: do not change one.
type Spec struct {
	Name    Name            `json:"name"`
	Title   string          `json:"title"`
	Docs    string          `json:"docs,omitempty"`    // the provider's own documentation
	Schemes []verify.Scheme `json:"schemes,omitempty"` // the first is the default; none: the source must say
	Event   EventRules      `json:"event"`
	Retry   Retry           `json:"retry"`
	// CredentialHeaders carry a shared credential: they are stored only as
	// "<secret>" and never forwarded.
	CredentialHeaders []string `json:"credential_headers,omitempty"`
	MaxBody           int64    `json:"max_body,omitempty"` // bytes, where the provider sends more than 1 MiB
}

// Scheme returns the scheme with that id, or the default one for "". It
// reports false if there is none.
func (s *Spec) Scheme(id string) (verify.Scheme, bool) {
	for _, scheme := range s.Schemes {
		if id == "" || scheme.ID == id {
			return scheme, true
		}
	}
	return verify.Scheme{}, false
}

// EventRules say where an event's fields stand: location expressions (as
// header:Name, body:path; "a + b" composes, "a | b" takes the first present),
// "" for unknown. CompileRules checks them.
type EventRules struct {
	ID   string `json:"id,omitempty"`   // read strictly
	Type string `json:"type,omitempty"` // read leniently: absent is ""
	Time string `json:"time,omitempty"` // read leniently: absent is the zero time
	// Batch is the array that holds the items of a batch, as body:path, or
	// body: if the document itself is the array. The fields are then item:path.
	Batch string `json:"batch,omitempty"`
}

// Retry is what is known of how a provider retries. In the catalog's files a
// duration is a string, as "72h".
type Retry struct {
	// Window is for how long it retries; 0 if unknown or not at all. A dedupe
	// window shorter than it is warned of.
	Window time.Duration `json:"window,omitempty"`
	// Timeout is how long it waits for an answer; 0 if unknown. Where 0.8 of it
	// is shorter than 3 s, that is how long a source of this provider takes for
	// its answer, if its settings do not say otherwise.
	Timeout time.Duration `json:"timeout,omitempty"`
	Note    string        `json:"note,omitempty"` // for people
}
