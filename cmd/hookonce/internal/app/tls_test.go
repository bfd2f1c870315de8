package app

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/config"
	"github.com/hookonce/hookonce/internal/test/eventually"
)

// writePair writes the certificate of httptest, which is for example.com and valid until 2084, and its
// key into dir. It returns a configuration that trusts it.
func writePair(t *testing.T, dir string) *tls.Config {
	t.Helper()
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	key, err := x509.MarshalPKCS8PrivateKey(server.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{
		"cert.pem": {Type: "CERTIFICATE", Bytes: server.Certificate().Raw}, "key.pem": {Type: "PRIVATE KEY", Bytes: key},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	return &tls.Config{RootCAs: roots, ServerName: "example.com"}
}

// tlsSettings are labSettings with the pair of writePair.
func tlsSettings(t *testing.T) (*config.Settings, *tls.Config) {
	t.Helper()
	s, dir := labSettings(t), t.TempDir()
	trust := writePair(t, dir)
	s.TLS = config.TLS{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
	return s, trust
}

// scrape returns the metrics of a gateway.
func scrape(t *testing.T, r *running) string {
	t.Helper()
	resp, err := http.Get("http://" + r.await(t, "admin")["admin"].(string) + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The listener speaks HTTP/1.1 over TLS and nothing else, and cuts off clients that begin no handshake.
func TestServeTLSFromFiles(t *testing.T) {
	t.Parallel()
	s, trust := tlsSettings(t)
	r := serve(t, s)
	admin := r.await(t, "admin")["admin"].(string)
	public := r.await(t, "listen")["listen"].(string)
	if got, want := <-r.serving, [2]string{"https://" + public, "http://" + admin}; got != want {
		t.Errorf("it says that it serves %v, want %v", got, want)
	}

	silent, err := net.Dial("tcp", public)
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for want, protocols := range map[string][]string{"http/1.1": {"h2", "http/1.1"}, "": nil, "error": {"h2"}} {
		client := trust.Clone()
		client.NextProtos = protocols
		got := "error"
		if conn, err := tls.Dial("tcp", public, client); err == nil {
			got = conn.ConnectionState().NegotiatedProtocol
			conn.Close()
		}
		if got != want {
			t.Errorf("a client that offers %v gets %q, want %q", protocols, got, want)
		}
	}
	resp, err := http.Get("http://" + public + "/webhooks/lab")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusBadRequest || !strings.Contains(string(text), "HTTP request to an HTTPS server") {
		t.Errorf("plain HTTP is answered %s: %s, %v", resp.Status, text, err)
	}
	if err := silent.SetReadDeadline(time.Now().Add(eventually.Bound)); err != nil {
		t.Fatal(err)
	}
	if n, err := silent.Read(make([]byte, 1)); n != 0 || err == nil || os.IsTimeout(err) {
		t.Errorf("a client that says nothing is not cut off: %d, %v", n, err)
	}
	text := scrape(t, r)
	for _, want := range []string{
		`hookonce_tls_certificate_expiry_timestamp_seconds{host=""} 3.6e+09`, `hookonce_tls_certificate_failures_total{host=""} 0`, "hookonce_tls_handshake_errors_total 3",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the metrics lack %q", want)
		}
	}
	for line := range strings.Lines(r.log.text()) {
		if strings.Contains(line, "handshake error") && !strings.Contains(line, `"level":"DEBUG"`) {
			t.Errorf("faults of clients fill the log: %s", line)
		}
	}
}

// A client that speaks plain HTTP reads its 400, though the server reads nothing of the body. One that
// never ends is cut off.
func TestPlainHTTPOnATLSPort(t *testing.T) {
	t.Parallel()
	s, _ := tlsSettings(t)
	r := serve(t, s)
	public := r.await(t, "listen")["listen"].(string)
	for range 5 {
		conn, err := net.Dial("tcp", public)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(eventually.Bound)); err != nil {
			t.Fatal(err)
		}
		body := strings.Repeat("x", 300<<10)
		if _, err := fmt.Fprintf(conn, "POST /webhooks/lab HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", len(body), body); err != nil {
			t.Fatalf("sending a plain request: %v", err)
		}
		answer, err := io.ReadAll(conn)
		if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.0 400 ") {
			t.Fatalf("plain HTTP is answered %q, %v", answer, err)
		}
		for err == nil {
			_, err = io.WriteString(conn, body)
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error("a client that goes on is not cut off")
		}
	}
}

// Senders are told the first host, whose certificate the gateway gets by ACME.
func TestWebhookURLOfAHost(t *testing.T) {
	t.Parallel()
	g := &gateway{options: &Options{Settings: &config.Settings{TLS: config.TLS{Hosts: []string{"a.example.com", "b.example.com"}}}}}
	if got := g.webhookURL(); got != "https://a.example.com" {
		t.Errorf("the address for senders is %s", got)
	}
}

// A stop waits for a delivery over TLS whose body is on its way.
func TestStopClaimsArrivingDeliveriesOverTLS(t *testing.T) {
	t.Parallel()
	s, trust := tlsSettings(t)
	r := serve(t, s)
	public := r.await(t, "listen")["listen"].(string)
	conn, err := tls.Dial("tcp", public, trust)
	if err != nil {
		t.Fatal(err)
	}
	answers := beginDelivery(t, conn)
	r.cancel()
	refuses(t, public)
	if _, err := io.WriteString(conn, labBody); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(answers, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("the delivery is answered %s", resp.Status)
	}
	if err := r.wait(t); err != nil {
		t.Errorf("a clean stop ended with %v", err)
	}
}

// Faults that only a person can mend stop the start.
func TestServeRefusesTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writePair(t, dir)
	cert, key, folder := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), filepath.Join(dir, "open")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	acme := func(folder string) config.TLS {
		return config.TLS{Hosts: []string{"hooks.example.com"}, Directory: "https://127.0.0.1:1/", Folder: folder}
	}
	for _, tt := range []struct {
		name          string
		tls           config.TLS
		message, hint string
	}{
		{"no certificate", config.TLS{Cert: filepath.Join(dir, "none"), Key: key}, "tls.cert: " + filepath.Join(dir, "none") + ": the file cannot be read", "correct the path"},
		{"no key", config.TLS{Cert: cert, Key: cert}, "tls.key: " + cert, "private key"},
		{"a folder for everyone", acme(folder), "tls.folder: " + folder + " is not a folder of this user alone", "chmod 700"},
		{"a file in place of the folder", acme(cert), "tls.folder: ", "choose another folder"},
		{"a folder in no folder", acme(filepath.Join(dir, "a", "b")), "tls.folder: ", "choose another folder"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := labSettings(t)
			s.TLS = tt.tls
			err := serve(t, s).wait(t)
			hinter, ok := errors.AsType[interface {
				error
				Hint() string
			}](err)
			if !ok || !strings.Contains(err.Error(), tt.message) || !strings.Contains(hinter.Hint(), tt.hint) {
				t.Errorf("error %v, want %q and the hint %q", err, tt.message, tt.hint)
			}
		})
	}
}

