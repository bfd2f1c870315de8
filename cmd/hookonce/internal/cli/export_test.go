package cli

import (
	"cmp"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/spf13/cobra"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/app"
	"github.com/hookonce/hookonce/verify"
)

// A test that runs commands can put its own file in the place of the packages' settings.
func init() {
	app.InstalledSettings = cmp.Or(os.Getenv("INSTALLED_SETTINGS"), "/nowhere/hookonce.yaml")
	app.InstalledFolder = filepath.Dir(app.InstalledSettings)
}

// Root returns the tree of all commands.
func Root() *cobra.Command { return new(program).rootCommand() }

// PanicBesideScreen panics in a goroutine that works beside a screen on terminal, and recovers above it.
func PanicBesideScreen(terminal *os.File) {
	p := &program{stdin: terminal, stdout: terminal}
	s := p.newScreen()
	if s == nil {
		panic("there is no screen")
	}
	s.setStatus("a status line")
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = recover() }()
		defer s.guard()
		panic("a fault")
	}()
	<-done
}

// keyPairs are those that KeyPair has made.
var keyPairs struct {
	mu   sync.Mutex
	made [][2]string
}

// KeyPair returns keys that fit a scheme. Schemes with the same kind of private key share it: making one of RSA takes
// longer than the rest of a test.
func KeyPair(t testing.TB, v *verify.Verifier) (private, public string) {
	t.Helper()
	keyPairs.mu.Lock()
	defer keyPairs.mu.Unlock()
	for _, pair := range keyPairs.made {
		if _, err := v.ParseKey(pair[1]); err == nil && v.PublicKey() {
			return pair[0], pair[1]
		}
	}
	private, public, err := v.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	if v.PublicKey() {
		keyPairs.made = append(keyPairs.made, [2]string{private, public})
	}
	return private, public
}
