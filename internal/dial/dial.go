// Package dial connects to hosts that somebody else named. Addresses are checked
// when they are dialled, after name resolution, so that neither a spelling of an
// address nor a name that changes its mind leads past the check.
package dial

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"
)

// ErrAddress is matched by the error for an address that may not be dialled.
var ErrAddress = errors.New("address is not allowed")

// Check says whether an address may be dialled; nil means yes. See Always and
// Public.
type Check func(netip.Addr) error

// Transport returns a transport that dials only what check allows, in at most
// timeout, and with TLS in as much again. It uses no proxy, which would dial for
// us, unchecked. roots verifies servers; nil means the system's.
func Transport(roots *x509.CertPool, check Check, timeout time.Duration) *http.Transport {
	dialer := &net.Dialer{Timeout: timeout, ControlContext: check.Control}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	return &http.Transport{
		Proxy:               nil,
		DialContext:         dialer.DialContext,
		TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
		TLSHandshakeTimeout: timeout,
		DisableCompression:  true,
		Protocols:           protocols,
	}
}

// Control is a net.Dialer.ControlContext: it is called with each address that a
// name resolved to, after resolution and before connecting.
func (check Check) Control(_ context.Context, network, address string, _ syscall.RawConn) error {
	if network != "tcp4" && network != "tcp6" {
		return fmt.Errorf("%w: network %s", ErrAddress, network)
	}
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: %q is not an address", ErrAddress, address)
	}
	return check(ap.Addr())
}
