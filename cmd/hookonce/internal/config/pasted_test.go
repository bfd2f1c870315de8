package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPastedSecrets(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		secret string
		want   string // part of the only warning; "" for none
	}{
		"double quotes":                 {`"whsec_0123456789abcdef"`, "quotes around"},
		"single quotes":                 {`'0123456789abcdef'`, "quotes around"},
		"UTF-16 with its mark":          {"\xff\xfe0\x001\x002\x003\x004\x005\x006\x007\x00", "UTF-16"},
		"UTF-16 without a mark":         {"0\x001\x002\x003\x004\x005\x006\x007\x008\x00", "UTF-16"},
		"a byte order mark":             {"\ufeff0123456789abcdef", "byte order mark"},
		"its variable":                  {"HOOK_SECRET=0123456789abcdef", "name of a variable"},
		"an exported variable":          {"export SECRET=0123456789abcdef", "name of a variable"},
		"a zero-width space":            {"01234567\u200b89abcdef", "invisible"},
		"a no-break space":              {"01234567\u00a089abcdef", "invisible"},
		"typographic quotes":            {"\u201c0123456789abcdef\u201d", "typographic"},
		"a typographic dash":            {"01234567\u201389abcdef", "typographic"},
		"two lines":                     {"0123456789abcdef\nfedcba9876543210", "line break"},
		"a space behind":                {"0123456789abcdef ", "space"},
		"a blank inside":                {"0123456789 abcdef", ""},
		"a quote inside":                {`01234567"89'abcdef`, ""},
		"one quote":                     {`"0123456789abcdef`, ""},
		"letters beyond ASCII":          {"0123456789äöüßéλж漢", ""},
		"base64":                        {"QUJDREVGR0hJSktMTU5PUA==", ""},
		"upper case and base64":         {"ABCDEFGHIJKLMNOPQRSTUVWXYZA=", ""},
		"a key of Stripe":               {"sk_live_0123456789abcdef", "a key of an API"},
		"a restricted key":              {"rk_test_0123456789abcdef", "a key of an API"},
		"a token of GitHub":             {"ghp_0123456789abcdef", "a key of an API"},
		"a token of Slack":              {"xoxb-0123456789abcdef", "a key of an API"},
		"the id of an endpoint":         {"we_0123456789abcdef", "the id of an endpoint"},
		"a URL":                         {"https://hooks.example.com/0123456789abcdef", "a URL"},
		"a variable in lower case":      {"stripe_secret=0123456789abcdef", "name of a variable"},
		"blanks around the equals sign": {"SECRET = 0123456789abcdef", "name of a variable"},
		"a variable of cmd":             {"set SECRET=0123456789abcdef", "name of a variable"},
		"a variable of PowerShell":      {`$env:SECRET="0123456789abcdef"`, "name of a variable"},
		"a member of YAML":              {"SECRET: 0123456789abcdef", "name of a variable"},
		"a line separator":              {"01234567\u202889abcdef", "invisible"},
		"a variation selector":          {"01234567\ufe0f89abcdef", "invisible"},
		"a grapheme joiner":             {"01234567\u034f89abcdef", "invisible"},
		"a filler":                      {"01234567\u316489abcdef", "invisible"},
		"a blank of Braille":            {"01234567\u280089abcdef", "invisible"},
		"guillemets":                    {"«0123456789abcdef»", "typographic"},
		"primes":                        {"′0123456789abcdef′", "typographic"},
		"accents":                       {"´0123456789abcdef´", "typographic"},
		"fullwidth quotes":              {"\uff020123456789abcdef\uff02", "typographic"},
		"a hyphen":                      {"01234567\u201089abcdef", "typographic"},
		"a no-break hyphen":             {"01234567\u201189abcdef", "typographic"},
		"a minus sign":                  {"01234567\u221289abcdef", "typographic"},
		"quotes and a comma":            {`"0123456789abcdef",`, "quotes around"},
		"a comma behind":                {"0123456789abcdef,", ""},
		"bullets":                       {"whsec_\u2022\u2022\u2022\u2022", "masked"},
		"asterisks":                     {"whsec_****************", "masked"},
		"a key of an organization":      {"sk_org_live_0123456789abcdef", "a key of an API"},
		"an account of Stripe":          {"acct_0123456789abcdef", "the id of an account"},
		"a rotated token of Slack":      {"xoxe.xoxp-1-0123456789abcdef", "a key of an API"},
		"a temporary key of AWS":        {"ASIAIOSFODNN7EXAMPLE", "a key of an API"},
		"an account of Twilio":          {"AC0123456789abcdef0123456789abcdef", "the id of an account"},
		"a key of Twilio":               {"SK0123456789abcdef0123456789abcdef", "a key of an API"},
		"a key of Paddle":               {"pdl_live_apikey_0123456789abcdef", "a key of an API"},
		"a token of HubSpot":            {"pat-eu1-01234567-89ab-cdef-0123-456789abcdef", "a key of an API"},
		"a key of OpenAI":               {"sk-proj-0123456789abcdef", "a key of an API"},
		"a key of Resend":               {"re_01234567_0123456789abcdef", "a key of an API"},
		"a token of Meta or Square":     {"EAA" + strings.Repeat("a", 60), "a key of an API"},
		"a key of Razorpay":             {"rzp_live_0123456789abcdef", "a key of an API"},
		"a key of Mailgun":              {"key-0123456789abcdef0123456789abcdef", "a key of an API"},
		"a key of Linear":               {"lin_api_0123456789abcdef", "a key of an API"},
		"a token of Typeform":           {"tfp_0123456789abcdef", "a key of an API"},
		"a token of Notion":             {"ntn_0123456789abcdef", "a key of an API"},
		"a token of Mercado Pago":       {"APP_USR-0123456789abcdef", "a key of an API"},
		"a secret for webhooks":         {"whsec_0123456789abcdef", ""},
		"a variable of Windows":         {"%WEBHOOK_SECRET_OF_STRIPE%", "placeholder"},
		"a template":                    {"{{ .Values.webhook.secret }}", "placeholder"},
		"angle brackets":                {"<your-webhook-secret>", "placeholder"},
		"a name of 1Password":           {"op://vault/stripe/webhook-secret", "placeholder"},
		"a name of AWS":                 {"arn:aws:secretsmanager:eu-west-1:123456789012:secret:hook", "placeholder"},
		"a name of Google":              {"projects/123456/secrets/hook/versions/1", "placeholder"},
		"a value of SOPS":               {"ENC[AES256_GCM,data:abcdef,iv:x,tag:y,type:str]", "placeholder"},
		"a document of a vault":         {`{"secret": "0123456789abcdef"}`, "JSON"},
		"a line break that is text":     {`whsec_0123456789abcdef\n`, "line break"},
		"base64 of a manifest":          {"d2hzZWNfMDEyMzQ1Njc4OWFiY2RlZg==", "base64"},
		"a dollar and small letters":    {"$0123456789abcdef", ""},
		"braces":                        {"{0123456789abcdef}", ""},
		"a percent sign":                {"%0123456789abcdef", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, from := range []string{"${HOOK_SECRET}", "file:secret"} {
				got, ok := checkSecret(t, "github", from, tt.secret)
				if !ok || tt.want == "" && got != "" || tt.want != "" && (strings.Count(got, "\n") != 1 || !strings.Contains(got, tt.want)) {
					t.Errorf("%s: got %v, %s\nwant %s", from, ok, got, tt.want)
				}
				if strings.Contains(got, "01234567") {
					t.Errorf("%s: it shows the secret: %s", from, got)
				}
			}
		})
	}
}

