package dial

import (
	"context"
	"errors"
	"net/netip"
	"testing"
)

func TestAddresses(t *testing.T) {
	t.Parallel()
	const (
		never   = "never"
		private = "private"
		public  = "public"
	)
	tests := []struct{ addr, want string }{
		{"0.0.0.0", never},
		{"0.1.2.3", never},
		{"169.254.169.254", never},
		{"169.254.0.1", never},
		{"169.254.170.2", never},
		{"224.0.0.1", never},
		{"239.255.255.255", never},
		{"255.255.255.255", never},
		{"100.100.100.200", never},
		{"168.63.129.16", never},
		{"192.0.0.192", never},
		{"::", never},
		{"fe80::1", never},
		{"fe80::1%eth0", never},
		{"febf::1", never},
		{"ff02::1", never},
		{"fd00:ec2::254", never},
		{"fd00:ec2::23", never},
		{"fd20:ce::254", never},
		{"::ffff:169.254.169.254", never},
		{"::ffff:0.0.0.0", never},
		{"::ffff:224.0.0.1", never},
		{"::ffff:100.100.100.200", never},
		{"::169.254.169.254", never},
		{"::ffff:0:169.254.169.254", never},
		{"64:ff9b::169.254.169.254", never},
		{"64:ff9b:1::169.254.169.254", never},
		{"2002:a9fe:a9fe::1", never},

		{"127.0.0.1", private},
		{"127.255.255.254", private},
		{"10.0.0.1", private},
		{"172.16.0.1", private},
		{"172.31.255.255", private},
		{"192.168.1.1", private},
		{"100.64.0.1", private},
		{"100.127.255.255", private},
		{"192.0.0.1", private},
		{"192.0.2.1", private},
		{"192.88.99.1", private},
		{"198.18.0.1", private},
		{"198.19.255.255", private},
		{"198.51.100.1", private},
		{"203.0.113.1", private},
		{"240.0.0.1", private},
		{"255.255.255.254", private},
		{"::1", private},
		{"::ffff:127.0.0.1", private},
		{"::ffff:10.0.0.1", private},
		{"::8.8.8.8", private},
		{"fc00::1", private},
		{"fd00:ec2::255", private},
		{"fec0::1", private},
		{"64:ff9b::8.8.8.8", private},
		{"64:ff9b:1::8.8.8.8", private},
		{"100::1", private},
		{"5f00::1", private},
		{"2001::1", private},
		{"2001:2::1", private},
		{"2001:db8::1", private},
		{"3fff::1", private},
		{"2002:808:808::1", private},
		{"4000::1", private},
		{"192.31.196.1", private}, // AS112 name servers, also the next two
		{"192.175.48.1", private},
		{"2620:4f:8000::1", private},
		{"192.52.193.1", private}, // AMT multicast relays

		{"8.8.8.8", public},
		{"1.0.0.1", public},
		{"172.15.255.255", public},
		{"172.32.0.1", public},
		{"100.63.255.255", public},
		{"100.128.0.1", public},
		{"169.253.255.255", public},
		{"223.255.255.255", public},
		{"::ffff:8.8.8.8", public},
		{"2001:4860:4860::8888", public},
		{"2606:4700::1111", public},
	}
	for _, tt := range tests {
		addr := netip.MustParseAddr(tt.addr)
		got := public
		if Public(addr) != nil {
			got = private
		}
		if err := Always(addr); err != nil {
			if got = never; !errors.Is(err, ErrAddress) || Public(addr) == nil {
				t.Errorf("%s: %v, and as a public one %v", tt.addr, err, Public(addr))
			}
		}
		if got != tt.want {
			t.Errorf("%s is %s, want %s", tt.addr, got, tt.want)
		}
	}
	if Always(netip.Addr{}) == nil {
		t.Error("no address at all was allowed")
	}
}

func TestControlRefusesWhatItCannotRead(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ network, address string }{
		{"unix", "/run/x.sock"}, {"udp4", "8.8.8.8:53"}, {"tcp4", "localhost:80"}, {"tcp4", "8.8.8.8"}, {"tcp4", ""},
	} {
		if err := Check(Always).Control(context.Background(), tt.network, tt.address, nil); !errors.Is(err, ErrAddress) {
			t.Errorf("%s %s: %v", tt.network, tt.address, err)
		}
	}
}
