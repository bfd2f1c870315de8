package provider

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hookonce/hookonce/verify"
)

// ChooseScheme returns the scheme with the given id. For "" it returns the default: the first
// scheme, unless that is weak or checks nothing; a source must name such a scheme. The provider
// None is an exception, because its name says that nothing is checked. The error lists the schemes,
// and quotes id.
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
		return verify.Scheme{}, fmt.Errorf("provider %s has no default scheme, because %s is weak (%s): set scheme to use it anyway%s",
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
	return "; available: " + strings.Join(s.schemeIDs(), ", ")
}

// ParamsOf returns the parameters that a source with the given scheme accepts: those of the scheme
// and those of the handshakes.
func (s *Spec) ParamsOf(scheme *verify.Scheme) []verify.Param {
	params := slices.Clone(scheme.Params)
	for _, p := range s.Params {
		if !slices.ContainsFunc(scheme.Params, func(own verify.Param) bool { return own.Name == p.Name }) {
			params = append(params, p)
		}
	}
	return params
}

// SetParams sets scheme.Values to the given values of the scheme's parameters. It reports all
// faults at once, joined by errors.Join: names that ParamsOf does not return, empty values, and
// missing values of required parameters. Each is a *verify.FieldError for "params.NAME", and does
// not quote the value.
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
		case given && i < len(scheme.Params): // the rest belongs to handshakes only
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

// DeliversSecret reports whether the provider sends its secret in a handshake, so that a source can
// start without one.
func (s *Spec) DeliversSecret() bool {
	return slices.ContainsFunc(s.Handshakes, func(h Handshake) bool { return h.Delivers != "" })
}

// EventHint returns the unconfirmed location of a field ("id", "type", "time" or "batch") as one
// sentence for users, or "".
func (s *Spec) EventHint(field string) string {
	hint := map[string]string{"id": s.Hint.ID, "type": s.Hint.Type, "time": s.Hint.Time, "batch": s.Hint.Batch}[field]
	switch {
	case hint != "" && s.HintNote != "":
		return fmt.Sprintf("not confirmed: probably %s (%s); look at one delivery, then set event.%s", hint, strings.TrimSuffix(s.HintNote, "."), field)
	case hint != "":
		return fmt.Sprintf("not confirmed: probably %s; look at one delivery, then set event.%s", hint, field)
	case field == "id" && s.HintNote != "":
		return strings.TrimSuffix(s.HintNote, ".")
	}
	return ""
}