// Without a certificate from the authority the gateway serves on, and says so everywhere.
func TestServeWithoutAnAuthority(t *testing.T) {
	t.Parallel()
	s := labSettings(t)
	s.TLS = config.TLS{Hosts: []string{"hooks.example.com"}, Directory: "https://127.0.0.1:1/", Folder: filepath.Join(t.TempDir(), "tls")}
	if _, checks := statuses(t, s); check(t, checks, "tls").Status != StatusWarning {
		t.Errorf("before the first start: %+v", check(t, checks, "tls"))
	}
	r := serve(t, s)
	line := r.await(t, "remedy")
	if line["level"] != "ERROR" || line["host"] != "hooks.example.com" || !strings.Contains(line["msg"].(string), "retrying in") {
		t.Errorf("the log line is %v", line)
	}
	admin := "http://" + r.await(t, "admin")["admin"].(string)
	if got := status(t, admin+"/readyz"); got != http.StatusOK {
		t.Errorf("readyz is %d: a load balancer would keep the authority's challenge away", got)
	}
	text := scrape(t, r)
	for _, want := range []string{
		`hookonce_tls_certificate_expiry_timestamp_seconds{host="hooks.example.com"} 0`, `hookonce_tls_certificate_failures_total{host="hooks.example.com"} 1`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the metrics lack %q", want)
		}
	}
	resp, err := http.Get(admin + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if page, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(page), "there is no certificate, so senders cannot connect") {
		t.Errorf("the dashboard shows no warning, error %v", err)
	}
	_, checks := statuses(t, s)
	if c := check(t, checks, "tls"); c.Status != StatusFailure || !strings.Contains(strings.Join(c.Seen, "\n"), "connection refused") {
		t.Errorf("doctor: %+v", c)
	}
	info, err := os.Stat(s.TLS.Folder)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder: %v, %v", info, err)
	}
}

