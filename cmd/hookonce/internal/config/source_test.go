package config

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/provider"
	"github.com/hookonce/hookonce/verify"
)

// The settings can use every scheme of the catalog with only its required values: a secret or a
// public key, parameters, a URL, and the location of the event id if it is unknown.
func TestEveryProvider(t *testing.T) {
	t.Parallel()
	for _, name := range provider.Names() {
		spec, err := provider.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		for i := range spec.Schemes {
			scheme := spec.Schemes[i]
			t.Run(string(name)+"/"+scheme.ID, func(t *testing.T) {
				t.Parallel()
				source := map[string]any{"provider": name, "scheme": scheme.ID}
				params := make(map[string]string)
				for _, p := range spec.ParamsOf(&scheme) {
					ofHandshake := slices.ContainsFunc(spec.Params, func(own verify.Param) bool { return own.Name == p.Name })
					if p.Need == verify.NeedOptional && !ofHandshake {
						continue
					}
					params[p.Name] = "value-1"
					for value := range p.Sets {
						params[p.Name] = value
					}
				}
				if err := spec.SetParams(&scheme, params); err != nil {
					t.Fatal(err)
				}
				v, err := verify.Compile(scheme)
				if err != nil {
					t.Fatal(err)
				}
				switch private, public, err := v.GenerateKey(); {
				case err != nil:
					t.Fatal(err)
				case public != "":
					source["key"] = public
				case private != "":
					source["secrets"] = []string{private}
				}
				if len(params) > 0 {
					source["params"] = params
				}
				if v.NeedsURL() {
					source["url"] = "https://hooks.example.com/webhooks/a"
				}
				if signature := spec.AckSignature(); signature != nil {
					source["ack_key"] = privateKeyOf(t, signature.Scheme)
				}
				if spec.Event.ID == "" {
					source["event"] = map[string]string{"id": "sha256:body"}
					if spec.Event.Batch != "" {
						source["event"] = map[string]string{"id": "sha256:item"}
					}
				}
				text, err := json.Marshal(map[string]any{"sources": map[string]any{"a": source}})
				if err != nil {
					t.Fatal(err)
				}
				got, ok := Check(LoadOptions{Dir: dirWith(t, string(text)), Environ: environ()})
				unsigned := strings.Contains(got, "warning: sources.a: unsigned")
				if !ok || strings.Count(got, "\n") > 1 || unsigned == v.NeedsKeys() || (got != "") != unsigned {
					t.Errorf("%s\n%s", text, got)
				}
			})
		}
	}
}

func privateKeyOf(t *testing.T, scheme verify.Scheme) string {
	t.Helper()
	v, err := verify.Compile(scheme)
	if err != nil {
		t.Fatal(err)
	}
	private, _, err := v.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	return private
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	const verifyToken = "verify_token: it is not set, so the set-up request of "
	tests := map[string]struct {
		source string
		want   string // part of the only warning; "" for none
	}{
		"a space before":      {`{provider: github, secrets: [" 0123456789abcdef"]}`, "secrets[0]: the secret begins or ends with a space"},
		"a tab behind":        {`{provider: github, secrets: ["0123456789abcdef\t"]}`, "secrets[0]: the secret begins or ends with a space"},
		"a space within":      {`{provider: github, secrets: ["0123456789 abcdef"]}`, ""},
		"of one that is read": {`{provider: telegram, secrets: ["0123456789abcdef "], event: {id: "body:update_id"}}`, "secrets[0]: the secret begins or ends with a space"},
		"meta":                {`{provider: meta, secrets: [0123456789abcdef]}`, "sources.a.params." + verifyToken + "meta is refused until it is: The verify token"},
		"whatsapp":            {`{provider: whatsapp, secrets: [0123456789abcdef], params: {}}`, "sources.a.params." + verifyToken + "whatsapp is refused until it is: The verify token"},
		"meta with its token": {`{provider: meta, secrets: [0123456789abcdef], params: {verify_token: x}}`, ""},
		"no ack key":          {`{provider: alipay, url: "https://a/w", key: "file:public.pem"}`, "sources.a.ack_key: it is not set, so answers are not signed: Alipay+ counts"},
		"with its ack key":    {`{provider: alipay, url: "https://a/w", key: "file:public.pem", ack_key: "file:pkcs1.pem"}`, ""},
		"its own window":      {`{provider: stripe, secrets: [0123456789abcdef], dedupe_window: 1h}`, "is shorter than stripe retries (3d)"},
		"a longer tolerance":  {`{provider: stripe, secrets: [0123456789abcdef], timestamp: {tolerance: 31d}}`, "the tolerance of source a (31d) is longer than its dedupe window (30d)"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, ok := Check(LoadOptions{Dir: dirWith(t, "sources: {a: "+tt.source+"}\n"), Environ: environ()})
			if !ok || tt.want == "" && got != "" || tt.want != "" && (strings.Count(got, "\n") != 1 || !strings.Contains(got, tt.want)) {
				t.Errorf("got %v, %s\nwant %s", ok, got, tt.want)
			}
		})
	}
}

