// Package certs keeps the certificates of the public listener: from two files, or by ACME (RFC 8555).
package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/hookonce/hookonce/internal/shown"
)

// Keeper has the certificates of a listener and keeps them current. All methods may be called
// concurrently.
type Keeper interface {
	// Config returns the configuration of the listener. Its handshakes never wait for the disk or the
	// network.
	Config() *tls.Config
	// Keep takes changed files, or renews certificates, until ctx ends.
	Keep(ctx context.Context)
	// Wake has Keep look at the files, or try failed hosts again, at once.
	Wake()
	// Troubles returns one line for each certificate that is missing, has expired or cannot be
	// replaced.
	Troubles() []string
}

// Watch receives reports about certificates. The host is "" for the certificate of files.
type Watch struct {
	Log *slog.Logger
	// Holds is called for each certificate that comes into use, with the end of its validity.
	Holds func(host string, until time.Time)
	// Failed is called for each failure to get, to read or to store a certificate.
	Failed func(host string)
}

// Error is a fault of a setting below tls, or of the file or folder that it names.
type Error struct {
	Setting string // "cert", "key" or "folder"
	Path    string // of the file or folder
	Err     error  // without the path
	Remedy  string // one sentence, lower case, without a full stop
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("tls.%s: %s: %v", e.Setting, e.Path, e.Err) }

// Unwrap returns the failure itself.
func (e *Error) Unwrap() error { return e.Err }

// Hint returns the remedy.
func (e *Error) Hint() string { return e.Remedy }

// serverConfig returns the configuration of a listener with that source of certificates.
func serverConfig(get func(*tls.ClientHelloInfo) (*tls.Certificate, error), protocols ...string) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: get, NextProtos: append([]string{"http/1.1"}, protocols...)}
}

// expiry returns a line about a certificate outside its validity, or "".
func expiry(leaf *x509.Certificate, now time.Time) string {
	switch {
	case now.After(leaf.NotAfter):
		return "the certificate has expired at " + leaf.NotAfter.UTC().Format(time.RFC3339) + "; senders refuse it"
	case now.Before(leaf.NotBefore):
		return "the certificate is not valid before " + leaf.NotBefore.UTC().Format(time.RFC3339) + "; senders refuse it"
	}
	return ""
}

// oneLine returns the text of err, which may quote an authority's answer, without line breaks and
// control characters.
func oneLine(err error) string {
	return shown.Escape(strings.Join(strings.Fields(err.Error()), " "))
}

// wake sends to a channel of capacity 1, unless it is full.
func wake(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
