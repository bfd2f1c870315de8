package sample_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/internal/sample"
)

// TestRedact checks that values that look secret become their lengths, and that all else stays byte for
// byte.
func TestRedact(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		body, want string
		form       bool
	}{
		"by name":          {`{ "client_secret":"abc", "amount":5 ,"Password":"x"}`, `{ "client_secret":"<3 bytes>", "amount":5 ,"Password":"<1 bytes>"}`, false},
		"a number":         {`{"card_number":4242}`, `{"card_number":"<4 bytes>"}`, false},
		"null and boolean": {`{"token":null,"password_enabled":true,"api_key":""}`, `{"token":null,"password_enabled":true,"api_key":""}`, false},
		"all within":       {`{"credentials":[{"user":"a"},["b",1]]}`, `{"credentials":[{"user":"<1 bytes>"},["<1 bytes>","<1 bytes>"]]}`, false},
		"by value":         {`["sk_live_1","ghp_2","text","eyJhbGciOiJ9.eyJzdWIiOiJ9.x"]`, `["<9 bytes>","<5 bytes>","text","<27 bytes>"]`, false},
		"a mark in front":  {"\ufeff{\"token\":\"abc\",\"a\":1}", `{"token":"<3 bytes>","a":1}`, false},
		"a form":           {`token=abc&text=a+b&key=whsec_1`, `key=%3C7+bytes%3E&text=a+b&token=%3C3+bytes%3E`, true},
		"a marked form":    {"\ufefftoken=abc", `token=%3C3+bytes%3E`, true},
		"no form":          {`a=%zz`, `<5 bytes>`, true},
		"no JSON":          {`token=abc`, `<9 bytes>`, false},
		"nothing":          {``, `<0 bytes>`, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, string(sample.Redact([]byte(tt.body), tt.form))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
