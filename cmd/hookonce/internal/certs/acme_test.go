package certs

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/acme"
)

// unreachable is a directory that nothing serves: port 1 is reserved.
const unreachable = "https://127.0.0.1:1/directory"

func open(t *testing.T, folder string, r *reports, hosts ...string) *Authority {
	t.Helper()
	a, err := OpenACME(ACME{Hosts: hosts, Directory: unreachable, Folder: folder}, r.watch())
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// storeCertificate puts a certificate into the folder, as an earlier gateway would.
func storeCertificate(t *testing.T, folder, name string, notAfter time.Time) {
	t.Helper()
	s, err := openStore(folder, unreachable)
	if err != nil {
		t.Fatal(err)
	}
	certPEM, keyPEM := issue(t, name, notAfter)
	certificate, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.putCertificate(name, &certificate); err != nil {
		t.Fatal(err)
	}
}

// Every file is private, the account's key stays the same, and authorities do not share certificates.
func TestFolder(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	storeCertificate(t, folder, "a.example.com", inADay())
	first, second := open(t, folder, newReports(), "a.example.com"), open(t, folder, newReports(), "a.example.com")
	if first.client.Key.Public() == nil || fmt.Sprint(first.client.Key.Public()) != fmt.Sprint(second.client.Key.Public()) {
		t.Error("the second start has another account")
	}
	err := filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
		if err != nil || path == folder {
			return err
		}
		info, err := entry.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	staging := storeAt(folder, "https://acme-staging-v02.api.letsencrypt.org/directory").path
	if want := filepath.Join(folder, "acme-staging-v02.api.letsencrypt.org-directory"); staging != want {
		t.Errorf("the folder of the staging environment is %s, want %s", staging, want)
	}
	if got := storeAt(folder, "https://x/../../etc"); filepath.Dir(got.path) != folder {
		t.Errorf("a directory leads out of the folder, to %s", got.path)
	}
	if status, err := Stored(folder, "https://other.example.com/", "a.example.com"); err != nil || status.Leaf != nil {
		t.Errorf("another authority has the certificate: %+v, %v", status, err)
	}
	write(t, filepath.Join(first.store.path, accountFile), []byte("nonsense"))
	_, err = OpenACME(ACME{Hosts: []string{"a.example.com"}, Directory: unreachable, Folder: folder}, newReports().watch())
	if fault, ok := errors.AsType[*Error](err); !ok || !strings.Contains(fault.Error(), "not the key of an account") {
		t.Errorf("a broken key of the account: %v", err)
	}
}

func TestHandshakesGetStoredCertificatesOnly(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	storeCertificate(t, folder, "a.example.com", inADay())
	r := newReports()
	a := open(t, folder, r, "a.example.com", "b.example.com")
	if got, want := r.all(), []string{"holds a.example.com", "none b.example.com"}; !slices.Equal(got, want) {
		t.Errorf("reports %v, want %v", got, want)
	}
	challenge := []string{acme.ALPNProto}
	for _, tt := range []struct {
		name      string
		protocols []string
		want      string // part of the error; "" for a certificate
	}{
		{"a.example.com", nil, ""},
		{"A.Example.COM.", []string{"h2", "http/1.1"}, ""},
		{"b.example.com", nil, "no certificate yet"},
		{"c.example.com", nil, "not in tls.hosts"},
		{"", nil, "not in tls.hosts"},
		{"127.0.0.1", nil, "not in tls.hosts"},
		{"a.example.com", challenge, "no challenge is open"},
		{"c.example.com", challenge, "not in tls.hosts"},
	} {
		certificate, err := a.certificate(&tls.ClientHelloInfo{ServerName: tt.name, SupportedProtos: tt.protocols})
		if tt.want == "" && (err != nil || certificate.Leaf.DNSNames[0] != "a.example.com") ||
			tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%q %v: %v, want %q", tt.name, tt.protocols, err, tt.want)
		}
	}
}

