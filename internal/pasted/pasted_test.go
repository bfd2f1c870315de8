package pasted_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/internal/pasted"
	"github.com/hookonce/hookonce/provider"
	"github.com/hookonce/hookonce/verify"
)

// quiet checks that a secret draws no warning.
func quiet(t *testing.T, of provider.Name, secret string) {
	t.Helper()
	if slip, other := pasted.Slip(secret), pasted.OtherKey(secret, of); slip != "" || other != "" {
		t.Errorf("%s: %q %s, looks like %s", of, secret, slip, other)
	}
}

// TestRealSecrets has every secret of the saved requests and of the catalog's schemes, and the forms that senders
// show.
func TestRealSecrets(t *testing.T) {
	t.Parallel()
	for of, secrets := range map[provider.Name][]string{
		provider.Paystack: {"sk_live_0123456789abcdef0123456789abcdef01234567", "sk_test_0123456789abcdef0123456789abcdef01234567"},
		provider.Mailgun:  {"key-3ax6xnjp29jd6fds4gc373sgvjxteol0", "0123456789abcdef0123456789abcdef"},
		"shopify":         {"shpss_0123456789abcdef0123456789abcdef"},
		"stripe":          {"whsec_0123456789abcdef0123456789abcdef"},
		"twilio":          {"0123456789abcdef0123456789abcdef"},
		"notion":          {"secret_tMrlL1qK5vuQAh1b6cZGhFChZTSYJlce98V0pYn7yBl"},
		"linear":          {"lin_wh_0123456789abcdefABCDEF"},
		"retell":          {"key_0123456789abcdef"},
		"elevenlabs":      {"wsec_0123456789abcdef"},
		"basic":           {"user:password", "SECRET:password"},
		"token":           {"Bearer 0123456789abcdef", "sk_live_0123456789abcdef"},
		"github":          {"a passphrase: with = and ** inside", "KEY==", "ASIA and AKIA", "acct_1", "$Pa55phrase", "<b", `\n\t`, "a <tag> inside", "{a}"},
	} {
		for _, secret := range secrets {
			quiet(t, of, secret)
		}
	}
	checked := 0
	files, _ := filepath.Glob("../../provider/testdata/requests/*.json")
	for _, file := range files {
		var saved struct {
			Provider provider.Name
			Cases    []struct{ Secret string }
		}
		read(t, file, &saved)
		for _, c := range saved.Cases {
			quiet(t, saved.Provider, c.Secret)
			checked++
		}
	}
	files, _ = filepath.Glob("../../verify/testdata/*/cases.json")
	for _, file := range files {
		var cases []struct{ Secrets []string }
		read(t, file, &cases)
		for _, c := range cases {
			for _, secret := range c.Secrets {
				if !strings.HasPrefix(secret, "-----BEGIN ") && !strings.HasPrefix(secret, "{") { // public keys
					quiet(t, "", secret)
					checked++
				}
			}
		}
	}
	if checked < 500 {
		t.Errorf("only %d secrets were found", checked)
	}
	for _, name := range provider.Names() {
		spec, err := provider.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, scheme := range spec.Schemes {
			if v, err := verify.Compile(scheme); err == nil && !v.PublicKey() {
				if secret, _, err := v.GenerateKey(); err == nil {
					quiet(t, name, secret)
				}
			}
		}
	}
}

func read(t *testing.T, file string, into any) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}
