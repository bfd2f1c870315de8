package limit

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Proxies are the networks of proxies whose X-Forwarded-For names the client. The zero value trusts
// none.
type Proxies struct{ trusted []netip.Prefix }

// NewProxies returns Proxies that trust the networks in trusted, which CheckProxy accepts.
func NewProxies(trusted []netip.Prefix) Proxies {
	var p Proxies
	for _, prefix := range trusted {
		if addr := prefix.Addr(); addr.Is4In6() { // clients are compared in their IPv4 form
			prefix = netip.PrefixFrom(addr.Unmap(), prefix.Bits()-96)
		}
		p.trusted = append(p.trusted, prefix.Masked())
	}
	return p
}

// CheckProxy returns an error unless prefix can be the network of a trusted proxy.
func CheckProxy(prefix netip.Prefix) error {
	switch {
	case !prefix.IsValid() || prefix.Addr().Is4In6() && prefix.Bits() < 96:
		return errors.New("is not a network")
	case prefix.Bits() == 0 || prefix.Addr().Is4In6() && prefix.Bits() == 96:
		return errors.New("contains every address: a sender could name any client")
	}
	return nil
}

// Client returns the client of r for Addresses and the log: the address of the connection, unless
// that is a trusted proxy. Then it is the last address in X-Forwarded-For that is not a trusted
// proxy; senders choose all addresses before it. If there is none, or if a malformed entry comes
// behind it, Client returns the address of the connection. Never use it to allow anything.
func (p Proxies) Client(r *http.Request) string {
	if len(p.trusted) == 0 {
		return r.RemoteAddr
	}
	if peer, ok := parseAddress(r.RemoteAddr); !ok || !p.trusts(peer) {
		return r.RemoteAddr
	}
	lines := r.Header.Values("X-Forwarded-For")
	for _, line := range slices.Backward(lines) {
		for rest, more := line, true; more; {
			var entry string
			if at := strings.LastIndexByte(rest, ','); at >= 0 {
				rest, entry = rest[:at], rest[at+1:]
			} else {
				entry, more = rest, false
			}
			addr, ok := parseAddress(strings.Trim(entry, " \t"))
			if !ok {
				return r.RemoteAddr
			}
			if !p.trusts(addr) {
				return addr.String()
			}
		}
	}
	return r.RemoteAddr
}

// Address returns the address of remote, which is an address with or without a port, as Client returns
// it: without port, brackets and zone, and an IPv4 address in IPv6 as IPv4. Addresses counts by the
// same. A text that is no address is returned as it is.
func Address(remote string) string {
	if addr, ok := parseAddress(remote); ok {
		return addr.String()
	}
	return remote
}

func (p Proxies) trusts(addr netip.Addr) bool {
	return slices.ContainsFunc(p.trusted, func(prefix netip.Prefix) bool { return prefix.Contains(addr) })
}

// parseAddress reads an address with or without a port, and removes its zone. IPv6 may be in
// brackets.
func parseAddress(text string) (netip.Addr, bool) {
	port, err := netip.ParseAddrPort(text) // first, because connections have a port
	addr := port.Addr()
	if err != nil {
		addr, err = netip.ParseAddr(text)
	}
	if inner, ok := strings.CutPrefix(text, "["); ok && err != nil {
		inner, ok = strings.CutSuffix(inner, "]")
		if addr, err = netip.ParseAddr(inner); !ok || addr.Is4() {
			return netip.Addr{}, false
		}
	}
	return addr.WithZone("").Unmap(), err == nil
}

// Loopback reports whether host, with or without a port, is localhost or a loopback address. Other names
// under .localhost do not count, because resolvers differ about them, and neither do addresses with a zone.
func Loopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	} else if inner, ok := strings.CutPrefix(host, "["); ok {
		host = strings.TrimSuffix(inner, "]")
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Zone() == "" && addr.Unmap().IsLoopback()
}
