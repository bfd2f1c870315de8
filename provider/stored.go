package provider

import (
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
		switch s.Schemes[i].Family {
		case verify.FamilyToken, verify.FamilyBasic, verify.FamilyJWT:
			add(s.Schemes[i].Header)
			add(s.Schemes[i].MoreHeaders...)
		}
	}
	add("Authorization", "Proxy-Authorization", "Cookie")
	return hidden
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
		case in == locate.Header && slices.ContainsFunc(s.HiddenHeaders(), func(h string) bool { return strings.EqualFold(h, ref.Name) }):
			return nil, fmt.Errorf("%q looks into a header that carries a credential and is stored as <secret>", ref)
		}
	}
	return e, nil
}
