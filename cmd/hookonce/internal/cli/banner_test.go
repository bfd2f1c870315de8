package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/build"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/config"
)

func bannerOf(t *testing.T, yaml string, environ ...string) *banner {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "hookonce.yaml"), []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	settings, faults := config.Load(config.LoadOptions{Dir: dir, Environ: func() []string { return environ }})
	if faults != nil {
		t.Fatal(faults)
	}
	return &banner{settings, "http://127.0.0.1:8080", "http://127.0.0.1:8081"}
}

// The banner names each source with its address and its destinations, marks unsigned ones, and shows no
// secret.
func TestBanner(t *testing.T) {
	t.Parallel()
	const password = "hunter2-hunter2-hunter2"
	b := bannerOf(t, `
database: postgres://u:`+password+`@db.internal/hooks
sources:
  stripe: {provider: stripe, secrets: ["${PAY}"]}
  lab: {provider: none, event: {id: "body:id"}}
  taken: {provider: github, secrets: [`+password+`], consume: sql}
  a-source-with-a-long-name: {provider: github, secrets: [`+password+`]}
destinations:
  billing: {url: "http://127.0.0.1:1/"}
  a-destination-with-a-long-name: {url: "http://127.0.0.1:2/"}
routes:
  - {sources: [stripe], types: [invoice.paid], to: billing}
  - {name: second, sources: [stripe, a-source-with-a-long-name], to: a-destination-with-a-long-name}
  - {name: third, sources: [stripe], types: ["x.*"], to: billing}
`, "PAY="+password)
	want := `hookonce ` + build.Read().Version + ` · postgres://u:<secret>@db.internal/hooks · 4 sources
  stripe                     POST http://127.0.0.1:8080/webhooks/stripe
                             → billing, a-destination-with-a-long-name
  lab                        POST http://127.0.0.1:8080/webhooks/lab
                             → no route  UNSIGNED
  taken                      POST http://127.0.0.1:8080/webhooks/taken
                             → hookonce.take
  a-source-with-a-long-name  POST http://127.0.0.1:8080/webhooks/a-source-with-a-long-name
                             → a-destination-with-a-long-name
  dashboard                  http://127.0.0.1:8081/
  try                        hookonce send http://127.0.0.1:8080/webhooks/stripe --provider stripe --secret "$PAY" --type invoice.paid
`
	if got := b.text(80, false, false); got != want {
		t.Errorf("the banner is\n%s\nwant\n%s", got, want)
	}
	folded := strings.Replace(want, ` --provider stripe --secret "$PAY" --type`, ` \
                               --provider stripe --secret "$PAY" \
                               --type`, 1)
	if got := b.text(80, true, false); got != folded {
		t.Errorf("on a terminal the banner is\n%s\nwant\n%s", got, folded)
	}
	if wide := b.text(200, true, false); strings.Contains(wide, "\n    ") || !strings.Contains(wide, "/webhooks/lab → no route  UNSIGNED\n") {
		t.Errorf("a wide terminal breaks lines:\n%s", wide)
	}
}

// Without a source the banner says what to do, and of many sources it shows the first.
func TestBannerOfNoneAndMany(t *testing.T) {
	t.Parallel()
	b := bannerOf(t, "listen: :8080\n")
	if got := b.text(80, false, false); !strings.Contains(got, "no sources\n") || !strings.Contains(got, "add a source to hookonce.yaml; hookonce providers NAME prints one") {
		t.Errorf("without a source:\n%s", got)
	}
	b.settings.File = ""
	if got := b.text(80, false, false); !strings.Contains(got, "  try        hookonce init, ") {
		t.Errorf("without a file:\n%s", got)
	}
	many := "sources:\n"
	for i := range maxBannerSources + 7 {
		many += fmt.Sprintf("  s%d: {provider: none, event: {id: \"body:id\"}}\n", i)
	}
	if got := bannerOf(t, many).text(80, false, false); strings.Count(got, "POST") != maxBannerSources || !strings.Contains(got, "and 7 more: hookonce sources list\n") {
		t.Errorf("of many sources:\n%s", got)
	}
}

