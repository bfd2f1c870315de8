package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/provider"
)

func TestFlags(t *testing.T) {
	t.Parallel()
	s := mustLoad(t, LoadOptions{
		Dir: dirWith(t, `
sources:
  old: {provider: github, secrets: ["${NOT_SET}"]}
  kept: {provider: github, secrets: ["0123456789abcdef"]}
destinations: {billing: {url: "http://billing/"}}
routes: [{to: billing}]
`), Environ: environ(),
		Flags: Flags{
			Sources:  []string{"gh=github:a:secret=with:signs==", "old=stripe:file:secret", "lab=none", "lab2=none:"},
			Forwards: []string{"app=http://127.0.0.1:3000/hooks?a=b", "gh=http://127.0.0.1:3001/"},
		},
	})
	wantSecrets := map[string][]string{"kept": {"0123456789abcdef"}, "gh": {"a:secret=with:signs=="}, "old": {"a-secret-out-of-a-file"}}
	if diff := cmp.Diff(wantSecrets, secretsOf(t, &s.Engine)); diff != "" {
		t.Errorf("secrets (-want +got):\n%s", diff)
	}
	byID := provider.EventRules{ID: "body:id"}
	want := hookonce.Config{
		Sources: []hookonce.Source{
			{Name: "kept", Provider: provider.GitHub},
			{Name: "gh", Provider: provider.GitHub},
			{Name: "old", Provider: provider.Stripe},
			{Name: "lab", Provider: provider.None, Event: byID},
			{Name: "lab2", Provider: provider.None, Event: byID},
		},
		Destinations: []hookonce.Destination{
			{Name: "billing", URL: "http://billing/"},
			{Name: "app", URL: "http://127.0.0.1:3000/hooks?a=b"},
			{Name: "route:gh", URL: "http://127.0.0.1:3001/"},
		},
		Routes: []hookonce.Route{
			{Name: "billing", To: "billing"},
			{Name: "app", To: "app"},
			{Name: "gh", Sources: []string{"gh"}, To: "route:gh"},
		},
	}
	ignore := cmp.Options{
		cmpopts.IgnoreFields(hookonce.Config{}, "DedupeWindow", "Retention", "UnverifiedRate"),
		cmpopts.IgnoreFields(hookonce.Source{}, "Secrets"),
		cmpopts.EquateComparable(hookonce.DeadLetterPolicy{}),
		cmpopts.IgnoreFields(hookonce.Destination{}, "Timeout", "Retry", "Concurrency", "AllowPrivate"),
	}
	if diff := cmp.Diff(want, s.Engine, ignore); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	wantWarnings := "--source lab: unsigned: anyone can send to /webhooks/lab\n--source lab2: unsigned: anyone can send to /webhooks/lab2\n" +
		"hookonce.yaml:3:3: sources.old: a --source flag replaces this source, with its secrets"
	if got := warnings(s); got != wantWarnings {
		t.Errorf("warnings:\n%s", got)
	}
}

func TestFlagFaults(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"source gh":                        "--source: this is not NAME=PROVIDER:SECRET; a name has a-z 0-9 _ -",
		"source gh=":                       "--source: this is not NAME=PROVIDER:SECRET; a name has a-z 0-9 _ -",
		"source Gh=github:x":               "--source: this is not NAME=PROVIDER:SECRET; a name has a-z 0-9 _ -",
		"source github:sk_live_canary=":    "--source: this is not NAME=PROVIDER:SECRET; a name has a-z 0-9 _ -",
		"source gh=sk_live_canary":         "--source gh: there is no secret; write it as NAME=PROVIDER:SECRET",
		"source gh=github":                 "--source gh: there is no secret; write it as NAME=PROVIDER:SECRET",
		"source gh=github:":                "--source gh: it is empty",
		"source gh=sk_live_canary:x":       "--source gh: unknown provider (hookonce providers lists the 210 that are known; any HMAC sender works as hmac, and one that sends a fixed secret as token or basic)",
		"source gh=discord":                "--source gh: there is no secret; write it as NAME=PROVIDER:SECRET",
		"source gh=docker-hub:x":           "--source gh: provider docker-hub signs nothing, so anyone could send: where that is acceptable, say so with scheme unsigned (a flag cannot: write the source into a settings file, with scheme: unsigned)",
		"source st=strava":                 "--source st: provider strava signs nothing, so anyone could send: where that is acceptable, say so with scheme unsigned (a flag cannot: write the source into a settings file, with scheme: unsigned)",
		"source gh=hmac:0123456789abcdef":  "--source gh: a source of provider hmac must say how it signs, which a flag cannot (write it into a settings file)",
		"source gh=none:sk_live_canary":    "--source gh: provider none takes no secret",
		"source old=github:sk_live_canary": "--source old: the source is given twice",
		"forward app":                      "--forward: this is not NAME=URL; a name has a-z 0-9 _ -",
		"forward app=":                     "--forward: this is not NAME=URL; a name has a-z 0-9 _ -",
		"forward http://x/?a=b":            "--forward: this is not NAME=URL; a name has a-z 0-9 _ -",
		"forward billing=http://x/":        "--forward billing: there is a destination or route of that name already",
		"forward paid=http://x/":           "--forward paid: there is a destination or route of that name already",
		"source b=github:${STRIPE_WEBHOOK_SECRET}": "--source b: the value is the name of a variable, as $NAME or ${NAME}, which is not replaced here " +
			"(give the variable its value, or put a secret that looks so into a file)",
		"forward app=127.0.0.1:80": "--forward app: this is not a URL; write it as https://host/path",
	} {
		flags := Flags{Sources: []string{"old=github:0123456789abcdef"}}
		if source, ok := strings.CutPrefix(text, "source "); ok {
			flags.Sources = append(flags.Sources, source)
		} else {
			flags.Forwards = []string{strings.TrimPrefix(text, "forward ")}
		}
		dir := dirWith(t, "destinations: {billing: {url: 'http://billing/'}}\nroutes: [{name: paid, to: billing}]\n")
		_, err := Load(LoadOptions{Dir: dir, Environ: environ(), Flags: flags})
		if err == nil || err.Error() != want {
			t.Errorf("--%s:\n got %v\nwant %s", text, err, want)
		}
	}
}

// A source needs no secret if keys are fetched from the provider, or the provider hands the secret
// over.
func TestFlagSourceWithoutSecret(t *testing.T) {
	t.Parallel()
	s := mustLoad(t, LoadOptions{Dir: t.TempDir(), Environ: environ(), Flags: Flags{Sources: []string{"a=fireblocks", "b=asana", "c=discord:" + strings.Repeat("ab", 32)}}})
	var got []string
	for _, src := range s.Engine.Sources {
		got = append(got, fmt.Sprintf("%s %s %v", src.Name, src.Provider, src.Secrets != nil))
	}
	if diff := cmp.Diff([]string{"a fireblocks false", "b asana false", "c discord true"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
