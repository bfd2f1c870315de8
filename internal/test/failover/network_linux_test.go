package failover

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/hookonce/hookonce/internal/test/dbtest"
)

// site is where a node runs, and how it is reached.
type site struct {
	space        *space
	front        string // the address for gateways, HAProxy and the test
	back         string // the address for the other nodes and etcd
	pgPort, rest int
	cables       []string // in the namespace of the test: to the front network and to the back network; none on loopback
}

func (s *site) postgres() string { return net.JoinHostPort(s.front, fmt.Sprint(s.pgPort)) }
func (s *site) api() string      { return net.JoinHostPort(s.front, fmt.Sprint(s.rest)) }

// network has the nodes' sites, and an address for etcd.
type network struct {
	sites    []*site
	etcd     netip.AddrPort
	switches []string // the front and the back one
}

// loopback returns a network on loopback, where nothing can be cut off.
func loopback(t testing.TB, nodes int) *network {
	n := &network{etcd: netip.MustParseAddrPort(dbtest.FreeAddress(t))}
	for range nodes {
		n.sites = append(n.sites, &site{
			space: host(), front: "127.0.0.1", back: "127.0.0.1",
			pgPort: freePort(t), rest: freePort(t),
		})
	}
	return n
}

func freePort(t testing.TB) int { return int(netip.MustParseAddrPort(dbtest.FreeAddress(t)).Port()) }

const (
	frontCable = 0
	backCable  = 1

	netPrefix = "hkf" // of the names of namespaces, bridges and cables; the id of the process follows
)

// switched returns a network with a namespace for each node. Each node has two cables: one to the switch of
// gateways, HAProxy and the test, and one to the switch of the nodes and etcd. The test is on both. So the
// nodes can be cut off from one another while gateways reach all of them.
//
// A machine that does not permit namespaces cannot run the test, which then fails: a skipped test would look
// like a passed one.
func switched(t testing.TB, nodes int) *network {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("NOT RUN: cutting off a node needs network namespaces, and they need root")
	}
	removeStale(t)
	pid := os.Getpid()
	third := pid % 250
	n := &network{etcd: netip.MustParseAddrPort(fmt.Sprintf("198.19.%d.254:%d", third, 2379))}
	for i, side := range []string{"f", "b"} {
		bridge := fmt.Sprintf("%s%d%s", netPrefix, pid, side)
		n.switches = append(n.switches, bridge)
		// With an address of its own: otherwise it has that of one of its cables, and another one without it.
		ip(t, "link", "add", bridge, "address", fmt.Sprintf("02:00:00:00:%02x:%02x", third, i), "type", "bridge")
		t.Cleanup(func() { ip(t, "link", "del", bridge) })
		ip(t, "address", "add", fmt.Sprintf("198.%d.%d.254/24", 18+i, third), "dev", bridge)
		ip(t, "link", "set", bridge, "up")
	}
	for i := range nodes {
		name := fmt.Sprintf("%s%d-%d", netPrefix, pid, i+1)
		ip(t, "netns", "add", name)
		t.Cleanup(func() { ip(t, "netns", "del", name) })
		s := &site{pgPort: 5432, rest: 8008}
		for k, bridge := range n.switches {
			cable, inside := fmt.Sprintf("%s%d", bridge, i+1), []string{"front", "back"}[k]
			address := fmt.Sprintf("198.%d.%d.%d", 18+k, third, i+1)
			ip(t, "link", "add", cable, "type", "veth", "peer", "name", inside, "netns", name)
			t.Cleanup(func() { ip(t, "link", "del", cable) })
			ip(t, "link", "set", cable, "master", bridge, "up")
			ip(t, "-n", name, "address", "add", address+"/24", "dev", inside)
			ip(t, "-n", name, "link", "set", inside, "up")
			s.cables = append(s.cables, cable)
			if k == frontCable {
				s.front = address
			} else {
				s.back = address
			}
		}
		ip(t, "-n", name, "link", "set", "lo", "up")
		s.space = newSpace(name)
		n.sites = append(n.sites, s)
	}
	return n
}

// unplug takes cables of a node out of their switches. The ends stay up, so nothing tells either side: what
// is sent is lost without a word.
func (n *network) unplug(t testing.TB, s *site, cables ...int) {
	t.Helper()
	for _, k := range cables {
		ip(t, "link", "set", s.cables[k], "nomaster")
	}
}

// plug puts the cables back.
func (n *network) plug(t testing.TB, s *site, cables ...int) {
	t.Helper()
	for _, k := range cables {
		ip(t, "link", "set", s.cables[k], "master", n.switches[k])
	}
}

func ip(t testing.TB, args ...string) {
	t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		t.Fatalf("NOT RUN: ip %s: %v: %s\nthis machine must permit network namespaces and bridges", strings.Join(args, " "), err, out)
	}
}

// removeStale removes what killed test binaries left.
func removeStale(t testing.TB) {
	stale := func(name string) bool {
		var pid int
		if _, err := fmt.Sscanf(name, netPrefix+"%d", &pid); err != nil {
			return false
		}
		return syscall.Kill(pid, 0) == syscall.ESRCH
	}
	for folder, remove := range map[string]func(name string){
		"/run/netns":     func(name string) { ip(t, "netns", "del", name) },
		"/sys/class/net": func(name string) { _ = exec.Command("ip", "link", "del", name).Run() }, // a cable goes with its namespace
	} {
		entries, err := os.ReadDir(folder)
		if err != nil {
			continue // there never was a namespace
		}
		for _, entry := range entries {
			if stale(entry.Name()) {
				remove(filepath.Base(entry.Name()))
			}
		}
	}
}
