package provider

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hookonce/hookonce/internal/locate"
)

// HiddenHeaders returns the headers that are stored only as "<secret>":
// CredentialHeaders, and those that carry credentials whoever sends them.
func (s *Spec) HiddenHeaders() []string {
	return append(slices.Clone(s.CredentialHeaders), "Authorization", "Proxy-Authorization", "Cookie")
}

// ParseStored reads a location expression for what is looked up in an event when
// it is worked on, long after its request: in its headers and its body alone, and
// of a batch in its item. It refuses what is not stored.
func (s *Spec) ParseStored(location string, batch bool) (*locate.Expr, error) {
	e, err := locate.Parse(location)
	if err == nil {
		err = fitsBatch(e, "", batch)
	}
	if err != nil {
		return nil, err
	}
	for _, ref := range e.Refs() {
		switch {
		case ref.Kind == locate.Query:
			return nil, fmt.Errorf("%q looks into the query string, which is not stored with the event: use a location of a header:, the body: or a form: field", ref)
		case ref.Kind == locate.Body && batch:
			return nil, fmt.Errorf("%q looks into the body of the batch, of which an event keeps its own item alone: use item:path", ref)
		case ref.Kind == locate.Header && slices.ContainsFunc(s.HiddenHeaders(), func(h string) bool { return strings.EqualFold(h, ref.Name) }):
			return nil, fmt.Errorf("%q looks into a header that carries a credential and is stored as <secret>", ref)
		}
	}
	return e, nil
}