// A command to try names a variable or a file in place of a secret, and everything else that the
// signature or the event needs.
func TestSendCommand(t *testing.T) {
	t.Parallel()
	const literal = "hunter2-hunter2-hunter2"
	file := filepath.Join(t.TempDir(), "a key")
	if err := os.WriteFile(file, []byte(literal), 0o600); err != nil {
		t.Fatal(err)
	}
	const at = "hookonce send http://127.0.0.1:8080/webhooks/s --provider "
	for _, tt := range []struct{ name, source, more, want string }{
		{"variable", `provider: github, secrets: ["${KEY}"]`, "", at + `github --secret "$KEY"`},
		{"file", `provider: github, secrets: ["file:` + file + `"]`, "", at + "github --secret 'file:" + file + "'"},
		{"literal", `provider: github, secrets: [` + literal + `]`, "", at + "github --secret SECRET"},
		{"default", `provider: github, secrets: ["${NONE:-` + literal + `}"]`, "", at + "github --secret SECRET"},
		{"part", `provider: github, secrets: ["x${KEY}"]`, "", at + "github --secret SECRET"},
		{"scheme", `provider: github, scheme: sha1, secrets: ["${KEY}"]`, "", at + `github --scheme sha1 --secret "$KEY"`},
		{"url", `provider: square, url: "https://h.example.com/x", secrets: ["${KEY}"]`, "", at + `square --secret "$KEY" --url https://h.example.com/x`},
		{"params", `provider: braintree, params: {public_key: "${KEY}"}, secrets: ["${KEY}"]`, "", at + `braintree --secret "$KEY" --param public_key="$KEY"`},
		{"literal params", `provider: braintree, params: {public_key: ` + literal + `}, secrets: ["${KEY}"]`, "", at + `braintree --secret "$KEY" --param public_key=VALUE`},
		{"unsigned", `provider: none, event: {id: "body:id", type: "body:a b"}`, "", at + `none --event id=body:id --event 'type=body:a b'`},
		{"event of a variable", `provider: none, event: {id: "${EVENT}"}`, "", at + `none --event id="$EVENT"`},
		{
			"own", `provider: hmac, secrets: ["${KEY}"], signature: {header: X-S, content: "{timestamp}.{body}"}, timestamp: {at: "header:X-T", tolerance: 1m}, event: {id: "body:id"}`,
			"", at + `hmac --signature '{"header":"X-S","content":"{timestamp}.{body}","timestamp":{"at":"header:X-T","tolerance":"1m0s"}}' --secret "$KEY" --event id=body:id`,
		},
		{
			"own header of a variable", `provider: hmac, secrets: ["${KEY}"], signature: {header: "${HEADER}", content: "{body}"}, event: {id: "body:id"}`,
			"", at + `hmac --signature '{"header":"'"$HEADER"'","content":"{body}"}' --secret "$KEY" --event id=body:id`,
		},
		{
			"token", `provider: token, secrets: ["${KEY}"], token: {at: "header:X-T", prefix: "Bearer "}, event: {id: "body:id"}`,
			"", at + `token --signature '{"at":"header:X-T","prefix":"Bearer "}' --secret "$KEY" --event id=body:id`,
		},
		{
			"token of a variable", `provider: token, secrets: ["${KEY}"], token: {at: "${AT}"}, event: {id: "body:id"}`,
			"", at + `token --signature '{"at":"'"$AT"'"}' --secret "$KEY" --event id=body:id`,
		},
		{"basic", `provider: basic, secrets: ["u:${KEY}"], event: {id: "body:id"}`, "", at + `basic --secret SECRET --event id=body:id`},
		{"type", `provider: github, secrets: ["${KEY}"]`, "routes: [{types: [push], to: app}]", at + `github --secret "$KEY" --type push`},
		{"pattern", `provider: github, secrets: ["${KEY}"]`, `routes: [{types: ["pull_*"], to: app}]`, at + `github --secret "$KEY" --type pull_test`},
		{"any type", `provider: github, secrets: ["${KEY}"]`, "routes: [{to: app}, {name: second, types: [push], to: app}]", at + `github --secret "$KEY"`},
		{"a private key signs", `provider: adobe-io-events, params: {client_id: x}`, "", ""},
		{"the secret comes later", `provider: asana`, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := bannerOf(t, "sources: {s: {"+tt.source+"}}\ndestinations: {app: {url: \"http://127.0.0.1:1\"}}\n"+tt.more, "KEY="+literal, "EVENT=body:id", "HEADER=X-S", "AT=query:t")
			got := sendCommand(b.settings, &b.settings.Engine.Sources[0], b.public).String()
			if got != tt.want {
				t.Errorf("the command is\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}
