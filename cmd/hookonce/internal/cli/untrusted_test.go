package cli_test

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A certificate that this machine does not trust is named, with what to do.
func TestUntrustedCertificate(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // of the refused certificate
	server.StartTLS()
	t.Cleanup(server.Close)
	const fault = "tls: failed to verify certificate: x509: " // the rest differs between systems
	const remedy = "name the authority of its certificate by --ca FILE, or give the %s a certificate that this machine trusts\n"
	for _, c := range []struct {
		args    []string
		stdout  string
		stderr  string
		subject string // of the remedy
	}{
		{
			[]string{"send", server.URL + "/webhooks/gh", "--provider", "github", "--secret", "a-secret-of-16-bytes"},
			fault, "Error: not answered 2xx: 1 of 1 request\n", "endpoint",
		},
		{
			[]string{"events", "list", "--admin-url", server.URL},
			"", "Error: listing events: asking the gateway at " + server.URL + ": " + fault, "gateway",
		},
	} {
		stdout, stderr, code := run(t, t.TempDir(), c.args...)
		if code != 1 || !strings.Contains(stdout, c.stdout) || !strings.HasPrefix(stderr, c.stderr) || !strings.HasSuffix(stderr, "\nTry: "+fmt.Sprintf(remedy, c.subject)) {
			t.Errorf("%v: %d\nstdout:\n%s\nstderr:\n%s", c.args, code, stdout, stderr)
		}
	}
}
