package provider

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hookonce/hookonce/verify"
)

// ChooseScheme returns the scheme with that id, or for "" the one that a source uses
// which names none: the first, unless it is weak or checks nothing, which a source
// must ask for by its name. Only the provider None is such a name itself. The error
// says what there is to choose from; it quotes id.
func (s *Spec) ChooseScheme(id string) (verify.Scheme, error) {
	if len(s.Schemes) == 0 {
		return verify.Scheme{}, fmt.Errorf("provider %s has no schemes; signature says how it signs", s.Name)
	}
	if id != "" {
		i := slices.IndexFunc(s.Schemes, func(c verify.Scheme) bool { return c.ID == id })
		if i < 0 {
			return verify.Scheme{}, fmt.Errorf("provider %s has no scheme %q; it has %s", s.Name, id, strings.Join(s.schemeIDs(), ", "))
		}
		return s.Schemes[i], nil
	}
	first := s.Schemes[0]
	switch {
	case first.Family == verify.FamilyNone && s.Name != None:
		return verify.Scheme{}, fmt.Errorf("provider %s signs nothing, so anyone could send: where that is acceptable, say so with scheme %s%s",
			s.Name, first.ID, s.otherSchemes())
	case first.Weak != "":
		return verify.Scheme{}, fmt.Errorf("provider %s has no default scheme, as %s is weak (%s): name the scheme, if it is to be used all the same%s",
			s.Name, first.ID, first.Weak, s.otherSchemes())
	}
	return first, nil
}

func (s *Spec) schemeIDs() []string {
	ids := make([]string, len(s.Schemes))
	for i := range s.Schemes {
		ids[i] = s.Schemes[i].ID
	}
	return ids
}

func (s *Spec) otherSchemes() string {
	if len(s.Schemes) < 2 {
		return ""
	}
	return "; there are " + strings.Join(s.schemeIDs(), ", ")
}

// ParamsOf returns what a source that uses scheme can be told: the parameters of the
// scheme, and those of the handshakes.
func (s *Spec) ParamsOf(scheme *verify.Scheme) []verify.Param {
	params := slices.Clone(scheme.Params)
	for _, p := range s.Params {
		if !slices.ContainsFunc(scheme.Params, func(own verify.Param) bool { return own.Name == p.Name }) {
			params = append(params, p)
		}
	}
	return params
}

// SetParams gives scheme those of values that are its own parameters. All faults are
// reported at once, joined: names that are not of ParamsOf, empty values, and
// parameters that are missing without which a source must not be. Each is a
// *verify.FieldError of "params.NAME", which does not quote the value.
func (s *Spec) SetParams(scheme *verify.Scheme, values map[string]string) error {
	var faults []error
	fault := func(name, format string, args ...any) {
		faults = append(faults, &verify.FieldError{Field: "params." + name, Problem: fmt.Sprintf(format, args...)})
	}
	params := s.ParamsOf(scheme)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !slices.ContainsFunc(params, func(p verify.Param) bool { return p.Name == name }) {
			fault(name, "%s", s.noSuchParam(params))
		}
	}
	set := maps.Clone(scheme.Values)
	for i := range params {
		p := &params[i]
		value, given := values[p.Name]
		switch {
		case given && strings.TrimSpace(value) == "":
			fault(p.Name, "it is empty")
		case !given && set[p.Name] == "" && p.Need != verify.NeedOptional:
			fault(p.Name, "it is missing: %s", p.About)
		case given && i < len(scheme.Params): // the others are of handshakes alone
			if set == nil {
				set = make(map[string]string)
			}
			set[p.Name] = value
		}
	}
	scheme.Values = set
	return errors.Join(faults...)
}

func (s *Spec) noSuchParam(params []verify.Param) string {
	if len(params) == 0 {
		return fmt.Sprintf("provider %s takes no parameters here", s.Name)
	}
	names := make([]string, len(params))
	for i := range params {
		names[i] = params[i].Name
	}
	return fmt.Sprintf("provider %s takes no parameter of this name; it takes %s", s.Name, strings.Join(names, ", "))
}

// DeliversSecret reports whether the provider hands its secret over in a handshake, so
// that a source need not have one at first.
func (s *Spec) DeliversSecret() bool {
	return slices.ContainsFunc(s.Handshakes, func(h Handshake) bool { return h.Delivers != "" })
}

// EventHint says in one sentence what is said, unconfirmed, of where the field of
// this name stands ("id", "type", "time" or "batch"), or "" if nothing is.
func (s *Spec) EventHint(field string) string {
	hint := map[string]string{"id": s.Hint.ID, "type": s.Hint.Type, "time": s.Hint.Time, "batch": s.Hint.Batch}[field]
	switch {
	case hint != "" && s.HintNote != "":
		return fmt.Sprintf("not confirmed: it is said to be %s (%s); look at one delivery, and set event.%s", hint, strings.TrimSuffix(s.HintNote, "."), field)
	case hint != "":
		return fmt.Sprintf("not confirmed: it is said to be %s; look at one delivery, and set event.%s", hint, field)
	case field == "id" && s.HintNote != "":
		return strings.TrimSuffix(s.HintNote, ".")
	}
	return ""
}
