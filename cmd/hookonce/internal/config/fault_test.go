package config

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write what Check says into testdata/bad")

const separator = "\n----------\n"

// Each file of testdata/bad is named for its fault. It holds settings, the separator, and the
// output of Check.
func TestBadSettings(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/bad/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			input, want, found := strings.Cut(string(data), separator)
			if !found && !*update {
				t.Fatalf("%s has no separator %q", file, strings.TrimSpace(separator))
			}
			got, ok := Check(LoadOptions{Dir: dirWith(t, input+"\n"), Environ: environ("SET=a-value-of-a-variable", "EMPTY=", "NAMED=${SET:-}", "DOLLAR=$SET")})
			if ok {
				t.Errorf("%s is accepted", file)
			}
			if *update {
				if err := os.WriteFile(file, []byte(strings.TrimSuffix(input, "\n")+separator+got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", file, diff)
			}
		})
	}
}

// dirWith returns a folder with the settings file, and files for secrets.
func dirWith(t *testing.T, settings string) string {
	t.Helper()
	dir := t.TempDir()
	contents := map[string]string{
		DefaultFile: settings, "secret": "a-secret-out-of-a-file\n", "empty": "\n", "large": strings.Repeat("x", MaxSecretFile+1),
		"zeros": strings.Repeat("\x00", 32) + "\n",
	}
	if strings.Contains(settings, ".pem") {
		maps.Copy(contents, keyFiles())
	}
	for name, content := range contents {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// keyFiles returns the content of key files by name; only rsa.pem and pkcs1.pem are right for an
// ack_key.
var keyFiles = sync.OnceValue(func() map[string]string {
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	text := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	must(err)
	short, err := rsa.GenerateKey(rand.Reader, 1024)
	must(err)
	_, other, err := ed25519.GenerateKey(rand.Reader)
	must(err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	must(err)
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	must(err)
	ed, err := x509.MarshalPKCS8PrivateKey(other)
	must(err)
	legacy := &pem.Block{Type: "RSA PRIVATE KEY", Headers: map[string]string{"Proc-Type": "4,ENCRYPTED", "DEK-Info": "AES-256-CBC,00"}, Bytes: pkcs8}
	return map[string]string{
		"rsa.pem": text("PRIVATE KEY", pkcs8), "pkcs1.pem": text("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key)),
		"public.pem": text("PUBLIC KEY", public), "encrypted.pem": text("ENCRYPTED PRIVATE KEY", pkcs8),
		"legacy.pem": string(pem.EncodeToMemory(legacy)), "short.pem": text("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(short)),
		"ed.pem": text("PRIVATE KEY", ed), "cut.pem": text("PRIVATE KEY", pkcs8[:100]),
	}
})

func environ(entries ...string) func() []string {
	return func() []string { return entries }
}
