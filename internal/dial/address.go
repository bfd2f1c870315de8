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
	// neverDialled holds what no destination may be: the addresses of nothing
	// in particular, link-local ones, and metadata services that hand out
	// credentials to whoever asks from inside a cloud.
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

	// embedding4 are prefixes whose last 32 bits are an IPv4 address that a
	// translator or the kernel connects to.
	embedding4 = prefixes("::/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48")
	sixToFour  = netip.MustParsePrefix("2002::/16")
)

// public knows the special-purpose registries of IANA: it refuses the IPv4 ranges that are
// not globally reachable, and all of IPv6 that is not handed out for global use, which
// includes NAT64, IPv4-compatible and unique-local addresses.
var public = ssrf.New()

func contained(list []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// plain removes what hides an address from comparison: an IPv4-mapped form and
// a zone.
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

// Always refuses what may never be dialled, in any of its forms.
func Always(addr netip.Addr) error {
	addr = plain(addr)
	if !addr.IsValid() || contained(neverDialled, addr) {
		return fmt.Errorf("%w: %s is link-local, a metadata service or no host at all", ErrAddress, addr)
	}
	// ::1 would be 0.0.0.1.
	if v4, ok := embedded(addr); ok && !addr.IsLoopback() && contained(neverDialled, v4) {
		return fmt.Errorf("%w: %s stands for %s", ErrAddress, addr, v4)
	}
	return nil
}

// Public refuses, besides, all that is not on the public Internet.
func Public(addr netip.Addr) error {
	if err := Always(addr); err != nil {
		return err
	}
	addr = plain(addr)
	if public.SafeAddr(addr) != nil {
		return fmt.Errorf("%w: %s is not public", ErrAddress, addr)
	}
	return nil
}
