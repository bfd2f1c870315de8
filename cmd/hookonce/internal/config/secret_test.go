package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hookonce/hookonce"
)

const canary = "canary-7f3a"

func TestSecretNeverPrints(t *testing.T) {
	t.Parallel()
	s := Settings{Database: "postgres://u:" + canary + "@h/d", Admin: Admin{Token: canary}, Engine: hookonce.Config{Sources: []hookonce.Source{{AckKey: canary}}}}
	for _, v := range []any{
		Secret(canary),
		[]Secret{canary},
		map[string]Secret{"a": canary},
		struct{ S Secret }{canary},
		struct{ S *Settings }{&s},
		Admin{Token: canary},
		&Admin{Token: canary}, s, &s,
		[]Settings{s},
	} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t"} {
			if text := fmt.Sprintf(verb, v); strings.Contains(text, canary) || strings.Contains(text, fmt.Sprintf("%x", canary)) {
				t.Errorf("%s of %T prints %s", verb, v, text)
			}
		}
		data, err := json.Marshal(v)
		if err != nil || bytes.Contains(data, []byte(canary)) {
			t.Errorf("JSON of %T: %s, %v", v, data, err)
		}
		for _, handler := range []func(*bytes.Buffer) slog.Handler{
			func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) },
			func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, nil) },
		} {
			var log bytes.Buffer
			slog.New(handler(&log)).Info("x", "v", v)
			if strings.Contains(log.String(), canary) {
				t.Errorf("the log of %T: %s", v, log.String())
			}
		}
	}
	if got := fmt.Sprintf("%v|%s|%#v", Secret("x"), Secret(""), Secret("x")); got != "<secret>||<secret>" {
		t.Errorf("got %s", got)
	}
}

// Secrets stand in every place that takes one, in wrong places, and beside faults of every kind.
func TestFaultsNeverShowSecrets(t *testing.T) {
	t.Parallel()
	const key = "whsec_" + canary // neither base64 nor hexadecimal digits
	texts := []string{
		"admin: {token: 'KEY \x01'}", "admin: {token: [KEY]}", "admin: KEY", "admin: {token: {a: KEY}}", "admin:\n  token: |KEY\n", "admin: {token: 'KEY",
		"admin: {token: \"KEY\\q\"}", "admin:\n  token: KEY: x\n", "admin:\n  token: @KEY\n", "admin:\n  token: %KEY\n", "admin:\n  token: !KEY x\n",
		"admin: {listen: ':1', token: ''}\ndatabase: mysql://u:KEY@h/d", "database: {url: KEY}", "database: postgres", "database: 'sqlite:a?KEY'",
		"sources: {a: {provider: standard-webhooks, secrets: [KEY]}}", "sources: {a: {provider: standard-webhooks, secrets: KEY}}",
		"sources: {a: {provider: standard-webhooks, secrets: {a: KEY}}}", "sources: {a: {provider: standard-webhooks, secrets: [[KEY], {a: KEY}]}}",
		"sources: {a: {provider: unknown, secrets: [KEY], key: KEY}}", "sources: {a: {provider: none, secrets: [KEY], key: KEY}}",
		"sources: {a: {provider: standard-webhooks, scheme: v1a, key: KEY}}", "sources: {a: {provider: standard-webhooks, secrets: [KEY, KEY]}} \n x",
		"sources: {a: {provider: hmac, secrets: [KEY], signature: {header: X, secret_encoding: hex}, event: {id: 'body:id'}}}",
		"sources: {a: {provider: hmac, secrets: [KEY], signature: {header: X, secret_encoding: base64}, event: {id: 'body:id'}}}",
		"sources: {a: {provider: stripe, secrets: ['file:KEY']}}", "sources: {a: {provider: stripe, params: {x: KEY}}}",
		"sources: {a: {provider: plaid, params: {client_id: [KEY], secret: {a: KEY}, environment: KEY}}}", "sources: {a: {provider: paypal, params: KEY}}",
		"sources: {a: {provider: sendgrid, key: KEY}}", "sources: {a: {provider: chargebee, secrets: [KEY]}}", "sources: {a: {provider: square, secrets: [KEY], url: KEY}}",
		"sources: {a: {provider: stripe, secrets: ['KEY\\n', \"KEY\\n\"]}}",
		"sources: {a: {provider: alipay, url: 'http://a/', ack_key: KEY}}", "sources: {a: {provider: alipay, ack_key: [KEY]}}", "sources: {a: {provider: stripe, ack_key: KEY}}",
		"sources: {a: {provider: stripe, reconcile: KEY}}", "sources: {a: {provider: stripe, reconcile: {key: [KEY], params: KEY}}}",
		"sources: {a: {provider: stripe, reconcile: {key: \"KEY\\n\", params: {a: KEY}, url: 'http://u:KEY@h'}}}", "sources: {a: {provider: shopify, reconcile: {key: KEY}}}",
		"destinations: {a: {url: 'http://a/', secret: KEY}}", "destinations: {a: {url: 'http://u:KEY@a/'}}", "destinations: {a: {url: 'http://a/?t=KEY#x'}}",
		"destinations: {a: {url: 'http://a/%zz?t=KEY'}}", "destinations: {a: {url: 'ftp://KEY/'}}", "destinations: {a: {url: [KEY], secret: [KEY]}}",
		"routes: [{url: 'http://u:KEY@a/', secret: [KEY]}]", "routes: [{url: 'KEY', secret: KEY}]", "x: KEY\n y: KEY",
		"sources: &KEY\n  a: {provider: standard-webhooks, secrets: [KEY]}\n"[len("sources: &KEY\n"):],
	}
	// Values of variables must not be shown anywhere.
	for _, where := range []string{
		"database: V", "migrate: V", "listen: V", "admin: {listen: V}", "dedupe_window: V", "unverified_rate: V", "allow_unsafe: [V!]", "shutdown_delay: V",
		"sources: {a: {provider: V}}", "sources: {a: {provider: stripe, scheme: V, secrets: [V]}}", "sources: {a: {provider: none, event: {id: V}}}",
		"sources: {a: {provider: none, event: {id: 'body:id', batch: V}}}", "sources: {a: {provider: none, event: {id: V, batch: 'body:x'}}}",
		"sources: {a: {provider: hmac, secrets: [V], signature: {header: 'V ', algorithm: V, encoding: V, content: '{V}', format: V, secret_encoding: V}}}",
		"sources: {a: {provider: hmac, secrets: [V], signature: {header: X, format: kv, keys: ['V=']}, timestamp: {at: V, format: V, tolerance: V}}}",
		"sources: {a: {provider: stripe, secrets: [V], max_body: V, ack_timeout: V, rate: V, malformed: V, redelivery: V, consume: V, replay_guard: V}}",
		"sources: {a: {provider: stripe, secrets: [V], url: V, content_encoding: [V], ack: {status: V, content_type: V}}}",
		"sources: {a: {provider: plaid, params: {client_id: V, secret: V, environment: V}}}", "sources: {a: {provider: V, scheme: V, params: {V: V}}}",
		"sources: {a: {provider: deepgram, scheme: V, secrets: [V], event: {id: V, document: V}}}",
		"sources: {a: {provider: alipay, url: 'http://a/', ack_key: V}}",
		"sources: {a: {provider: github, reconcile: {key: \"V\\n\", types: [V], delay: V, url: V, params: {owner: V, x: V}}}}",
		"destinations: {a: {url: V, timeout: V, concurrency: V, rate: V, retry: {attempts: V, first: V, max: V}}}",
		"routes: [{name: V, to: V, sources: [V], where: 'V =='}]", "routes: [{name: V., url: V}]", "routes: [{url: 'http://a/', where: 'V'}]",
	} {
		texts = append(texts, strings.ReplaceAll(where, "V", "${CANARY}"))
	}
	faulty := 0
	for _, text := range texts {
		text = strings.ReplaceAll(text, "KEY", key)
		got, ok := Check(LoadOptions{Dir: dirWith(t, text), Environ: environ("CANARY=" + key + "(")})
		if !ok {
			faulty++
		}
		if strings.Contains(got, canary) {
			t.Errorf("%s\nshows %s", text, got)
		}
	}
	if faulty < len(texts)-2 {
		t.Errorf("only %d of %d texts are faulty: the rest proves nothing", faulty, len(texts))
	}
}

