package provider

import (
	"cmp"
	"encoding/json"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce/verify"
)

// ofScheme maps directories of package verify's saved requests to a provider and a scheme of the
// catalog, if the directory is not named PROVIDER-SCHEME.
var ofScheme = map[string][2]string{
	"ecdsa-circle":            {"circle", "ecdsa"},
	"ecdsa-sendgrid":          {"sendgrid", "ecdsa"},
	"ecdsa-sha1-ebay":         {"ebay", "ecdsa"},
	"ed25519-discord":         {"discord", "ed25519"},
	"ed25519-telnyx":          {"telnyx", "ed25519"},
	"ed25519-tokenio":         {"tokenio", "ed25519"},
	"jws-fireblocks":          {"fireblocks", "jws-v2"},
	"jws-neon":                {"neon", "jws-detached"},
	"jwt-fusionauth":          {"fusionauth", "jwt"},
	"jwt-jira-connect":        {"jira", "connect-jwt"},
	"jwt-messagebird":         {"messagebird", "jwt"},
	"jwt-monday":              {"monday", "jwt"},
	"jwt-netlify":             {"netlify", "jws"},
	"jwt-plaid":               {"plaid", "plaid-verification"},
	"jwt-vonage":              {"vonage", "jwt"},
	"jwt-wix":                 {"wix", "body-jwt"},
	"rsa-pss-utila":           {"utila", "rsa-pss"},
	"rsa-sha1-paddle-classic": {"paddle-classic", "p_signature"},
	"rsa-sha1-sns":            {"aws-sns", "v1"},
	"rsa-sha1-travis-ci":      {"travis-ci", "rsa-sha1"},
	"rsa-sha256-magento":      {"magento", "rsa-sha256"},
	"rsa-sha256-sns":          {"aws-sns", "v2"},
	"rsa-sha256-wechat-pay":   {"wechat-pay", "rsa-sha256"},
	"rsa-sha512-fireblocks":   {"fireblocks", "rsa-sha512"},
}

// TestSchemesOnRequestsOfVerify verifies the saved requests of package verify with the schemes of
// the catalog.
func TestSchemesOnRequestsOfVerify(t *testing.T) {
	t.Parallel()
	byDirectory := map[string]verify.Scheme{}
	for _, name := range Names() {
		spec, err := Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, scheme := range spec.Schemes {
			byDirectory[string(name)+"-"+scheme.ID] = scheme
		}
	}
	for directory, of := range ofScheme {
		byDirectory[directory] = byDirectory[of[0]+"-"+of[1]]
	}
	files, err := filepath.Glob(filepath.Join("..", "verify", "testdata", "*", "cases.json"))
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, file := range files {
		directory := filepath.Base(filepath.Dir(file))
		if scheme, ok := byDirectory[directory]; ok {
			ran++
			runSaved(t, directory, file, scheme)
		}
	}
	if ran < len(ofScheme) {
		t.Errorf("only %d of %d directories are of a scheme of the catalog", ran, len(files))
	}
}

func runSaved(t *testing.T, directory, file string, scheme verify.Scheme) {
	t.Helper()
	var cases []struct {
		Name    string            `json:"name"`
		Want    string            `json:"want"`
		Secrets []string          `json:"secrets"`
		Headers [][2]string       `json:"headers"`
		Body    string            `json:"body"`
		Now     float64           `json:"now"` // Unix seconds
		Method  string            `json:"method"`
		URL     string            `json:"url"`
		Query   string            `json:"query"`
		Params  map[string]string `json:"params"`
	}
	data, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(data, &cases)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(directory+"/"+c.Name, func(t *testing.T) {
			t.Parallel()
			s := scheme
			s.Values = c.Params
			v, err := verify.Compile(s)
			if err != nil {
				t.Fatal(err)
			}
			_, own, _ := strings.Cut(c.URL, "?")
			req := &verify.Request{
				Method: c.Method, URL: c.URL, RawQuery: cmp.Or(c.Query, own), Body: []byte(c.Body), Header: http.Header{},
				Now: time.UnixMilli(int64(math.Round(c.Now * 1000))),
			}
			for _, h := range c.Headers {
				req.Header.Add(h[0], h[1])
			}
			var keys []verify.Key
			for _, secret := range c.Secrets {
				key, err := v.ParseKey(secret)
				if err != nil {
					t.Fatal(err)
				}
				keys = append(keys, key)
			}
			reason := otherVerdicts[directory+"/"+c.Name]
			if err := v.Verify(req, keys); (err == nil) != (c.Want == "valid" != (reason != "")) {
				t.Errorf("got %v, want %s %s", err, c.Want, reason)
			}
		})
	}
}
