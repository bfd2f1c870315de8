// Package dial connects to hosts that others name. It checks each address when it is dialled, after
// name resolution, so neither the spelling of an address nor a name that resolves differently the
// next time evades the check.
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

// ErrAddress is matched by errors about an address that must not be dialled.
var ErrAddress = errors.New("address is not allowed")

// Check returns an error if an address must not be dialled. See Always and Public.
type Check func(netip.Addr) error

// Transport returns a transport that dials only addresses that check allows. Dialling takes at most
// timeout, and so does the TLS handshake. It uses no proxy, because a proxy would dial unchecked.
// roots verifies servers; nil means the system's roots.
func Transport(roots *x509.CertPool, check Check, timeout time.Duration) *http.Transport {
	dialer := &net.Dialer{Timeout: timeout, ControlContext: check.Control}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	return &http.Transport{
		Proxy:               nil,
		DialContext:         Bounded(dialer.DialContext),
		TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
		TLSHandshakeTimeout: timeout,
		DisableCompression:  true,
		Protocols:           protocols,
	}
}

// Control is a net.Dialer.ControlContext: the dialer calls it with each resolved address before
// connecting.
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
