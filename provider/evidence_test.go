package provider

import (
	"strings"
	"testing"
)

// TestEvidence checks that every entry says how it is known.
func TestEvidence(t *testing.T) {
	t.Parallel()
	for _, name := range Names() {
		spec, err := Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := spec.Evidence.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if spec.List != nil && spec.List.Validate() != nil {
			t.Errorf("%s: %v", name, spec.List.Validate())
		}
		if none := ofAny(name); none != (spec.Evidence.By == "") || none != (spec.Evidence.String() == "") {
			t.Errorf("%s has the evidence %+v", name, spec.Evidence)
		}
	}
}

func TestEvidenceValidate(t *testing.T) {
	t.Parallel()
	for want, e := range map[string]Evidence{
		"":                              {By: ByDocumentation, Reason: "no SDK verifies webhooks"},
		"by is missing":                 {Source: "npm:x@1"},
		`by "docs" is unknown`:          {By: "docs"},
		"source is set":                 {By: ByDocumentation, Source: "npm:x@1"},
		"source is missing: name the s": {By: BySDK},
		"source is missing: name the v": {By: ByVector, Reason: "no SDK verifies webhooks"},
		"source is missing: name the p": {By: ByProcedure},
		"although the pro":              {By: BySDK, Source: "npm:x@1", Reason: "no SDK verifies webhooks"},
		"full stop":                     {By: ByVector, Source: "docs", Reason: "no SDK verifies webhooks."},
	} {
		if err := e.Validate(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want %q", e, err, want)
		}
	}
}
