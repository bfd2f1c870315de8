package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/internal/test/eventually"
)

// issue returns a self-signed certificate and its key, as PEM.
func issue(t testing.TB, name string, notAfter time.Time) (cert, key []byte) {
	t.Helper()
	return issueFor(t, name, []string{name}, nil, notAfter)
}

// issueFor is issue for several names and addresses.
func issueFor(t testing.TB, name string, names []string, addresses []net.IP, notAfter time.Time) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: names, IPAddresses: addresses,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: notAfter,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	if key, err = encodeKey(private); err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), key
}

// The host for addresses is one that the certificate covers.
func TestHostOfFiles(t *testing.T) {
	t.Parallel()
	loopback, other := net.IPv4(127, 0, 0, 1), net.ParseIP("2001:db8::1")
	for _, c := range []struct {
		names     []string
		addresses []net.IP
		want      string
	}{
		{[]string{"hooks.example.com", "b.example.com"}, nil, "hooks.example.com"},
		{[]string{"hooks.example.com"}, []net.IP{loopback}, "127.0.0.1"},
		{[]string{"*.example.com", "localhost"}, nil, "localhost"},
		{[]string{"*.example.com"}, nil, "HOST.example.com"},
		{[]string{"*.example.com"}, []net.IP{other}, "2001:db8::1"},
		{nil, nil, "127.0.0.1"},
	} {
		dir := t.TempDir()
		cert, key := issueFor(t, "ignored.example.com", c.names, c.addresses, inADay())
		write(t, filepath.Join(dir, "cert.pem"), cert)
		write(t, filepath.Join(dir, "key.pem"), key)
		f, err := OpenFiles(filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), newReports().watch())
		if err != nil {
			t.Fatal(err)
		}
		if got := f.Host("127.0.0.1"); got != c.want {
			t.Errorf("%v %v: the host is %s, want %s", c.names, c.addresses, got, c.want)
		}
	}
}

func inADay() time.Time { return time.Now().Add(24 * time.Hour) }

func write(t testing.TB, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// reports collects the calls of a Watch.
type reports struct {
	log   logLines
	mu    sync.Mutex
	calls []string
	news  chan struct{}
}

func newReports() *reports { return &reports{news: make(chan struct{}, 1)} }

func (r *reports) add(call string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, call)
	wake(r.news)
}

func (r *reports) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.calls...)
}

// await waits until a number of calls were made.
func (r *reports) await(t *testing.T, n int) {
	t.Helper()
	for len(r.all()) < n {
		eventually.Receive(t, fmt.Sprintf("more reports than %v", r.all()), r.news)
	}
}

func (r *reports) watch() Watch {
	return Watch{
		Log: slog.New(slog.NewTextHandler(&r.log, nil)),
		Holds: func(host string, until time.Time) {
			if until.IsZero() {
				r.add("none " + host)
				return
			}
			r.add("holds " + host)
		},
		Failed: func(host string) { r.add("failed " + host) },
	}
}

type logLines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// listen accepts and handshakes until the test ends.
func listen(t *testing.T, k Keeper) string {
	t.Helper()
	ln, err := tls.Listen("tcp", "127.0.0.1:0", k.Config())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = conn.Write([]byte("x"))
			}()
		}
	}()
	return ln.Addr().String()
}

// served returns the name in the certificate that a client sees.
func served(t *testing.T, address string) string {
	t.Helper()
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: eventually.Bound}, "tcp", address, &tls.Config{InsecureSkipVerify: true, ServerName: "any.example.com"})
	if err != nil {
		t.Errorf("the handshake failed: %v", err)
		return ""
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].DNSNames[0]
}

