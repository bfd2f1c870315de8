package config

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/provider"
	"github.com/hookonce/hookonce/verify"
)

// Every scheme of the catalog can be written into the settings, with nothing but what
// it needs: a secret or a public key of its kind, parameters, a URL, and the place of
// the event id where nobody knows it.
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