func TestVariablesAndFlagsNeverShowSecrets(t *testing.T) {
	t.Parallel()
	dir := dirWith(t, "")
	if err := os.WriteFile(filepath.Join(dir, "key"), []byte("whsec_"+canary), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, opts := range []LoadOptions{
		{Environ: environ("HOOKONCE_ADMIN_TOKEN=" + canary + "\x01")},
		{Environ: environ("HOOKONCE_ADMIN_TOKEN=file:" + canary)},
		{Environ: environ("HOOKONCE_DATABASE=mysql://u:" + canary + "@h/d")},
		{Environ: environ("HOOKONCE_OTHER="+canary, "HOOKONCE_LISTEN=x")},
		{Flags: Flags{Database: "mysql://u:" + canary + "@h/d"}},
		{Flags: Flags{Sources: []string{"a=standard-webhooks:whsec_" + canary}}},
		{Flags: Flags{Sources: []string{"a=standard-webhooks:file:key"}}},
		{Flags: Flags{Sources: []string{"a=standard-webhooks:file:" + canary}}},
		{Flags: Flags{Sources: []string{"a=" + canary, canary, "A=" + canary, "b=" + canary + ":x"}}},
		{Flags: Flags{Forwards: []string{"a=http://u:" + canary + "@h/", canary + "!", "b=ftp://h/" + canary, "c=http://h/%zz" + canary}}},
	} {
		opts.Dir = dir
		if opts.Environ == nil {
			opts.Environ = environ()
		}
		got, ok := Check(opts)
		if ok || strings.Contains(got, canary) {
			t.Errorf("accepted: %v, shows %s", ok, got)
		}
	}
}

func FuzzLoad(f *testing.F) {
	full, err := os.ReadFile("testdata/full.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(full))
	bad, err := filepath.Glob("testdata/bad/*.txt")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range bad {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		text, _, _ := strings.Cut(string(data), separator)
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l := &loader{env: map[string]string{"SET": canary}, used: make(map[string]bool), dir: t.TempDir()}
		s := l.settings(l.parse([]byte(text)), &Flags{})
		for _, fault := range append(l.faults, l.warnings...) {
			line := fault.Text("f")
			if strings.Contains(line, canary) || strings.Contains(line, "\n") || fault.Message == "" || fault.Line > 0 && fault.Col < 1 {
				t.Fatalf("%q gives the fault %q", text, line)
			}
		}
		if len(l.faults) == 0 && (s.Database == "" || s.Listen == "" || s.Admin.Listen == "") {
			t.Fatalf("%q is accepted and gives %v", text, s)
		}
	})
}
