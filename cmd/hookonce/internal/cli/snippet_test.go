package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/config"
	"github.com/hookonce/hookonce/provider"
	"github.com/hookonce/hookonce/verify"
)

// The settings shown for a provider are accepted once their variables are set, and refused before:
// values that only the user knows are not made up.
func TestSettingsSnippets(t *testing.T) {
	t.Parallel()
	for _, name := range provider.Names() {
		spec, err := provider.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(string(name), func(t *testing.T) {
			t.Parallel()
			f := factsOf(spec)
			file := filepath.Join(t.TempDir(), "hookonce.yaml")
			if err := os.WriteFile(file, []byte(f.Settings), 0o600); err != nil {
				t.Fatal(err)
			}
			environ := snippetEnviron(t, spec, f)
			said, ok := config.Check(config.LoadOptions{File: file, Environ: func() []string { return environ }})
			if !ok {
				t.Errorf("%s\n%s", said, f.Settings)
			}
			said, ok = config.Check(config.LoadOptions{File: file, Environ: func() []string { return nil }})
			var unset []string
			for line := range strings.Lines(f.Settings) {
				if set, _, _ := strings.Cut(line, "#"); strings.Contains(set, "${") {
					_, variable, _ := strings.Cut(set, "${")
					variable, _, _ = strings.Cut(variable, "}")
					unset = append(unset, variable)
				}
			}
			if ok != (len(unset) == 0) {
				t.Errorf("accepted %v, with %v not set:\n%s", ok, unset, f.Settings)
			}
			for _, variable := range unset {
				if !strings.Contains(said, variable) {
					t.Errorf("%s is not named:\n%s", variable, said)
				}
			}
			if f.Event.ID == "" && !slices.ContainsFunc(unset, func(v string) bool { return strings.HasSuffix(v, "_EVENT_ID") }) {
				t.Errorf("the snippet guesses an event id:\n%s", f.Settings)
			}
		})
	}
}

// snippetEnviron returns values for the variables of a snippet.
func snippetEnviron(t *testing.T, spec *provider.Spec, f *providerFacts) []string {
	t.Helper()
	values := map[string]string{
		"url": "https://hooks.example.com/a", "secret": "a-secret-of-16-bytes-or-more", "signature_header": "X-Signature", "at": "header:X-Token", "event_id": "sha256:body",
	}
	if spec.Event.Batch != "" {
		values["event_id"] = "sha256:item"
	}
	params := slices.Clone(spec.Params)
	if len(spec.Schemes) > 0 {
		values["secret"], values["key"] = keysFor(t, spec.Schemes[0], &f.Schemes[0])
		params = append(params, spec.Schemes[0].Params...)
	}
	for _, p := range params {
		values[p.Name] = "value-1"
		for value := range p.Sets {
			values[p.Name] = value
		}
	}
	var environ []string
	for what, value := range values {
		name := strings.Trim(variable(string(spec.Name), what), `"${}`)
		environ = append(environ, name+"="+value)
	}
	return environ
}

// keysFor returns keys that fit a scheme, and checks the derived facts against the compiled scheme.
func keysFor(t *testing.T, scheme verify.Scheme, f *schemeFacts) (private, public string) {
	t.Helper()
	scheme.Values = make(map[string]string)
	for _, p := range scheme.Params {
		scheme.Values[p.Name] = "value-1"
		for value := range p.Sets {
			scheme.Values[p.Name] = value
		}
	}
	v, err := verify.Compile(scheme)
	if err != nil {
		t.Fatal(err)
	}
	if v.NeedsURL() != f.SignsURL || v.PublicKey() != publicKey(&scheme) || v.FetchesKeys() != (f.KeysFrom != "") {
		t.Errorf("the facts differ from the scheme: %+v", f)
	}
	return KeyPair(t, v)
}
