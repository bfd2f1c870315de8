package dial

import (
	"fmt"
	"net/netip"
	"slices"

	"code.dny.dev/ssrf"
)

func prefixes(list ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, p := range list {
		out = append(out, netip.MustParsePrefix(p))
	}
	return out
}

var (
	// neverDialled holds the addresses that no destination may have: those of no particular host,
	// link-local ones, and metadata services, which hand out credentials to any caller inside a
	// cloud.
	neverDialled = prefixes(
		"0.0.0.0/8", "::/128", // unspecified, this network
		"169.254.0.0/16", "fe80::/10", // link-local; most metadata services
		"224.0.0.0/4", "ff00::/8", // multicast
		"255.255.255.255/32",                       // broadcast
		"fd00:ec2::254/128",                        // AWS instance metadata
		"fd00:ec2::23/128",                         // AWS EKS pod identity
		"fd20:ce::254/128",                         // Google Cloud metadata
		"100.100.100.200/32",                       // Alibaba Cloud metadata
		"168.63.129.16/32",                         // Azure platform
		"192.0.0.192/32", "fd00:c1::a9fe:a9fe/128", // Oracle Cloud metadata
	)

	// embedding4 holds prefixes of addresses that end in an IPv4 address; a translator or the
	// kernel connects to that one.
	embedding4 = prefixes("::/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48")
	sixToFour  = netip.MustParsePrefix("2002::/16")
)

// guardian refuses the ranges of IANA's special-purpose registries: IPv4 ranges that are not globally
// reachable, and IPv6 outside of global unicast, which includes NAT64, IPv4-compatible and
// unique-local addresses.
var guardian = ssrf.New()

func contained(list []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// plain strips a zone and unmaps an IPv4-mapped address, so that prefixes compare.
func plain(addr netip.Addr) netip.Addr { return addr.WithZone("").Unmap() }

// embedded returns the IPv4 address that an IPv6 address stands for.
func embedded(addr netip.Addr) (netip.Addr, bool) {
	b := addr.As16()
	switch {
	case addr.Is4():
		return addr, false
	case sixToFour.Contains(addr):
		return netip.AddrFrom4([4]byte(b[2:6])), true
	case contained(embedding4, addr):
		return netip.AddrFrom4([4]byte(b[12:16])), true
	}
	return addr, false
}

// Always refuses, in any spelling, the addresses that must never be dialled.
func Always(addr netip.Addr) error {
	addr = plain(addr)
	if !addr.IsValid() || contained(neverDialled, addr) {
		return fmt.Errorf("%w: %s is link-local, a metadata service or not a host", ErrAddress, addr)
	}
	// ::1 is also the embedded form of 0.0.0.1.
	if v4, ok := embedded(addr); ok && !addr.IsLoopback() && contained(neverDialled, v4) {
		return fmt.Errorf("%w: %s stands for %s", ErrAddress, addr, v4)
	}
	return nil
}

// Public refuses all addresses that are not on the public Internet, including those that Always
// refuses.
func Public(addr netip.Addr) error {
	if err := Always(addr); err != nil {
		return err
	}
	addr = plain(addr)
	if guardian.SafeAddr(addr) != nil {
		return fmt.Errorf("%w: %s is not public", ErrAddress, addr)
	}
	return nil
}
