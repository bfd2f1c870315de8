package provider

import (
	"errors"
	"fmt"
	"strings"
)

// Evidence says how an entry of the catalog is known.
type Evidence struct {
	By string `json:"by,omitempty"` // one of the values below; "" for HMAC, Token, Basic and None, which describe no provider
	// Source names the evidence: the packages with their versions, such as "npm:orb-billing@6.11.0"
	// or "go:github.com/slack-go/slack@v0.35.0", or where the request or the vector is published. It
	// names every package that judges the entry in internal/test/sdk, separated by ", ", the
	// provider's own first. Empty for documentation, which Spec.Docs names.
	Source string `json:"source,omitempty"`
	// Reason says why no SDK of the provider judges the entry, without a full stop. Empty for sdk.
	Reason string `json:"reason,omitempty"`
}

// Values of Evidence.By, the strongest first.
const (
	BySDK           = "sdk"           // the provider's own SDK agrees
	ByRequest       = "request"       // a recorded request of the provider verifies
	ByVector        = "vector"        // a signed example that the provider publishes verifies
	ByVerifier      = "verifier"      // a well-kept verifier of others agrees
	ByProcedure     = "procedure"     // a general library agrees, used as the provider documents it
	ByDocumentation = "documentation" // nothing but its documentation, or another author's description
)

var evidenceTexts = map[string]string{
	BySDK: "its SDK", ByRequest: "a recorded request", ByVector: "its published vector",
	ByVerifier: "a third-party verifier", ByProcedure: "its documented procedure", ByDocumentation: "documentation alone",
}

// String returns the kind of evidence in words, such as "its SDK"; "" if there is none.
func (e Evidence) String() string { return evidenceTexts[e.By] }

// Validate reports an unknown kind of evidence, and fields that do not fit the kind.
func (e Evidence) Validate() error {
	_, known := evidenceTexts[e.By]
	switch {
	case e.By == "":
		if e != (Evidence{}) {
			return errors.New("evidence.by is missing: use sdk, request, vector, verifier, procedure or documentation")
		}
	case !known:
		return fmt.Errorf("evidence.by %q is unknown: use sdk, request, vector, verifier, procedure or documentation", e.By)
	case e.By == ByDocumentation && e.Source != "":
		return errors.New("evidence.source is set, but the documentation is the only evidence: leave it out")
	case e.By != ByDocumentation && e.Source == "":
		return fmt.Errorf("evidence.source is missing: name the %s", e.By)
	case e.By == BySDK && e.Reason != "":
		return errors.New("evidence.reason is set, although the provider's SDK judges the entry: leave it out")
	case e.Reason != strings.TrimSuffix(strings.TrimSpace(e.Reason), "."):
		return errors.New("evidence.reason has blanks at an end, or a full stop")
	}
	return nil
}
