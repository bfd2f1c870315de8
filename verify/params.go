package verify

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// setParams checks the values of the scheme's parameters, and applies their Sets to s.
func (c *compiler) setParams(s *Scheme) {
	c.params, c.values = slices.Clone(s.Params), maps.Clone(s.Values)
	for name := range s.Values {
		if !slices.ContainsFunc(s.Params, func(p Param) bool { return p.Name == name }) {
			c.fault("params."+name, "the scheme has no such parameter%s", c.knownParams())
		}
	}
	for i, p := range c.params {
		value, field := strings.TrimSpace(c.values[p.Name]), "params."+p.Name
		if value != "" && value != c.values[p.Name] {
			c.fault(field, "it begins or ends with a blank: remove it")
		}
		need := c.oneOf(fmt.Sprintf("params[%d].need", i), p.Need, NeedSignature, NeedSource, NeedOptional)
		switch {
		case value == "" && need == NeedSignature:
			c.fault(field, "set it: %s", p.About)
		case value == "" && need == NeedSource:
			c.v.missing = append(c.v.missing, p)
		case value == "" || p.Sets == nil:
		case p.Sets[value] == nil:
			c.fault(field, "it is none of %s", strings.Join(slices.Sorted(maps.Keys(p.Sets)), ", "))
		default:
			if err := change(s, p.Sets[value]); err != nil {
				c.fault(fmt.Sprintf("params[%d].sets", i), "%q does not change the scheme: %s", value, err)
			}
		}
	}
	c.v.params = c.params
}

func (c *compiler) knownParams() string {
	if len(c.params) == 0 {
		return ""
	}
	var names []string
	for _, p := range c.params {
		names = append(names, p.Name)
	}
	return ": it has " + strings.Join(names, ", ")
}

// change sets the fields of s that raw names. It does not write to memory that s shares with its
// owner.
func change(s *Scheme, raw json.RawMessage) error {
	values := s.Values
	own, err := json.Marshal(s)
	if err != nil {
		return err
	}
	var changed Scheme
	for _, layer := range [][]byte{own, raw} {
		dec := json.NewDecoder(bytes.NewReader(layer))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&changed); err != nil {
			return err
		}
	}
	changed.Values = values
	*s = changed
	return nil
}