// checkSecret returns what config check says of a secret in HOOK_SECRET and in the file secret.
func checkSecret(t *testing.T, provider, from, secret string) (string, bool) {
	t.Helper()
	dir := dirWith(t, "sources: {a: {provider: "+provider+", secrets: [\""+from+"\"]}}\n")
	if err := os.WriteFile(filepath.Join(dir, "secret"), []byte(secret+"\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return Check(LoadOptions{Dir: dir, Environ: environ("HOOK_SECRET=" + secret)})
}

// TestKeysThatSign checks that a key of an API draws no warning where it can be the secret.
func TestKeysThatSign(t *testing.T) {
	t.Parallel()
	const paystack = "paystack, event: {id: sha256:body}"
	for _, tt := range []struct{ provider, secret, want string }{
		{paystack, "sk_live_0123456789abcdef", ""},
		{"stripe", "sk_live_0123456789abcdef", "a key of an API"},
		{paystack, "pk_live_0123456789abcdef", "a key of an API"},
		{paystack, "https://hooks.example.com", "a URL"},
	} {
		if got, ok := checkSecret(t, tt.provider, "file:secret", tt.secret); !ok || (tt.want == "") != (got == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: got %v, %s", tt.provider, ok, got)
		}
	}
}

// TestPastedInAnEncoding checks that the error of a secret that does not decode names the accident.
func TestPastedInAnEncoding(t *testing.T) {
	t.Parallel()
	for secret, want := range map[string]string{
		`"whsec_MDEyMzQ1Njc4OWFiY2RlZg=="`: "it has quotes around it", "whsec_MDEyMzQ1Njc4\nOWFiY2RlZg==": "line break",
		"\ufeffwhsec_MDEyMzQ1Njc4OWFiY2RlZg==": "byte order mark", "SECRET=whsec_MDEyMzQ1Njc4OWFiY2RlZg==": "name of a variable",
		"$(pass MDEyMz)": "placeholder",
	} {
		got, ok := checkSecret(t, "standard-webhooks", "file:secret", secret)
		if ok || !strings.Contains(got, "not base64") || !strings.Contains(got, want) || strings.Contains(got, "MDEyMz") {
			t.Errorf("got %v, %s\nwant %s", ok, got, want)
		}
	}
}
