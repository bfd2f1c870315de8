package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"
)

// certificates are those of https destinations on the loopback interface.
type certificates struct {
	file      string // the trusted ones, PEM
	good      *tls.Config
	stranger  *tls.Config // signed by an unknown authority
	misplaced *tls.Config // for another host
}

func newCertificates(t testing.TB) *certificates {
	t.Helper()
	loopback := &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	good := selfSigned(t, loopback)
	misplaced := selfSigned(t, &x509.Certificate{DNSNames: []string{"elsewhere.example"}})
	c := &certificates{
		file:      filepath.Join(t.TempDir(), "trusted.pem"),
		good:      served(good),
		stranger:  served(selfSigned(t, loopback)),
		misplaced: served(misplaced),
	}
	var trusted []byte
	for _, cert := range []tls.Certificate{good, misplaced} {
		trusted = append(trusted, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]})...)
	}
	if err := os.WriteFile(c.file, trusted, 0o600); err != nil {
		t.Fatal(err)
	}
	return c
}

func served(cert tls.Certificate) *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
}

// goodAfter returns a server configuration that presents two bad certificates in turn until healed.
func (c *certificates) goodAfter(healed func() bool) *tls.Config {
	var n atomic.Int64
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			switch {
			case healed():
				return c.good, nil
			case n.Add(1)%2 == 0:
				return c.stranger, nil
			}
			return c.misplaced, nil
		},
	}
}

func selfSigned(t testing.TB, template *x509.Certificate) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.Subject = pkix.Name{CommonName: "hookonce test"}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
