package provider

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/verify"
)

func TestChooseScheme(t *testing.T) {
	t.Parallel()
	sound := verify.Scheme{ID: "sound", Family: verify.FamilyHMAC}
	weak := verify.Scheme{ID: "weak", Family: verify.FamilyToken, Weak: "it is short"}
	none := verify.Scheme{ID: "open", Family: verify.FamilyNone}
	tests := []struct {
		name    Name
		schemes []verify.Scheme
		id      string
		want    string // the scheme, or a part of the error
	}{
		{"x", []verify.Scheme{sound, weak, none}, "", "sound"},
		{"x", []verify.Scheme{sound, weak, none}, "weak", "weak"},
		{"x", []verify.Scheme{sound, weak, none}, "open", "open"},
		{"x", []verify.Scheme{weak, sound}, "", "because weak is weak (it is short): set scheme to use it anyway; available: weak, sound"},
		{"x", []verify.Scheme{weak}, "", "because weak is weak (it is short): set scheme to use it anyway"},
		{"x", []verify.Scheme{none}, "", "say so with scheme open"},
		{"x", []verify.Scheme{none, sound}, "", "available: open, sound"},
		{"x", []verify.Scheme{none}, "open", "open"},
		{None, []verify.Scheme{none}, "", "open"},
		{"x", []verify.Scheme{sound, weak}, "other", `no scheme "other"; it has sound, weak`},
		{"x", nil, "", "has no schemes; signature says how it signs"},
		{"x", nil, "sound", "has no schemes; signature says how it signs"},
	}
	for _, tt := range tests {
		spec := &Spec{Name: tt.name, Schemes: tt.schemes}
		scheme, err := spec.ChooseScheme(tt.id)
		if got := scheme.ID; err != nil || got != tt.want {
			if err == nil || scheme.Family != "" || !strings.HasSuffix(err.Error(), tt.want) {
				t.Errorf("%s of %v: got %q, %v, want %q", tt.id, spec.schemeIDs(), got, err, tt.want)
			}
		}
	}
}

func TestSetParams(t *testing.T) {
	t.Parallel()
	spec := &Spec{Name: "x", Params: []verify.Param{
		{Name: "both", About: "of the handshake", Need: verify.NeedOptional}, {Name: "verify_token", About: "a token"},
	}}
	scheme := verify.Scheme{Params: []verify.Param{
		{Name: "both", About: "of the scheme", Need: verify.NeedSource},
		{Name: "id", About: "the id"},
		{Name: "role", About: "a role", Need: verify.NeedOptional},
	}, Values: map[string]string{"id": "from before"}}
	tests := []struct {
		values, want map[string]string
		faults       []string
	}{
		{
			map[string]string{"both": "b", "verify_token": "v"},
			map[string]string{"both": "b", "id": "from before"},
			nil,
		},
		{
			map[string]string{"both": "b", "verify_token": "v", "id": "new", "role": "r"},
			map[string]string{"both": "b", "id": "new", "role": "r"},
			nil,
		},
		{nil, map[string]string{"id": "from before"}, []string{
			"params.both: it is missing: of the scheme", "params.verify_token: it is missing: a token",
		}},
		{
			map[string]string{"both": " ", "verify_token": "", "canary": "canary"},
			map[string]string{"id": "from before"},
			[]string{
				"params.canary: provider x takes no parameter of this name; it takes both, id, role, verify_token",
				"params.both: it is empty", "params.verify_token: it is empty",
			},
		},
	}
	for _, tt := range tests {
		got := scheme
		err := spec.SetParams(&got, tt.values)
		var faults []string
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			for _, err := range joined.Unwrap() {
				var field *verify.FieldError
				if !errors.As(err, &field) {
					t.Errorf("%v is not a *verify.FieldError", err)
				}
				faults = append(faults, err.Error())
			}
		}
		if diff := cmp.Diff(tt.faults, faults); diff != "" {
			t.Errorf("%v: faults (-want +got):\n%s", tt.values, diff)
		}
		if diff := cmp.Diff(tt.want, got.Values); diff != "" {
			t.Errorf("%v: values (-want +got):\n%s", tt.values, diff)
		}
	}
	if diff := cmp.Diff(map[string]string{"id": "from before"}, scheme.Values); diff != "" {
		t.Errorf("a shared scheme was changed (-want +got):\n%s", diff)
	}
}

func TestEventHint(t *testing.T) {
	t.Parallel()
	for want, spec := range map[string]*Spec{
		"": {},
		"not confirmed: probably body:event_id; look at one delivery, then set event.id":       {Hint: EventRules{ID: "body:event_id"}},
		"not confirmed: probably body:id (seen once); look at one delivery, then set event.id": {Hint: EventRules{ID: "body:id"}, HintNote: "seen once."},
		"There is none": {HintNote: "There is none."},
	} {
		if got := spec.EventHint("id"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
