package provider

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseStored(t *testing.T) {
	t.Parallel()
	spec := &Spec{Name: "x", CredentialHeaders: []string{"X-Shared-Token"}}
	tests := []struct {
		location string
		batch    bool
		want     string // in the error; "" for none
	}{
		{"body:data.object.id", false, ""},
		{"header:X-Id + form:a | body:b", false, ""},
		{"item:id + header:X-Id", true, ""},
		{"", false, "empty"},
		{"id", false, "no kind"},
		{"query:id", false, "not stored"},
		{"body:a | query:id", false, "not stored"},
		{"item:id", false, "event.batch"},
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
	spec := &Spec{CredentialHeaders: make([]string, 1, 8)}
	spec.CredentialHeaders[0] = "X-Token"
	want := []string{"X-Token", "Authorization", "Proxy-Authorization", "Cookie"}
	if diff := cmp.Diff(want, spec.HiddenHeaders()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if full := spec.CredentialHeaders[:2]; full[1] != "" {
		t.Error("the catalog's own list was written to")
	}
}
