package provider

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/hookonce/hookonce/internal/locate"
	"github.com/hookonce/hookonce/verify"
)

// HiddenHeaders returns the canonical names of the headers that are stored only as "<secret>":
// CredentialHeaders, the headers of tokens, passwords and JWTs in Schemes, and Authorization,
// Proxy-Authorization and Cookie.
func (s *Spec) HiddenHeaders() []string {
	var hidden []string
	add := func(names ...string) {
		for _, name := range names {
			name = http.CanonicalHeaderKey(name)
			if name != "" && !slices.Contains(hidden, name) {
				hidden = append(hidden, name)
			}
		}
	}
	add(s.CredentialHeaders...)
	for i := range s.Schemes {
		headers, _ := Carriers(&s.Schemes[i])
		add(headers...)
	}
	add("Authorization", "Proxy-Authorization", "Cookie")
	return hidden
}

// SecretInBody reports whether a token, a password or a JWT in Schemes is in the body, or in a form or
// an item there.
func (s *Spec) SecretInBody() bool {
	return slices.ContainsFunc(s.Schemes, func(scheme verify.Scheme) bool {
		inBody := scheme.At != "" && !strings.HasPrefix(scheme.At, "query:") && !strings.HasPrefix(scheme.At, "header:")
		return inBody && carriesCredential(&scheme)
	})
}

// ParseStored parses a location expression for stored events, whose requests are gone: it can look
// into the headers, the body, or with batch the item (see Extractor.Stored). It refuses locations
// that are not stored. It also refuses sums, "[]" and '?', which identify no object and do not
// order its versions.
func (s *Spec) ParseStored(location string, batch bool) (*locate.Expr, error) {
	e, err := locate.Parse(location)
	if err != nil {
		return nil, err
	}
	for _, ref := range e.Refs() {
		switch in := ref.Kind; {
		case ref.Kind == locate.SHA256 || ref.Each || ref.Optional:
			return nil, fmt.Errorf("%q must be one value that is always present: sums, [] and ? are not allowed", ref)
		case in == locate.Query:
			return nil, fmt.Errorf("%q looks into the query string, which is not stored with the event: use a location of a header:, the body: or a form: field", ref)
		case in == locate.Item && !batch:
			return nil, fmt.Errorf("%q looks into an item: set event.batch to the array that holds them", ref)
		case in == locate.Outer:
			return nil, fmt.Errorf("%q looks into the element around an item, which is not stored with the event: use item:path", ref)
		case (in == locate.Body || in == locate.Form) && batch:
			return nil, fmt.Errorf("%q looks into the body of the batch, but an event stores only its own item: use item:path", ref)
		case in == locate.Header && s.hides(ref.Name):
			return nil, fmt.Errorf("%q looks into a header that carries a credential and is stored as <secret>", ref)
		}
	}
	return e, nil
}

// ExtractStored is Extract for a part of a request that was kept as Malformed, with its stored
// header. The body must be without its content encoding. hidden is the value that replaces the
// values of secret headers.
//
// A part is stored without the query string, without the values of secret headers and, unless it is
// the whole request, without the rest of its batch. ExtractStored never reads an id or a type
// without a location of its rule: the result could be the id of another event, or a type without a
// route. Then the part is Malformed again.
func (x *Extractor) ExtractStored(part Part, header http.Header, body []byte, hidden string) ([]Event, []Malformed) {
	if err := x.readable(part, header, hidden); err != nil {
		return nil, []Malformed{{Reason: err.Error(), Body: body, Part: part}}
	}
	if part == PartRequest {
		return x.Extract(&locate.Input{Header: header, Body: body})
	}
	in := &locate.Input{Header: header}
	if x.document != nil {
		in.Document = &locate.Document{XML: x.document.isXML()}
	}
	r := x.fields.Reader(in)
	defer r.Close()
	return extract(r, &locate.BatchItem{Raw: body}, body, nil, nil)
}

// readable returns why the fields of an event cannot be read from a stored part, or nil.
func (x *Extractor) readable(part Part, header http.Header, hidden string) error {
	switch {
	case part == PartEntry:
		return errors.New("an element of a batch without its items is stored apart from its batch, so it cannot be read: have the sender deliver the batch again")
	case part == PartItem && x.batch == nil:
		return errors.New("event.batch: this is an item of a batch, and the source has no event.batch now")
	}
	for _, rule := range []struct {
		field string
		expr  *locate.Expr
	}{{"event.id", x.fields.ID}, {"event.type", x.fields.Type}} {
		if rule.expr == nil {
			continue
		}
		for _, ref := range rule.expr.Refs() {
			var lacks string
			switch in := ref.In(); {
			case in == locate.Query:
				lacks = "the query string"
			case in == locate.Header && slices.Contains(header.Values(ref.Name), hidden):
				lacks = "the value of that header"
			case part == PartItem && (in == locate.Body || in == locate.Outer || in == locate.Form):
				lacks = "the rest of its batch"
			default:
				continue
			}
			return fmt.Errorf("%s: %q cannot be read, because the request is stored without %s: have the sender deliver it again", rule.field, ref, lacks)
		}
	}
	return nil
}
