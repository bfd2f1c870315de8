package sample

import (
	"net/http"
	"slices"
	"strings"

	"github.com/hookonce/hookonce/verify"
)

// signatureHeaders returns the headers of a request that hold its signatures.
func (s *Sender) signatureHeaders() []string {
	switch s.Scheme.Family {
	case verify.FamilyStandardWebhooks:
		return []string{"Webhook-Signature", "Svix-Signature"}
	case verify.FamilyBasic:
		return []string{"Authorization"}
	}
	var names []string
	for _, name := range append([]string{s.Scheme.Header}, s.Scheme.MoreHeaders...) {
		if name != "" {
			names = append(names, http.CanonicalHeaderKey(name))
		}
	}
	return names
}

// Strip removes the signature of a request. It reports false, and changes nothing, if the signature is
// not in a header.
func (s *Sender) Strip(req *verify.Request) bool {
	stripped := false
	for _, name := range s.signatureHeaders() {
		stripped = stripped || len(req.Header[name]) > 0
		req.Header.Del(name)
	}
	return stripped
}

// Join adds the signature of another request of the same event to req, before or after its own. It
// reports false, and changes nothing, if a request of this sender has one signature.
func (s *Sender) Join(req, other *verify.Request, before bool) bool {
	for _, name := range s.signatureHeaders() {
		own, added := req.Header.Get(name), other.Header.Get(name)
		if own == "" || added == "" {
			continue
		}
		joined, ok := s.joined(own, added, before)
		if ok {
			req.Header.Set(name, joined)
		}
		return ok
	}
	return false
}

// joined joins the values of two headers.
func (s *Sender) joined(own, added string, before bool) (string, bool) {
	join := func(separator string, head []string, own, added []string) (string, bool) {
		if before {
			own, added = added, own
		}
		return strings.Join(slices.Concat(head, own, added), separator), true
	}
	switch {
	case s.Scheme.Family == verify.FamilyStandardWebhooks || s.Scheme.Format == verify.FormatGroups:
		return join(" ", nil, []string{own}, []string{added})
	case s.Scheme.Format == verify.FormatList:
		separator, first := s.separator(), 0
		if t := s.Scheme.Timestamp; t != nil && strings.HasSuffix(t.At, "#0") {
			first = 1 // the time
		}
		mine, others := strings.Split(own, separator), strings.Split(added, separator)
		if len(mine) < first || len(others) < first {
			return "", false
		}
		return join(separator, mine[:first], mine[first:], others[first:])
	case s.Scheme.Format == verify.FormatKV:
		mine, head := s.signaturePairs(own)
		others, _ := s.signaturePairs(added)
		return join(s.separator(), head, mine, others)
	}
	return "", false
}

func (s *Sender) separator() string {
	if s.Scheme.Separator != "" {
		return s.Scheme.Separator
	}
	return ","
}

// signaturePairs splits a value of the format kv into its signatures and the other pairs.
func (s *Sender) signaturePairs(value string) (signatures, others []string) {
	for pair := range strings.SplitSeq(value, s.separator()) {
		name, _, _ := strings.Cut(strings.TrimSpace(pair), "=")
		if slices.Contains(s.Scheme.SignatureKeys, name) {
			signatures = append(signatures, pair)
		} else {
			others = append(others, pair)
		}
	}
	return signatures, others
}
