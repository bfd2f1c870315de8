package config

import (
	"strings"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/provider"
)

var staleKeys = []string{"types", "key", "version"}

// stale reads the rules that skip stale events. batch says whether a delivery of the source holds
// several events.
func (r *sourceReader) stale(s *hookonce.Source, n *node, spec *provider.Spec, batch bool) {
	if n == nil {
		return
	}
	if s.Consume == hookonce.ConsumeSQL {
		r.faultHint(n, "leave it out, or compare versions in the application", "it cannot be applied with consume: sql, because the application itself applies the events")
	}
	items := r.list(n)
	if n.kind == kindSequence && len(items) == 0 {
		r.fault(n, "the list is empty; leave it out to skip nothing")
	}
	for _, item := range items {
		if item.kind != kindMapping {
			r.faultHint(item, "keys: "+strings.Join(staleKeys, ", "), "a rule must be a mapping of keys, but this is %s", item.kind)
			continue
		}
		m := r.mapping(item, staleKeys...)
		s.Stale = append(s.Stale, hookonce.StaleRule{
			Types:   r.types(m.get("types")),
			Key:     r.stored(item, m.get("key"), "key", "where the id of the object stands, as body:data.object.id", spec, batch),
			Version: r.stored(item, m.get("version"), "version", "where its version stands, as body:created", spec, batch),
		})
	}
}

// stored reads a location in a stored event. rule is the node for the fault that it is missing.
func (r *sourceReader) stored(rule, n *node, key, what string, spec *provider.Spec, batch bool) string {
	if n == nil {
		r.fault(rule, "%s is missing: %s", key, what)
		return ""
	}
	text, ok := r.text(n)
	if !ok {
		return ""
	}
	if _, err := spec.ParseStored(text, batch); err != nil {
		r.wrong(n, err)
	}
	return text
}
