package provider

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/verify"
)

func TestParseStored(t *testing.T) {
	t.Parallel()
	spec := &Spec{Name: "x", CredentialHeaders: []string{"X-Shared-Token"}}
	tests := []struct {
		location string
		batch    bool
		want     string // a part of the error; "" for none
	}{
		{"body:data.object.id", false, ""},
		{"header:X-Id + form:a | body:b", false, ""},
		{"item:id + header:X-Id", true, ""},
		{"item:", true, ""},
		{"sha256:body", false, "one value"},
		{"body:a + sha256:body", false, "one value"},
		{"sha256:item", true, "one value"},
		{"body:a[].b", false, "one value"},
		{"body:a + body:b?", false, "one value"},
		{"const:a", false, "event.type"},
		{"", false, "empty"},
		{"id", false, "no kind"},
		{"query:id", false, "not stored"},
		{"body:a | query:id", false, "not stored"},
		{"item:id", false, "event.batch"},
		{"outer:id", true, "not stored"},
		{"item:id + outer:id", true, "not stored"},
		{"outer:id", false, "not stored"},
		{"form:id", true, "form"},
		{"body:id", true, "item:path"},
		{"header:cookie", false, "<secret>"},
		{"header:Authorization#a", false, "<secret>"},
		{"body:a + header:x-shared-token", false, "<secret>"},
	}
	for _, tt := range tests {
		e, err := spec.ParseStored(tt.location, tt.batch)
		switch {
		case tt.want == "" && (err != nil || e.String() != tt.location):
			t.Errorf("%q: got %v, %v", tt.location, e, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%q: error %v, want one with %q", tt.location, err, tt.want)
		}
	}
}

func TestHiddenHeaders(t *testing.T) {
	t.Parallel()
	spec := &Spec{CredentialHeaders: make([]string, 1, 8), Schemes: []verify.Scheme{
		{Family: verify.FamilyHMAC, Header: "X-Signature"},
		{Family: verify.FamilyToken, Header: "x-shared", MoreHeaders: []string{"X-Shared-2"}},
		{Family: verify.FamilyToken, At: "query:token"},
		{Family: verify.FamilyBasic},
		{Family: verify.FamilyJWT, Header: "X-Jwt"},
	}}
	spec.CredentialHeaders[0] = "X-Token"
	want := []string{"X-Token", "X-Shared", "X-Shared-2", "X-Jwt", "Authorization", "Proxy-Authorization", "Cookie"}
	if diff := cmp.Diff(want, spec.HiddenHeaders()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if full := spec.CredentialHeaders[:2]; full[1] != "" {
		t.Error("the catalog's own list was written to")
	}
}
