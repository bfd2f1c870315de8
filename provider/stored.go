package provider

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/hookonce/hookonce/internal/locate"
	"github.com/hookonce/hookonce/verify"
)

// HiddenHeaders returns the headers that are stored only as "<secret>", in canonical
// form: CredentialHeaders, those in which one of Schemes carries a token, a password or
// a JWT, and those that carry credentials whoever sends them.
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

// ParseStored reads a location expression for what is looked up in an event when
// it is worked on, long after its request: in its headers and its body alone, and
// of a batch in its item (see Extractor.Stored). It refuses what is not stored, and
// what says nothing of an object or of the order of its versions: sums, "[]" and '?'.
func (s *Spec) ParseStored(location string, batch bool) (*locate.Expr, error) {
	e, err := locate.Parse(location)
	if err != nil {
		return nil, err
	}
	for _, ref := range e.Refs() {
		switch in := ref.Kind; {
		case ref.Kind == locate.SHA256 || ref.Each || ref.Optional:
			return nil, fmt.Errorf("%q is not one value that is always there: sums, [] and ? have no place here", ref)
		case in == locate.Query:
			return nil, fmt.Errorf("%q looks into the query string, which is not stored with the event: use a location of a header:, the body: or a form: field", ref)
		case in == locate.Item && !batch:
			return nil, fmt.Errorf("%q looks into an item: set event.batch to the array that holds them", ref)
		case in == locate.Outer:
			return nil, fmt.Errorf("%q looks into what encloses an item, which is not stored with the event: use item:path", ref)
		case (in == locate.Body || in == locate.Form) && batch:
			return nil, fmt.Errorf("%q looks into the body of the batch, of which an event keeps its own item alone: use item:path, not the body or a form", ref)
		case in == locate.Header && slices.ContainsFunc(s.HiddenHeaders(), func(h string) bool { return strings.EqualFold(h, ref.Name) }):
			return nil, fmt.Errorf("%q looks into a header that carries a credential and is stored as <secret>", ref)
		}
	}
	return e, nil
}
