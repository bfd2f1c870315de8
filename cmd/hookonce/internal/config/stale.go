package config

import (
	"strings"

	"github.com/hookonce/hookonce"
)

var staleKeys = []string{"types", "key", "version"}

// stale reads the rules that skip stale events.
func (r *sourceReader) stale(n *node) (rules []hookonce.StaleRule) {
	items := r.list(n)
	if n != nil && n.kind == kindSequence && len(items) == 0 {
		r.fault(n, "the list is empty; leave it out to skip nothing")
	}
	for _, item := range items {
		if item.kind != kindMapping {
			r.faultHint(item, "keys: "+strings.Join(staleKeys, ", "), "a rule must be a mapping of keys, but this is %s", item.kind)
			rules = append(rules, hookonce.StaleRule{}) // the others keep their numbers
			continue
		}
		m := r.mapping(item, staleKeys...)
		rule := hookonce.StaleRule{Types: r.types(m.get("types"))}
		rule.Key, _ = r.text(m.get("key"))
		rule.Version, _ = r.text(m.get("version"))
		rules = append(rules, rule)
	}
	return rules
}
