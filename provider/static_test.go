package provider

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/verify"
)

func TestTokenScheme(t *testing.T) {
	t.Parallel()
	for at, want := range map[string]verify.Scheme{
		"header:x-token":      {Family: verify.FamilyToken, Header: "X-Token", Prefix: "Bearer "},
		"query:token":         {Family: verify.FamilyToken, At: "query:token", Prefix: "Bearer "},
		"body:token":          {}, // stored and forwarded with the body
		"form:token":          {},
		"header:X-A#key":      {},
		"header:A | header:B": {},
		"header:A + header:B": {},
		"sha256:body":         {},
		"X-Token":             {},
		"":                    {},
	} {
		got, err := TokenScheme(at, "Bearer ")
		var fault *verify.FieldError
		if refused := errors.As(err, &fault); refused != (want.Family == "") || refused && fault.Field != "at" {
			t.Errorf("%s: error %v", at, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", at, diff)
		}
	}
}

// The id, the type and the time of an event are stored and forwarded, so none may be a credential.
func TestCheckEvent(t *testing.T) {
	t.Parallel()
	spec := &Spec{CredentialHeaders: []string{"X-Other"}, Schemes: []verify.Scheme{
		{Family: verify.FamilyToken, Header: "x-token"},
		{Family: verify.FamilyToken, At: "query:token"},
		{Family: verify.FamilyToken, At: "body:passcode"},
		{Family: verify.FamilyHMAC, At: "query:signature", Header: "X-Signature"},
	}}
	for _, tt := range []struct {
		rules EventRules
		want  string // the fields at fault
	}{
		{EventRules{ID: "body:id", Type: "const:a", Time: "header:X-Time"}, ""},
		{EventRules{ID: "header:X-Signature + query:signature"}, ""},
		{EventRules{ID: "not a location"}, ""}, // CompileRules refuses it
		{EventRules{ID: "header:X-TOKEN"}, "event.id"},
		{EventRules{ID: "body:id + query:token"}, "event.id"},
		{EventRules{ID: "header:X_Forwarded_Access_Token", Type: "header:Webhook-Session"}, "event.id"},
		{EventRules{ID: "body:id | header:Authorization", Type: "header:X-Other#key", Time: "body:passcode"}, "event.id event.type event.time"},
	} {
		var fields []string
		for _, err := range spec.CheckEvent(tt.rules) {
			var fault *RuleError
			if !errors.As(err, &fault) {
				t.Fatalf("%v is not a *RuleError", err)
			}
			fields = append(fields, fault.Field)
		}
		if got := strings.Join(fields, " "); got != tt.want {
			t.Errorf("%+v: faults of %q, want %q", tt.rules, got, tt.want)
		}
	}
}
