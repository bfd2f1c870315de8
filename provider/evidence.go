package provider

import (
	"errors"
	"fmt"
	"strings"
)

// Evidence says how an entry of the catalog is known.
type Evidence struct {
	By string `json:"by,omitempty"` // sdk, request, vector or documentation; "" for HMAC and None, which describe no provider
	// Source names the evidence: the package and its version, such as "npm:orb-billing@6.11.0", or
	// where the request or the vector is published. Empty for documentation, which Spec.Docs names.
	Source string `json:"source,omitempty"`
	// Reason says why no SDK judges the entry, without a full stop. Empty for sdk, and where the
	// reason is unknown.
	Reason string `json:"reason,omitempty"`
}

// Values of Evidence.By, the strongest first.
const (
	BySDK           = "sdk"           // the provider's own SDK, or a well-kept verifier, agrees in both directions
	ByRequest       = "request"       // a recorded request of the provider verifies
	ByVector        = "vector"        // a signed example that the provider publishes verifies
	ByDocumentation = "documentation" // nothing but its documentation, or another author's description
)

var evidenceTexts = map[string]string{
	BySDK: "its SDK", ByRequest: "a recorded request", ByVector: "its published vector", ByDocumentation: "documentation alone",
}

// String returns the kind of evidence in words, such as "its SDK"; "" if there is none.
func (e Evidence) String() string { return evidenceTexts[e.By] }

// Validate reports an unknown kind of evidence, and fields that do not fit the kind.
func (e Evidence) Validate() error {
	_, known := evidenceTexts[e.By]
	switch {
	case e.By == "":
		if e != (Evidence{}) {
			return errors.New("evidence.by is missing: use sdk, request, vector or documentation")
		}
	case !known:
		return fmt.Errorf("evidence.by %q is unknown: use sdk, request, vector or documentation", e.By)
	case e.By == ByDocumentation && e.Source != "":
		return errors.New("evidence.source is set, but the documentation is the only evidence: leave it out")
	case e.By != ByDocumentation && e.Source == "":
		return fmt.Errorf("evidence.source is missing: name the %s", e.By)
	case e.By == BySDK && e.Reason != "":
		return errors.New("evidence.reason is set, although an SDK judges the entry: leave it out")
	case e.Reason != strings.TrimSuffix(strings.TrimSpace(e.Reason), "."):
		return errors.New("evidence.reason has blanks at an end, or a full stop")
	}
	return nil
}
