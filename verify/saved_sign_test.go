package verify_test

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hookonce/hookonce/verify"
)

// TestSignSaved signs saved requests again: for every scheme whose key can sign, the result
// verifies. If Sign writes only the signature, it must equal the one that another program made.
func TestSignSaved(t *testing.T) {
	t.Parallel()
	var signed, compared atomic.Int64
	t.Cleanup(func() {
		if signed.Load() < 60 || compared.Load() < 15 {
			t.Errorf("only %d requests could be signed, and %d compared", signed.Load(), compared.Load())
		}
	})
	eachSaved(t, func(t *testing.T, v *verify.Verifier, s verify.Scheme, c savedCase) {
		key := mustKeys(t, v, c.Secrets...)[0]
		req := c.request()
		if c.Want != "valid" || len(c.Secrets) > 1 || v.Sign(req, key) != nil {
			return // a public key, or a request that cannot be signed as saved
		}
		signed.Add(1)
		if err := v.Verify(req, []verify.Key{key}); err != nil {
			t.Fatal(err)
		}
		hash := s.Family == verify.FamilyHMAC || s.Family == verify.FamilyDigest
		if !hash || s.Header == "" || s.Format != "" || s.MoreHeaders != nil || s.AnyPort || s.Timestamp != nil {
			return
		}
		compared.Add(1)
		form := func(text string) string { return strings.TrimRight(strings.ToLower(text), "=") }
		got, want := req.Header.Values(s.Header), c.request().Header.Values(s.Header)
		if !slices.EqualFunc(got, want, func(a, b string) bool { return form(a) == form(b) }) {
			t.Errorf("signed %q, saved %q", got, want)
		}
	})
}