// Files are replaced in each of the usual ways while clients connect. No handshake fails, and each new
// certificate comes into use.
func TestChangedFilesAreTaken(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	// As Kubernetes does: the files lead over the link ..data into a folder of one version.
	version := func(name string) {
		folder := filepath.Join(dir, "..version-"+name)
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		certPEM, keyPEM := issue(t, name, inADay())
		write(t, filepath.Join(folder, "tls.crt"), certPEM)
		write(t, filepath.Join(folder, "tls.key"), keyPEM)
		link := filepath.Join(dir, "..data")
		if err := errors.Join(os.Symlink(filepath.Base(folder), link+"_tmp"), os.Rename(link+"_tmp", link)); err != nil {
			t.Fatal(err)
		}
	}
	replace := func(name string) {
		certPEM, keyPEM := issue(t, name, inADay())
		for path, content := range map[string][]byte{cert: certPEM, key: keyPEM} {
			write(t, path+".new", content)
			if err := os.Rename(path+".new", path); err != nil {
				t.Fatal(err)
			}
		}
	}
	overwrite := func(name string) {
		certPEM, keyPEM := issue(t, name, inADay())
		write(t, cert, certPEM)
		write(t, key, keyPEM)
	}
	version("first.example.com")
	for _, name := range []string{"tls.crt", "tls.key"} {
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	r := newReports()
	f, err := OpenFiles(cert, key, r.watch())
	if err != nil {
		t.Fatal(err)
	}
	var keeping, clients sync.WaitGroup
	keeping.Go(func() { f.Keep(t.Context()) })
	t.Cleanup(keeping.Wait)
	address := listen(t, f)
	done := make(chan struct{})
	for range 3 {
		clients.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					served(t, address)
				}
			}
		})
	}
	for i, step := range []struct {
		name   string
		change func(string)
	}{
		{"link.example.com", version}, {"rename.example.com", replace}, {"write.example.com", overwrite}, {"again.example.com", replace},
	} {
		step.change(step.name)
		f.Wake()
		r.await(t, i+2)
		if got := served(t, address); got != step.name {
			t.Errorf("the certificate in use is that of %s, want %s", got, step.name)
		}
	}
	close(done)
	clients.Wait()
	for _, call := range r.all() {
		if call != "holds " {
			t.Errorf("report %q, want none but of certificates in use", call)
		}
	}
}

// A broken replacement changes nothing, and is reported once.
func TestBrokenReplacementKeepsTheOldCertificate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	oldCert, oldKey := issue(t, "old.example.com", inADay())
	newCert, newKey := issue(t, "new.example.com", inADay())
	write(t, cert, oldCert)
	write(t, key, oldKey)
	r := newReports()
	f, err := OpenFiles(cert, key, r.watch())
	if err != nil {
		t.Fatal(err)
	}
	address := listen(t, f)
	for name, breaks := range map[string]func(){
		"no certificate": func() { write(t, cert, []byte("nonsense")) },
		"half a file":    func() { write(t, cert, newCert[:len(newCert)/2]) },
		"another key":    func() { write(t, key, newKey) },
		"gone":           func() { _ = os.Remove(key) },
	} {
		before := len(r.all())
		breaks()
		f.look()
		if got := r.all()[before:]; len(got) != 0 {
			t.Errorf("%s: reported at the first look: %v", name, got)
		}
		f.look()
		f.look()
		if diff := cmp.Diff([]string{"failed "}, r.all()[before:]); diff != "" {
			t.Errorf("%s: reports (-want +got):\n%s", name, diff)
		}
		if got := served(t, address); got != "old.example.com" {
			t.Errorf("%s: the certificate in use is that of %s", name, got)
		}
		if lines := f.Troubles(); len(lines) != 1 || !strings.Contains(lines[0], "stays in use") {
			t.Errorf("%s: troubles %q", name, lines)
		}
		write(t, cert, oldCert)
		write(t, key, oldKey)
		f.look()
		if lines := f.Troubles(); len(lines) != 0 {
			t.Errorf("%s: troubles after the repair: %q", name, lines)
		}
	}
	// One file after the other is no fault.
	before := len(r.all())
	write(t, cert, newCert)
	f.look()
	write(t, key, newKey)
	f.look()
	if diff := cmp.Diff([]string{"holds "}, r.all()[before:]); diff != "" {
		t.Errorf("reports of the new pair (-want +got):\n%s", diff)
	}
	if got := served(t, address); got != "new.example.com" {
		t.Errorf("the certificate in use is that of %s", got)
	}
	for _, private := range [][]byte{oldKey, newKey} {
		if line := strings.Split(string(private), "\n")[1]; strings.Contains(r.log.String(), line) {
			t.Error("the log holds a private key")
		}
	}
}

func TestOpenFilesRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certPEM, keyPEM := issue(t, "a.example.com", inADay())
	_, otherKey := issue(t, "b.example.com", inADay())
	files := map[string][]byte{
		"cert": certPEM, "key": keyPEM, "other": otherKey, "empty": nil, "large": make([]byte, maxFile+1),
		"encrypted": []byte("-----BEGIN ENCRYPTED PRIVATE KEY-----\nMAA=\n-----END ENCRYPTED PRIVATE KEY-----\n"),
		"legacy":    []byte("-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nMAA=\n-----END EC PRIVATE KEY-----\n"),
		"broken":    []byte("-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n"),
	}
	for name, content := range files {
		write(t, filepath.Join(dir, name), content)
	}
	for _, tt := range []struct{ cert, key, setting, want string }{
		{"none", "key", "cert", "no such file"},
		{"cert", "none", "key", "no such file"},
		{".", "key", "cert", "not a regular file"},
		{"large", "key", "cert", "more than"},
		{"empty", "key", "cert", "no certificate in the file"},
		{"key", "key", "cert", "no certificate in the file"},
		{"broken", "key", "cert", "x509: "},
		{"cert", "other", "key", "does not match"},
		{"cert", "empty", "key", "failed to find any PEM data"},
		{"cert", "cert", "key", "found a certificate rather than a key"},
		{"cert", "encrypted", "key", "the key is encrypted"},
		{"cert", "legacy", "key", "the key is encrypted"},
	} {
		_, err := OpenFiles(filepath.Join(dir, tt.cert), filepath.Join(dir, tt.key), newReports().watch())
		fault, ok := errors.AsType[*Error](err)
		if !ok || fault.Setting != tt.setting || !strings.Contains(fault.Err.Error(), tt.want) || fault.Remedy == "" || strings.Contains(fault.Err.Error(), dir) {
			t.Errorf("cert %s, key %s: error %v, want one of tls.%s with %q", tt.cert, tt.key, err, tt.setting, tt.want)
		}
	}
}

// An expired certificate is served: senders that do not check it still get through.
func TestExpiredFilesAreServed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	certPEM, keyPEM := issue(t, "late.example.com", time.Now().Add(-time.Minute))
	write(t, cert, certPEM)
	write(t, key, keyPEM)
	for path, mode := range map[string]os.FileMode{cert: 0o646, key: 0o644} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	r := newReports()
	f, err := OpenFiles(cert, key, r.watch())
	if err != nil {
		t.Fatal(err)
	}
	if got := served(t, listen(t, f)); got != "late.example.com" {
		t.Errorf("the certificate in use is that of %q", got)
	}
	if lines := f.Troubles(); len(lines) != 1 || !strings.Contains(lines[0], "has expired") {
		t.Errorf("troubles %q", lines)
	}
	for _, want := range []string{"has expired", "change the file of tls.cert", "read the file of tls.key"} {
		if !strings.Contains(r.log.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, r.log.String())
		}
	}
}

func TestOldProtocolsAreRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certPEM, keyPEM := issue(t, "a.example.com", inADay())
	write(t, filepath.Join(dir, "cert"), certPEM)
	write(t, filepath.Join(dir, "key"), keyPEM)
	f, err := OpenFiles(filepath.Join(dir, "cert"), filepath.Join(dir, "key"), newReports().watch())
	if err != nil {
		t.Fatal(err)
	}
	address := listen(t, f)
	for version, want := range map[uint16]bool{tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: version})
		if err == nil {
			conn.Close()
		}
		if (err == nil) != want {
			t.Errorf("%s: %v, want success %t", tls.VersionName(version), err, want)
		}
	}
}
