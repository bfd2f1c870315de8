package provider

import (
	"net/http"
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
		{"header:X-Amzn-Oidc-Data", false, "<secret>"},
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
	want := []string{"X-Token", "X-Shared", "X-Shared-2", "Authorization", "X-Jwt", "Proxy-Authorization", "Cookie"}
	if diff := cmp.Diff(want, spec.HiddenHeaders()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if full := spec.CredentialHeaders[:2]; full[1] != "" {
		t.Error("the catalog's own list was written to")
	}
}

// A stored item is read like the item of its batch, and a stored request like the request.
func TestExtractStored(t *testing.T) {
	t.Parallel()
	const hidden = "<secret>"
	mandrill := EventRules{ID: "item:id", Type: "item:event", Batch: "body:", Document: "form:events"}
	xml := EventRules{ID: "item:Id", Type: "item:kind", Batch: "body:all.one", Document: "xml"}
	item := EventRules{ID: "item:id + header:X-Part", Type: "item:event", Batch: "body:items"}
	tests := []struct {
		name  string
		rules EventRules
		part  Part
		body  string
		id    string // "" if the part is malformed
		fault string // a part of its reason
	}{
		{"request", EventRules{ID: "body:id"}, PartRequest, `{"id":1}`, "1", ""},
		{"request, no id", EventRules{ID: "body:id"}, PartRequest, `{}`, "", "body:id"},
		{"batch", item, PartRequest, `{"items":[{"id":1}]}`, "1:p", ""},
		{"item", item, PartItem, `{"id":1}`, "1:p", ""},
		{"item, no id", item, PartItem, `{"items":[{"id":1}]}`, "", "item:id"},
		{"item, time of its batch", EventRules{ID: "item:id", Time: "body:id", Batch: "body:items"}, PartItem, `{"id":1700000000}`, "1700000000", ""},
		{"item of a form", mandrill, PartItem, `{"id":"a"}`, "a", ""},
		{"form", mandrill, PartRequest, `events=%5B%7B%22id%22%3A%22a%22%7D%5D`, "a", ""},
		{"item of XML", xml, PartItem, `{"Id":"a"}`, "a", ""},
		{"no batch now", EventRules{ID: "body:id"}, PartItem, `{"id":1}`, "", "no event.batch now"},
		{"entry", item, PartEntry, `{"id":1}`, "", "without its items"},
		{"query", EventRules{ID: "query:id | body:id"}, PartRequest, `{"id":1}`, "", "the query string"},
		{"secret header", EventRules{ID: "header:X-Hidden"}, PartRequest, `{}`, "", "the value of that header"},
		{"type in a secret header", EventRules{ID: "body:id", Type: "header:X-Hidden | body:id"}, PartRequest, `{"id":1}`, "", "event.type"},
		{"id of the batch", EventRules{ID: "body:b + item:id", Batch: "body:items"}, PartItem, `{"id":1,"b":2}`, "", "the rest of its batch"},
		{"field of the form", EventRules{ID: "form:t + item:id", Document: "form:events", Batch: "body:"}, PartItem, `{"id":1}`, "", "the rest of its batch"},
	}
	header := http.Header{"X-Part": {"p"}, "X-Hidden": {hidden}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			x, err := CompileRules(tt.rules)
			if err != nil {
				t.Fatal(err)
			}
			events, malformed := x.ExtractStored(tt.part, header, []byte(tt.body), hidden)
			switch {
			case tt.id != "" && (len(events) != 1 || len(malformed) > 0 || events[0].ID != tt.id || !events[0].Time.IsZero()):
				t.Errorf("events %+v, malformed %+v; want the event %s without a time", events, malformed, tt.id)
			case tt.id == "" && (len(events) > 0 || len(malformed) != 1 || malformed[0].Part != tt.part || !strings.Contains(malformed[0].Reason, tt.fault)):
				t.Errorf("events %+v, malformed %+v; want the part with a reason that holds %q", events, malformed, tt.fault)
			}
		})
	}
}

func TestSecretInBody(t *testing.T) {
	t.Parallel()
	for want, schemes := range map[bool][]verify.Scheme{
		true: {
			{Family: verify.FamilyToken, At: "body:token"}, {Family: verify.FamilyToken, At: "form:token"}, {Family: verify.FamilyJWT, At: "item:jwt"},
		},
		false: {
			{Family: verify.FamilyToken, Header: "X-Token"}, {Family: verify.FamilyToken, At: "query:token"}, {Family: verify.FamilyHMAC, At: "body:signature"},
		},
	} {
		for _, scheme := range schemes {
			spec := Spec{Schemes: []verify.Scheme{{Family: verify.FamilyHMAC}, scheme}}
			if got := spec.SecretInBody(); got != want {
				t.Errorf("%+v: %v, want %v", scheme, got, want)
			}
		}
	}
}
