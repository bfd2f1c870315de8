package limit

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
)

func prefixes(texts ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, text := range texts {
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
}

func TestClient(t *testing.T) {
	t.Parallel()
	const proxy, stranger = "10.0.0.1:1234", "203.0.113.7:1234"
	trusted := prefixes("10.0.0.0/8", "2001:db8:ffff::/48", "::ffff:192.0.2.0/120", "127.0.0.1/8")
	for _, tt := range []struct {
		name, peer string
		forwarded  []string
		want       string
	}{
		{"no header", proxy, nil, proxy},
		{"a client", proxy, []string{"198.51.100.1"}, "198.51.100.1"},
		{"IPv6", proxy, []string{"2001:db8::1"}, "2001:db8::1"},
		{"a stranger names a client", stranger, []string{"198.51.100.1"}, stranger},
		{"a stranger names a trusted proxy", stranger, []string{"198.51.100.1, 10.0.0.2"}, stranger},
		{"a sender names a client", proxy, []string{"198.51.100.1, 198.51.100.2"}, "198.51.100.2"},
		{"a sender names a client in a line of its own", proxy, []string{"198.51.100.1", "198.51.100.2"}, "198.51.100.2"},
		{"a chain of proxies", proxy, []string{"198.51.100.1, 198.51.100.2, 10.0.0.3, 2001:db8:ffff::2"}, "198.51.100.2"},
		{"a chain in lines", proxy, []string{"198.51.100.1, 198.51.100.2", "10.0.0.3", "10.0.0.4"}, "198.51.100.2"},
		{"without spaces", proxy, []string{"198.51.100.1,198.51.100.2,10.0.0.3"}, "198.51.100.2"},
		{"proxies only", proxy, []string{"10.0.0.9, 10.0.0.3"}, proxy},
		{"a port", proxy, []string{"198.51.100.1:4711"}, "198.51.100.1"},
		{"IPv6 with a port", proxy, []string{"[2001:db8::1]:4711"}, "2001:db8::1"},
		{"IPv6 in brackets", proxy, []string{"[2001:db8::1]"}, "2001:db8::1"},
		{"a zone", proxy, []string{"fe80::1%eth0"}, "fe80::1"},
		{"mapped", proxy, []string{"::ffff:198.51.100.1"}, "198.51.100.1"},
		{"a mapped proxy", proxy, []string{"198.51.100.1, ::ffff:10.0.0.3"}, "198.51.100.1"},
		{"a proxy of a mapped network", proxy, []string{"198.51.100.1, 192.0.2.9"}, "198.51.100.1"},
		{"a mapped peer", "[::ffff:10.0.0.1]:1", []string{"198.51.100.1"}, "198.51.100.1"},
		{"a peer of an unmasked network", "127.9.9.9:1", []string{"198.51.100.1"}, "198.51.100.1"},
		{"an IPv6 peer", "[2001:db8:ffff::1]:1", []string{"198.51.100.1"}, "198.51.100.1"},
		{"a peer without a port", "10.0.0.1", []string{"198.51.100.1"}, "198.51.100.1"},
		{"a peer on a socket", "@", []string{"198.51.100.1"}, "@"},
		{"malformed before the client", proxy, []string{"unknown, <script>, 198.51.100.1"}, "198.51.100.1"},
		{"malformed last", proxy, []string{"198.51.100.1, unknown"}, proxy},
		{"malformed behind the client", proxy, []string{"198.51.100.1, unknown, 10.0.0.3"}, proxy},
		{"empty", proxy, []string{""}, proxy},
		{"an empty entry behind the client", proxy, []string{"198.51.100.1,"}, proxy},
		{"a name", proxy, []string{"client.example.com"}, proxy},
		{"half a bracket", proxy, []string{"[2001:db8::1"}, proxy},
		{"IPv4 in brackets", proxy, []string{"[198.51.100.1]"}, proxy},
		{"a network", proxy, []string{"198.51.100.0/24"}, proxy},
		{"many", proxy, []string{strings.Repeat("10.0.0.2,", 1000) + "10.0.0.3"}, proxy},
	} {
		r := &http.Request{RemoteAddr: tt.peer, Header: http.Header{"X-Forwarded-For": tt.forwarded}}
		if got := NewProxies(trusted).Client(r); got != tt.want {
			t.Errorf("%s: the client is %s, want %s", tt.name, got, tt.want)
		}
		if got := NewProxies(nil).Client(r); got != tt.peer {
			t.Errorf("%s, without trusted proxies: the client is %s, want %s", tt.name, got, tt.peer)
		}
	}
}

func TestCheckProxy(t *testing.T) {
	t.Parallel()
	for prefix, want := range map[netip.Prefix]string{
		netip.MustParsePrefix("10.0.0.0/8"):         "",
		netip.MustParsePrefix("10.0.0.1/32"):        "",
		netip.MustParsePrefix("::1/128"):            "",
		netip.MustParsePrefix("::ffff:1.2.3.4/104"): "",
		{}: "not a network",
		netip.PrefixFrom(netip.MustParseAddr("10.0.0.0"), 33): "not a network",
		netip.MustParsePrefix("::ffff:0:0/95"):                "not a network",
		netip.MustParsePrefix("0.0.0.0/0"):                    "every address",
		netip.MustParsePrefix("::/0"):                         "every address",
		netip.MustParsePrefix("::ffff:0:0/96"):                "every address",
	} {
		err := CheckProxy(prefix)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", prefix, err, want)
		}
	}
}

func TestAddress(t *testing.T) {
	t.Parallel()
	for remote, want := range map[string]string{
		"192.0.2.7:54321":       "192.0.2.7",
		"192.0.2.7":             "192.0.2.7",
		"[2001:db8::1]:54321":   "2001:db8::1",
		"[2001:db8::1]":         "2001:db8::1",
		"2001:DB8::1":           "2001:db8::1",
		"[fe80::1%eth0]:54321":  "fe80::1",
		"[::ffff:192.0.2.7]:80": "192.0.2.7",
		"":                      "",
		"@":                     "@",
		"example.com:80":        "example.com:80",
	} {
		if got := Address(remote); got != want {
			t.Errorf("Address(%q) = %q, want %q", remote, got, want)
		}
	}
}

func TestLoopback(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]bool{
		"127.0.0.1:1": true, "127.8.9.10": true, "[::1]:1": true, "[::1]": true, "::1": true, "Localhost:1": true, "[::ffff:127.0.0.1]:1": true,
		"": false, ":1": false, "0.0.0.0:1": false, "[::]:1": false, "10.0.0.1:1": false, "example.com:1": false,
		"localhost.example.com:1": false, "a.localhost": false, "[::1%lo]:1": false,
	} {
		if got := Loopback(host); got != want {
			t.Errorf("Loopback(%q) = %v, want %v", host, got, want)
		}
	}
}