// A condition on a body that is never JSON deserves a warning.
func TestWarningOfBodiesThatAreForms(t *testing.T) {
	t.Parallel()
	const form, doc, json = `{provider: none, event: {id: "form:id"}}`, `{provider: none, event: {id: "body:id", document: "form:p"}}`,
		`{provider: none, event: {id: "header:X-Id"}}`
	for text, want := range map[string]string{
		`sources: [f], where: "body.paid"`:             "source f: their bodies are forms",
		`sources: [f, j], where: "not (body.n in [])"`: "source f: their bodies are forms",
		`sources: [f], where: "event.type == 'body'"`:  "",
		`sources: [d, j], where: "body.paid"`:          "",
		`where: "body.paid"`:                           "",
	} {
		got, ok := Check(LoadOptions{Environ: environ(), Dir: dirWith(t, "sources: {f: "+form+", d: "+doc+", j: "+json+"}\nroutes: [{url: 'https://a/', "+text+"}]\n")})
		if !ok || strings.Contains(got, "bodies") != (want != "") || !strings.Contains(got, want) {
			t.Errorf("%s: %v, %s", text, ok, got)
		}
	}
}

// Only warnings that the engine also gives, at start or in the status of a source, are marked.
func TestWarningsThatTheEngineGives(t *testing.T) {
	t.Parallel()
	s := mustLoad(t, LoadOptions{Environ: environ(), Dir: dirWith(t,
		"dedupe_window: 2h\nretention: 1h\nsources: {a: {provider: stripe, secrets: [0123456789abcdef], dedupe_window: 1h}, b: {provider: stripe, secrets: [short]}, c: {provider: none, event: {id: 'body:id'}}, d: {provider: alipay, url: 'https://a/w', key: 'file:public.pem'}}\n")})
	type marks struct{ AtStart, InStatus bool }
	got := map[string]marks{}
	for _, w := range s.Warnings {
		got[w.Path] = marks{w.AtStart, w.InStatus}
	}
	want := map[string]marks{
		"sources.a.dedupe_window": {true, true}, "dedupe_window": {}, "sources.b.secrets[0]": {}, "sources.c": {false, true},
		"sources.d.ack_key": {true, false},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A public key may be readable by every user. A private key is refused.
func TestPublicKeyFile(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("files have no permissions for others on Windows")
	}
	for _, name := range []provider.Name{"discord", "sendgrid"} {
		private, public := keyPairOf(t, name)
		for _, c := range []struct {
			key, want string
			ok        bool
		}{
			{public, "", true},
			{private, "sources.a.key: this is a private key: the source needs the public one", false},
		} {
			dir := dirWith(t, "sources: {a: {provider: "+string(name)+", key: 'file:key', event: {id: 'sha256:ITEM'}}}\n")
			settings, err := os.ReadFile(filepath.Join(dir, DefaultFile))
			if err != nil {
				t.Fatal(err)
			}
			where := "body"
			if name == "sendgrid" {
				where = "item"
			}
			writeOpen(t, filepath.Join(dir, DefaultFile), strings.Replace(string(settings), "ITEM", where, 1))
			writeOpen(t, filepath.Join(dir, "key"), c.key)
			got, ok := Check(LoadOptions{Dir: dir, Environ: environ()})
			if ok != c.ok || c.want == "" && got != "" || !strings.Contains(got, c.want) || strings.Contains(got, "every user") {
				t.Errorf("%s: got %v, %s\nwant %s", name, ok, got, c.want)
			}
		}
	}
}

func keyPairOf(t *testing.T, name provider.Name) (private, public string) {
	t.Helper()
	spec, err := provider.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	v, err := verify.Compile(spec.Schemes[0])
	if err != nil {
		t.Fatal(err)
	}
	private, public, err = v.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	return private, public
}

// writeOpen writes a file that every user may read.
func writeOpen(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
}
