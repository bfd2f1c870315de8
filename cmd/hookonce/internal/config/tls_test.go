package config

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTLS(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]TLS{
		"":                                       {},
		"tls: {hosts: [hooks.example.com]}":      {Hosts: []string{"hooks.example.com"}, Directory: DefaultDirectory, Folder: DefaultTLSFolder},
		"tls: {cert: tls/cert.pem, key: /k.pem}": {Cert: "tls/cert.pem", Key: "/k.pem"},
	} {
		got := mustLoad(t, LoadOptions{Dir: dirWith(t, text), Environ: environ()}).TLS
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
		if got.Enabled() != (text != "") {
			t.Errorf("%q: enabled is %t", text, got.Enabled())
		}
	}
}

// hinted is an error with a remedy.
type hinted struct{ error }

func (hinted) Hint() string { return "do this" }

// Check reads the files of tls, and Load does not: a reload must work while they are replaced.
func TestOnlyCheckReadsTheFilesOfTLS(t *testing.T) {
	t.Parallel()
	opts := LoadOptions{
		Dir: dirWith(t, "tls:\n  cert: c.pem\n  key: ${KEY}\n"), Environ: environ("KEY=k.pem"),
		CheckTLS: func(cert, key string) (string, error) {
			if cert != "c.pem" || key != "k.pem" {
				t.Errorf("checked %s and %s", cert, key)
			}
			return "key", hinted{errors.New("broken")}
		},
	}
	mustLoad(t, opts)
	text, ok := Check(opts)
	if want := "hookonce.yaml:3:8: tls.key: broken (do this)\n"; ok || text != want {
		t.Errorf("got %q, want %q", text, want)
	}
}
