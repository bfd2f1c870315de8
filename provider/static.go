package provider

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/hookonce/hookonce/internal/headers"
	"github.com/hookonce/hookonce/internal/locate"
	"github.com/hookonce/hookonce/verify"
)

// TokenScheme returns the scheme of a sender of provider Token, for Source.Signature. Its secret is at
// header:Name or query:name, after prefix, such as "Bearer ". Other locations are refused: a body is
// stored and forwarded as it came, and a secret with it. The error is a *verify.FieldError for "at".
func TokenScheme(at, prefix string) (verify.Scheme, error) {
	scheme := verify.Scheme{Family: verify.FamilyToken, Prefix: prefix}
	fault := func(problem string) (verify.Scheme, error) {
		return verify.Scheme{}, &verify.FieldError{Field: "at", Problem: problem}
	}
	e, err := locate.Parse(at)
	if err != nil {
		return fault(err.Error())
	}
	ref := e.Refs()[0]
	switch {
	case len(e.Refs()) > 1 || ref.Key != "" || ref.Optional || ref.Kind != locate.Header && ref.Kind != locate.Query:
		return fault(fmt.Sprintf(
			"%q is neither header:Name nor query:name: a secret in the body would be stored and forwarded with it", at))
	case ref.Kind == locate.Header:
		scheme.Header = ref.Name
	default:
		scheme.At = "query:" + ref.Name
	}
	return scheme, nil
}

// WithScheme returns a copy of s whose only scheme is scheme, for a source that describes its own.
func (s *Spec) WithScheme(scheme verify.Scheme) *Spec {
	own := *s
	own.Schemes = []verify.Scheme{scheme}
	return &own
}

// CheckEvent refuses event rules that read a credential: the id, the type and the time of an event are
// stored, shown and forwarded. Each error is a *RuleError. It ignores rules that CompileRules refuses.
func (s *Spec) CheckEvent(r EventRules) []error {
	var faults []error
	for _, f := range [][2]string{{"event.id", r.ID}, {"event.type", r.Type}, {"event.time", r.Time}} {
		e, err := locate.ParseType(f[1])
		if err != nil {
			continue
		}
		if i := slices.IndexFunc(e.Refs(), s.isCredential); i >= 0 {
			faults = append(faults, &RuleError{f[0], fmt.Errorf(
				"%q carries a credential, which would be stored and shown: set another location", e.Refs()[i])})
		}
	}
	return faults
}

// isCredential reports whether a location carries a credential.
func (s *Spec) isCredential(ref locate.Ref) bool {
	if ref.Kind == locate.Header {
		return s.hides(ref.Name)
	}
	at := string(ref.Kind) + ":" + ref.Name
	return slices.ContainsFunc(s.Schemes, func(scheme verify.Scheme) bool {
		return carriesCredential(&scheme) && slices.Contains(strings.Split(scheme.At, " | "), at)
	})
}

// hides reports whether a header is stored as "<secret>": one of HiddenHeaders, or a credential that a proxy adds.
func (s *Spec) hides(name string) bool {
	return headers.Credential(name) || slices.Contains(s.HiddenHeaders(), http.CanonicalHeaderKey(name))
}

// carriesCredential reports whether requests of a scheme carry the secret itself, or a JWT.
func carriesCredential(s *verify.Scheme) bool {
	return s.Family == verify.FamilyToken || s.Family == verify.FamilyBasic || s.Family == verify.FamilyJWT
}

// Carriers returns the places of the secret itself, or of a JWT, in requests of a scheme: canonical names
// of headers, and a parameter of the query string.
func Carriers(s *verify.Scheme) (headers []string, param string) {
	name, inQuery := strings.CutPrefix(s.At, "query:")
	switch {
	case !carriesCredential(s):
	case s.Family == verify.FamilyBasic:
		return []string{"Authorization"}, ""
	case inQuery:
		return nil, name
	case s.Header != "":
		for _, header := range append([]string{s.Header}, s.MoreHeaders...) {
			headers = append(headers, http.CanonicalHeaderKey(header))
		}
	}
	return headers, ""
}

var headerRef = regexp.MustCompile(`header:([A-Za-z0-9-]+)`)

// SignatureHeaders returns the canonical names of the headers that hold the signature of a scheme, or signed text.
// It returns nil for schemes whose requests carry the secret itself, or a JWT.
func SignatureHeaders(s *verify.Scheme) []string {
	if carriesCredential(s) {
		return nil
	}
	names := append([]string{s.Header}, s.MoreHeaders...)
	if s.Family == verify.FamilyStandardWebhooks {
		for _, name := range []string{"id", "timestamp", "signature"} {
			names = append(names, "webhook-"+name, "svix-"+name)
		}
	}
	text, _ := json.Marshal(s) // plain data always encodes
	for _, ref := range headerRef.FindAllStringSubmatch(string(text), -1) {
		names = append(names, ref[1])
	}
	for i, name := range names {
		names[i] = http.CanonicalHeaderKey(name)
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == "" || headers.Credential(name) })
}