func TestDoctorReadsTheCertificate(t *testing.T) {
	t.Parallel()
	s, _ := tlsSettings(t)
	_, checks := statuses(t, s)
	if c := check(t, checks, "tls"); c.Status != StatusOK || !strings.Contains(c.Seen[0], "example.com") || !strings.Contains(c.Seen[0], "expires on 2084-01-29") {
		t.Errorf("%+v", c)
	}
	s.TLS.Key = s.TLS.Cert
	_, checks = statuses(t, s)
	if c := check(t, checks, "tls"); c.Status != StatusFailure {
		t.Errorf("with a wrong key: %+v", c)
	}
	if _, checks := statuses(t, labSettings(t)); strings.Contains(checks[1].Name, "tls") {
		t.Errorf("without tls: %+v", checks[1])
	}
}

// doctor tells that hosts do not suit several gateways.
func TestDoctorOnHostsWithPostgreSQL(t *testing.T) {
	t.Parallel()
	tls := "tls: {hosts: [hooks.example.com], folder: " + filepath.Join(t.TempDir(), "none") + "}\ndatabase: "
	for database, want := range map[string]bool{"postgres://db.invalid/hooks": true, "sqlite:x.db": false} {
		c := (&doctor{settings: settings(t, tls+database)}).checkTLS()
		if got := strings.Contains(strings.Join(c.Seen, "\n"), "several gateways"); got != want {
			t.Errorf("%s: %+v", database, c)
		}
	}
}

func TestJudgeCertificate(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for _, tt := range []struct {
		lifetime, left time.Duration
		want           Status
		seen           string
	}{
		{90 * day, 20*day + time.Hour, StatusOK, "in 20 days"},
		{90 * day, 13 * day, StatusWarning, "expires on"},
		{6 * day, 2 * day, StatusOK, "expires on"},
		{6 * day, 12 * time.Hour, StatusWarning, "in 11 hours"},
		{90 * day, -time.Minute, StatusFailure, "has expired"},
		{day, 2 * day, StatusFailure, "not valid before"},
	} {
		c := Check{Status: StatusOK}
		end := time.Now().Add(tt.left)
		c.judgeCertificate("a.example.com", &x509.Certificate{NotBefore: end.Add(-tt.lifetime), NotAfter: end}, "renew it")
		if c.Status != tt.want || !strings.Contains(c.Seen[0], tt.seen) || (c.Remedy == "") != (tt.want == StatusOK) {
			t.Errorf("%s left of %s: %+v, want %s and %q", tt.left, tt.lifetime, c, tt.want, tt.seen)
		}
	}
}

func TestReloadNamesChangedTLS(t *testing.T) {
	t.Parallel()
	running, read := labSettings(t), labSettings(t)
	running.Database = read.Database
	read.TLS = config.TLS{Cert: "cert.pem", Key: "key.pem"}
	if got := needRestart(running, read); len(got) != 1 || got[0] != "tls" {
		t.Errorf("a restart is needed for %v, want tls", got)
	}
}
