package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hookonce/hookonce/internal/test/eventually"
)

// tlsSettings are standardSettings with the files that world.install writes.
const tlsSettings = standardSettings + "tls: {cert: cert.pem, key: key.pem}\n"

// newTLSWorld is newWorld with a certificate that the commands of the world trust. The returned
// configuration trusts it, too.
func newTLSWorld(t testing.TB, db *database, settings string) (*world, *tls.Config) {
	t.Helper()
	w, c := newWorld(t, db, settings), newCertificates(t)
	w.env = append(w.env, "SSL_CERT_FILE="+c.file)
	return w, w.install(t, &c.good.Certificates[0])
}

// install renames a certificate and its key into place, and returns a configuration that trusts them.
func (w *world) install(t testing.TB, cert *tls.Certificate) *tls.Config {
	t.Helper()
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	w.replace(t, "cert.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]}))
	w.replace(t, "key.pem", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}))
	leaf, err := x509.ParseCertificate(cert.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
}

func (w *world) replace(t testing.TB, name string, content []byte) {
	t.Helper()
	path := filepath.Join(w.dir, name)
	if err := os.WriteFile(path+".new", content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// The command send delivers over https to a gateway with a certificate of its own.
func TestSendOverTLS(t *testing.T) {
	t.Parallel()
	w, _ := newTLSWorld(t, newDatabase(t, "sqlite"), tlsSettings)
	g := w.start(t)
	send := []string{"send", "https://" + g.public + "/webhooks/github", "--provider", "github", "--secret", githubSecret, "--id", "tls-1"}
	if out := w.run(t, send...); out.code != 0 {
		t.Errorf("send: code %d\n%s%s", out.code, out.stdout, out.stderr)
	}
	if got := w.sink.next(t); got.header.Get("Hookonce-Event-Id") != "tls-1" {
		t.Errorf("forwarded %v, want the event tls-1", got.header)
	}
	w.env = slices.DeleteFunc(w.env, func(entry string) bool { return strings.HasPrefix(entry, "SSL_CERT_FILE=") })
	if out := w.run(t, send...); out.code != 1 || !strings.Contains(out.stdout+out.stderr, "certificate") {
		t.Errorf("send to an unknown authority: code %d\n%s%s", out.code, out.stdout, out.stderr)
	}
	if out := w.run(t, "send", "http://"+g.public+"/webhooks/github", "--provider", "github", "--secret", githubSecret); out.code != 1 || !strings.Contains(out.stdout, "400") {
		t.Errorf("send without TLS: code %d\n%s%s", out.code, out.stdout, out.stderr)
	}
}

// The listener is as strict over TLS as without it.
func TestRawHTTPOverTLS(t *testing.T) {
	t.Parallel()
	w, trust := newTLSWorld(t, newDatabase(t, "sqlite"), tlsSettings)
	g := w.start(t)
	g.speakRaw(t, func() (net.Conn, error) { return tls.Dial("tcp", g.public, trust) })
}

// serial returns the serial number of the certificate that a client sees.
func (g *gateway) serial() (string, error) {
	conn, err := tls.Dial("tcp", g.public, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		return "", err
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.String(), nil
}

// While senders deliver, a certificate is replaced by a broken one, then by a good one. Every delivery
// gets through, and operators see the broken one everywhere.
func TestCertificateIsReplacedUnderLoad(t *testing.T) {
	t.Parallel()
	w, trust := newTLSWorld(t, newDatabase(t, "sqlite"), tlsSettings)
	next := selfSigned(t, &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
	leaf, err := x509.ParseCertificate(next.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	trust.RootCAs.AddCert(leaf)
	g := w.start(t)
	before, err := g.serial()
	if err != nil {
		t.Fatal(err)
	}

	done := make(chan struct{})
	var senders sync.WaitGroup
	for i := range 3 {
		senders.Go(func() {
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: trust, DisableKeepAlives: i == 0}, Timeout: eventually.Bound}
			defer client.CloseIdleConnections()
			for n := 0; ; n++ {
				select {
				case <-done:
					return
				case <-time.After(50 * time.Millisecond):
				}
				d := push(fmt.Sprintf("load-%d-%d", i, n))
				req, err := http.NewRequest(http.MethodPost, "https://"+g.public+"/webhooks/github", strings.NewReader(d.body))
				if err != nil {
					t.Error(err)
					return
				}
				req.Header = d.header
				resp, err := client.Do(req)
				if err != nil {
					t.Errorf("delivery %d of sender %d: %v", n, i, err)
					return
				}
				resp.Body.Close()
				if resp.StatusCode != http.StatusOK {
					t.Errorf("delivery %d of sender %d: %s", n, i, resp.Status)
				}
			}
		})
	}
	good, err := os.ReadFile(filepath.Join(w.dir, "cert.pem"))
	if err != nil {
		t.Fatal(err)
	}
	w.replace(t, "cert.pem", good[:len(good)/2])
	const failures = `hookonce_tls_certificate_failures_total{host=""}`
	g.Eventually(t, "the broken certificate is counted", func() bool {
		g.Signal(t, syscall.SIGHUP)
		_, values := g.metrics(t)
		return values[failures] == "1"
	})
	if got, err := g.serial(); err != nil || got != before {
		t.Errorf("beside a broken file, the certificate in use is %s, %v, want %s", got, err, before)
	}
	if text := g.Log(); !strings.Contains(text, "the changed certificate cannot be used; the one from before stays in use") {
		t.Errorf("the log does not tell of the broken certificate:\n%s", text)
	}
	w.checkDoctor(t, "failure", "there is no certificate in the file")
	if out := w.run(t, "config", "check", "hookonce.yaml"); out.code != 1 || !strings.Contains(out.stdout, ": tls.cert: there is no certificate in the file") {
		t.Errorf("config check: code %d\n%s%s", out.code, out.stdout, out.stderr)
	}

	w.install(t, &next)
	g.Eventually(t, "the new certificate is in use", func() bool {
		got, err := g.serial()
		return err == nil && got == leaf.SerialNumber.String()
	})
	close(done)
	senders.Wait()
	_, values := g.metrics(t)
	if got, want := values[`hookonce_tls_certificate_expiry_timestamp_seconds{host=""}`], strconv.FormatFloat(float64(leaf.NotAfter.Unix()), 'g', -1, 64); got != want {
		t.Errorf("the certificate expires at %s, want %s", got, want)
	}
	w.checkDoctor(t, "ok", "expires on")
}

// checkDoctor checks the status and the findings of the check tls.
func (w *world) checkDoctor(t testing.TB, status, seen string) {
	t.Helper()
	out := w.run(t, "doctor", "--config", "hookonce.yaml", "--json")
	var report struct {
		Checks []struct {
			Name, Status, Remedy string
			Seen                 []string
		}
	}
	if err := json.Unmarshal([]byte(out.stdout), &report); err != nil {
		t.Fatalf("doctor: %v: %s%s", err, out.stdout, out.stderr)
	}
	for _, c := range report.Checks {
		if c.Name == "tls" {
			if c.Status != status || !strings.Contains(strings.Join(c.Seen, "\n"), seen) || (c.Remedy == "") != (status == "ok") {
				t.Errorf("doctor: %+v, want %s with %q", c, status, seen)
			}
			return
		}
	}
	t.Errorf("doctor has no check tls: %s", out.stdout)
}
