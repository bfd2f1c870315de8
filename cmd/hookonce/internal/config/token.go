package config

import (
	"slices"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/route"
	"github.com/hookonce/hookonce/provider"
	"github.com/hookonce/hookonce/verify"
)

var tokenKeys = []string{"at", "prefix"}

// tokenScheme reads the scheme of a source of provider token.
func (r *sourceReader) tokenScheme(s *hookonce.Source, n *node, m mapping) verify.Scheme {
	for _, key := range []string{"signature", "timestamp"} {
		if value := m.get(key); value != nil {
			r.faultHint(value, "use provider hmac to describe a sender that signs", "provider %s signs nothing", provider.Token)
		}
	}
	token := m.get("token")
	if token == nil {
		r.faultHint(n, `as token: {at: "header:X-Token"}`,
			"provider %s needs token, which says where the sender's secret stands", provider.Token)
		return verify.Scheme{}
	}
	tm := r.mapping(token, tokenKeys...)
	at, ok := r.text(tm.get("at"))
	prefix, _ := r.text(tm.get("prefix"))
	switch {
	case tm.node == nil: // not a mapping
		return verify.Scheme{}
	case tm.get("at") == nil:
		r.fault(token, "at is missing: where the secret stands, as header:X-Token or query:token")
		return verify.Scheme{}
	case !ok:
		return verify.Scheme{}
	}
	scheme, err := provider.TokenScheme(at, prefix)
	if err != nil {
		r.wrongField(err, func(string) *node { return tm.get("at") })
		return scheme
	}
	s.Signature = &scheme
	return scheme
}

// warnOfCondition warns of a condition on a header where a route takes from unsigned sources: it looks
// like authentication, but anyone's request has claimed the id of the event before a route is matched.
func (r *routeReader) warnOfCondition(n *node, where string, sources []string) {
	if !route.ReadsHeader(where) {
		return
	}
	for _, name := range r.sourceNames() {
		if r.unsigned[name] && (len(sources) == 0 || slices.Contains(sources, name)) {
			r.warn(n, "a condition is no authentication: source %s is unsigned, so anyone's request claims an event id, "+
				"and the sender's own is then a duplicate", name)
			r.warnings[len(r.warnings)-1].Hint = "if the header holds a secret, use provider token or basic"
		}
	}
}