// The authority cannot be reached. The stored certificate stays in use although it is due, the failure
// is reported for other processes too, and Wake tries again at once.
func TestUnreachableAuthority(t *testing.T) {
	t.Parallel()
	folder, r := t.TempDir(), newReports()
	storeCertificate(t, folder, "old.example.com", time.Now().Add(time.Minute))
	a := open(t, folder, r, "old.example.com", "new.example.com")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var keeping sync.WaitGroup
	keeping.Go(func() { a.Keep(ctx) })
	r.await(t, 4) // the start of two hosts, and a failure of each
	for again := range 3 {
		a.Wake() // otherwise the last try would come after minutes
		r.await(t, 6+2*again)
	}
	cancel()
	keeping.Wait()
	if _, err := a.certificate(&tls.ClientHelloInfo{ServerName: "old.example.com"}); err != nil {
		t.Errorf("the stored certificate: %v", err)
	}
	lines := a.Troubles()
	for i, want := range []string{"old.example.com: the certificate cannot be renewed: ", "new.example.com: there is no certificate, so senders cannot connect: "} {
		if len(lines) != 2 || !strings.Contains(lines[i], want) || !strings.Contains(lines[i], "connection refused") {
			t.Errorf("troubles %q, want %q", lines, want)
		}
	}
	for _, host := range []string{"old.example.com", "new.example.com"} {
		status, err := Stored(folder, unreachable, host)
		if err != nil || !strings.Contains(status.Failure, "connection refused") || !strings.Contains(status.Remedy, "tls.directory") || status.At == "" ||
			(status.Leaf != nil) != (host == "old.example.com") {
			t.Errorf("%s: status %+v, %v", host, status, err)
		}
	}
	for _, want := range []string{"renewing a certificate failed; retrying in 40s", "senders cannot connect to this host; retrying in 10s"} {
		if !strings.Contains(r.log.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, r.log.String())
		}
	}
}

// The tries of the first hour stay below the limit of Let's Encrypt: 5, and one more every 12 minutes.
func TestPauses(t *testing.T) {
	t.Parallel()
	a := open(t, t.TempDir(), newReports(), "a.example.com")
	h := a.hosts["a.example.com"]
	refused := errors.New("refused")
	var at time.Duration
	tries := 0
	for at < time.Hour {
		tries++
		at += a.failed(h, tries, refused)
	}
	if tries > 6 || tries < 4 {
		t.Errorf("%d tries in the first hour", tries)
	}
	if got := a.failed(h, 100, refused); got != maxPause {
		t.Errorf("the longest pause is %s", got)
	}
	limited := &acme.Error{ProblemType: "urn:ietf:params:acme:error:rateLimited", Header: http.Header{"Retry-After": {"7200"}}}
	if got := a.failed(h, 1, fmt.Errorf("ordering a certificate: %w", limited)); got != 2*time.Hour {
		t.Errorf("the pause of a rate limit is %s", got)
	}
}

func TestRenewal(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for _, tt := range []struct{ lifetime, from, to time.Duration }{
		{90 * day, 60 * day, 60*day + time.Hour}, {6 * day, 4 * day, 4*day + time.Hour}, {365 * day, 335 * day, 335*day + time.Hour},
	} {
		start := time.Now().Truncate(time.Second)
		folder := t.TempDir()
		storeCertificate(t, folder, "a.example.com", start.Add(tt.lifetime))
		held := open(t, folder, newReports(), "a.example.com").hosts["a.example.com"].held.Load()
		held.Leaf.NotBefore = start
		if got := renewal(held).Sub(start); got < tt.from || got > tt.to {
			t.Errorf("a certificate of %s is renewed after %s, want from %s to %s", tt.lifetime, got, tt.from, tt.to)
		}
	}
	if !renewal(nil).IsZero() {
		t.Error("a missing certificate is not due")
	}
}

func TestRemedies(t *testing.T) {
	t.Parallel()
	problem := func(kind string) *acme.Error { return &acme.Error{ProblemType: "urn:ietf:params:acme:error:" + kind} }
	for want, err := range map[string]error{
		"port 443 of a.example.com":    fmt.Errorf("validating: %w", &acme.AuthorizationError{Errors: []error{problem("connection")}}),
		"point the name a.example.com": &acme.AuthorizationError{Errors: []error{problem("dns")}},
		"CAA":                          &acme.OrderError{Problem: problem("caa")},
		"keep tls.folder":              problem("rateLimited"),
		"a tls.directory of your own":  problem("rejectedIdentifier"),
		"tls.email":                    problem("invalidContact"),
		"external accounts":            problem("externalAccountRequired"),
		"look at the error":            problem("serverInternal"),
		"this machine reaches it":      fmt.Errorf("x: %w", context.DeadlineExceeded),
		"SSL_CERT_FILE":                fmt.Errorf("x: %w", &tls.CertificateVerificationError{}),
		"use another tls.directory":    errNoChallenge,
		"authority that speaks ACME":   errors.New("invalid character"),
	} {
		if got := remedyFor(err, "a.example.com"); !strings.Contains(got, want) {
			t.Errorf("%v: remedy %q, want %q", err, got, want)
		}
	}
}
