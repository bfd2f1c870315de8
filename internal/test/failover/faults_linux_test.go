package failover

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/hookonce/hookonce/internal/test/eventually"
)

// fault is a way to hurt a cluster.
type fault struct {
	name string
	// strike hurts the cluster, whose primary is old, and returns how to heal it; nil if the cluster heals by itself.
	strike func(c *cluster, old *node) (heal func())
	// settle waits until the cluster has dealt with the fault, and returns its primary.
	settle func(c *cluster, old *node) *node
}

// moved waits for another primary.
func moved(c *cluster, old *node) *node { return c.waitPrimary(old) }

var killPrimary = fault{"`kill -9` of the primary", func(c *cluster, old *node) func() {
	signalAll(c.t, syscall.SIGKILL, old.postmaster())
	return nil
}, moved}

var switchover = fault{"planned switchover", func(c *cluster, old *node) func() {
	c.switchover(old)
	return nil
}, moved}

// killPatroni leaves a primary without its Patroni: the other node becomes a primary beside it.
var killPatroni = fault{"`kill -9` of the primary's Patroni", func(_ *cluster, old *node) func() {
	old.patroni.stop(syscall.SIGKILL)
	return old.startPatroni
}, moved}

// restartPatroni kills the primary's Patroni, and the system starts it again at once. It still has the lock.
var restartPatroni = fault{"`kill -9` of the primary's Patroni, started again at once", func(_ *cluster, old *node) func() {
	old.patroni.stop(syscall.SIGKILL)
	old.startPatroni()
	return nil
}, func(c *cluster, _ *node) *node { return c.waitPrimary() }}

var cutOff = fault{"primary cut off from etcd and from its standby", func(c *cluster, old *node) func() {
	c.network.unplug(c.t, old.site, backCable)
	return func() { c.network.plug(c.t, old.site, backCable) }
}, moved}

var vanish = fault{"primary gone from the network", func(c *cluster, old *node) func() {
	c.network.unplug(c.t, old.site, frontCable, backCable)
	return func() { c.network.plug(c.t, old.site, frontCable, backCable) }
}, moved}

// The same with three nodes.
var (
	killPrimaryOfThree = fault{killPrimary.name + ", of three nodes", killPrimary.strike, killPrimary.settle}
	vanishOfThree      = fault{vanish.name + ", of three nodes", vanish.strike, vanish.settle}
)

// freezeStandby freezes the synchronous standby and its Patroni.
var freezeStandby = fault{"standby frozen", func(c *cluster, old *node) func() {
	standby := c.synchronous()
	signalAll(c.t, syscall.SIGSTOP, processesOf(standby.folder+"/")...)
	return func() { signalAll(c.t, syscall.SIGCONT, processesOf(standby.folder+"/")...) }
}, func(c *cluster, old *node) *node {
	frozen := c.nodes[0]
	if frozen == old {
		frozen = c.nodes[1]
	}
	eventually.True(c.t, "the primary does not wait for the frozen standby any more", func() bool {
		names := old.standbys()
		return names != unanswered && names != frozen.name
	})
	return old
}}

// synchronous returns the synchronous standby.
func (c *cluster) synchronous() (found *node) {
	c.t.Helper()
	eventually.True(c.t, "there is a synchronous standby", func() bool {
		for _, n := range c.nodes {
			if n.answers("/synchronous") {
				found = n
			}
		}
		return found != nil
	})
	return found
}

// fillDisk fills the file system of the primary. Nothing moves by itself as long as the server can answer that it
// has no space: the operator switches over, once deliveries are refused.
var fillDisk = fault{"disk of the primary full, switchover after 10 s", func(c *cluster, old *node) func() {
	filler := filepath.Join(old.folder, "filler")
	fill(c.t, filler)
	return func() {
		if err := os.Remove(filler); err != nil {
			c.t.Fatal(err)
		}
	}
}, func(c *cluster, old *node) *node {
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		if n := c.primary(old); n != nil {
			return n
		}
		<-time.After(50 * time.Millisecond)
	}
	c.t.Log("nothing moved by itself")
	c.switchover(old)
	return c.waitPrimary(old)
}}

// fill writes a file until the file system has no space for another byte.
func fill(t testing.TB, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 20; size > 0; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			if !errors.Is(err, syscall.ENOSPC) {
				t.Fatal(err)
			}
			size /= 2
		}
	}
}
