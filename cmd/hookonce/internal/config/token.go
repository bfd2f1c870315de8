package config

import (
	"errors"
	"slices"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/route"
	"github.com/hookonce/hookonce/provider"
	"github.com/hookonce/hookonce/verify"
)

var tokenKeys = []string{"at", "prefix"}

// tokenScheme reads the scheme of a source of provider token; nil if there is none.
func (r *sourceReader) tokenScheme(n *node) *verify.Scheme {
	m := r.mapping(n, tokenKeys...)
	at, ok := r.text(m.get("at"))
	prefix, _ := r.text(m.get("prefix"))
	if m.node != nil && m.get("at") == nil {
		r.fault(n, "at is missing: where the secret stands, as header:X-Token or query:token")
	}
	if !ok {
		return nil
	}
	scheme, err := provider.TokenScheme(at, prefix)
	var fault *verify.FieldError
	if errors.As(err, &fault) {
		r.wrong(m.get("at"), errors.New(fault.Problem))
	}
	return &scheme
}

// warnOfCondition warns of a condition on a header where a route takes from unsigned sources: it looks
// like authentication, but anyone's request has claimed the id of the event before a route is matched.
func (r *routeReader) warnOfCondition(n *node, where string, sources []string) {
	if !route.ReadsHeader(where) {
		return
	}
	for _, name := range r.sourceNames() {
		if r.unsigned(name) && (len(sources) == 0 || slices.Contains(sources, name)) {
			r.warn(n, "a condition is no authentication: source %s is unsigned, so anyone's request claims an event id, "+
				"and the sender's own is then a duplicate", name)
			r.warnings[len(r.warnings)-1].Hint = "if the header holds a secret, use provider token or basic"
		}
	}
}

// unsigned reports whether the source of that name checks nothing.
func (r *routeReader) unsigned(name string) bool {
	i := slices.IndexFunc(r.config.Sources, func(s hookonce.Source) bool { return s.Name == name })
	spec, err := provider.Lookup(r.config.Sources[i].Provider)
	if err != nil {
		return false // reported with the source
	}
	scheme, _ := spec.ChooseScheme(r.config.Sources[i].Scheme)
	return scheme.Family == verify.FamilyNone
}
