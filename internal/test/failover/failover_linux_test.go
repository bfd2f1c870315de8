package failover

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/report"
)

// The ways of a gateway to the primary.
const (
	byHosts = "several hosts"
	byProxy = "HAProxy"
)

// trialsVariable names the environment variable with the number of trials of each fault in make scale.
const trialsVariable = "HOOKONCE_FAILOVER_TRIALS"

// TestFailover kills the primary of a cluster of two nodes, switches over, and kills Patroni. Each time, one gateway reaches the
// database by several hosts and one by HAProxy.
func TestFailover(t *testing.T) {
	if report.Scale(t) {
		t.Skip("TestFailoverInFull has these trials too")
	}
	w := newWorld(t, options{nodes: 2})
	w.doctor("a failover to a synchronous standby loses no acknowledged event")
	w.pass(killPrimary)
	w.pass(switchover)
	w.pass(restartPatroni)
	w.doctor("a failover to a synchronous standby loses no acknowledged event")
}

// smallDisk makes the cluster's files fit into a file system of a size that is soon full.
var smallDisk = map[string]string{
	`        wal_log_hints: "on"`: `        wal_log_hints: "on"
        max_wal_size: 128MB
        min_wal_size: 32MB`,
}

// inFull are the trials of make scale: clusters and the faults that each meets.
var inFull = []struct {
	name   string
	o      options
	faults []fault
}{
	{"two nodes", options{nodes: 2, switched: true}, []fault{killPrimary, switchover, freezeStandby, killPatroni, restartPatroni, cutOff, vanish}},
	{"three nodes", options{nodes: 3, switched: true}, []fault{killPrimaryOfThree, vanishOfThree}},
	{"two nodes with small disks", options{nodes: 2, switched: true, room: "500m", change: smallDisk}, []fault{fillDisk}},
}

// TestFailoverPage holds the table of docs/scale.md against the faults: it has each of them, with 20 trials or more.
func TestFailoverPage(t *testing.T) {
	t.Parallel()
	page := report.Read(t, report.Docs(3)+"/scale.md", "failover", "scale")
	for _, cluster := range inFull {
		for _, f := range cluster.faults {
			_, rest, found := strings.Cut(page, "\n| "+f.name+" | ")
			if trials, _ := strconv.Atoi(strings.SplitN(rest, " ", 2)[0]); !found || trials < 20 {
				t.Errorf("%s: the page has %d trials, want at least 20", f.name, trials)
			}
		}
	}
}

// TestFailoverInFull makes many trials of each fault, and writes their figures into docs/scale.md.
func TestFailoverInFull(t *testing.T) {
	if !report.Scale(t) {
		t.Skip("make scale runs it; TestFailover is the short form")
	}
	trials := 20
	if given := os.Getenv(trialsVariable); given != "" {
		var err error
		if trials, err = strconv.Atoi(given); err != nil || trials < 1 {
			t.Fatalf("%s is %q: give a number of trials", trialsVariable, given)
		}
	}
	var lines []*row
	for _, cluster := range inFull {
		t.Run(cluster.name, func(t *testing.T) {
			w := newWorld(t, cluster.o)
			for range trials { // in turn, so that a fault also meets the traces of the others
				for _, f := range cluster.faults {
					lines = add(lines, w.pass(f))
				}
			}
		})
	}
	if t.Failed() {
		return
	}
	report.Write(t, report.Docs(3)+"/scale.md", "failover", "scale", table(lines))
}

// TestFailoverForgets plants a fault: replication without synchronous_mode. The standby lags when the primary goes, so
// acknowledged events are lost. A trial that did not notice would prove nothing.
func TestFailoverForgets(t *testing.T) {
	if !report.Scale(t) {
		t.Skip("make scale runs it")
	}
	w := newWorld(t, options{nodes: 2, switched: true, asynchronous: true})
	w.doctor("a failover loses the events that were acknowledged last")
	if r := w.trial(lag(w)); r.lost == 0 {
		t.Errorf("no acknowledged event was lost, of %d: the trial does not notice asynchronous replication", r.acked)
	} else {
		t.Logf("lost, as it must be: %d of %d acknowledged events", r.lost, r.acked)
	}
}

// lag takes the primary away while its standby lacks the last events.
func lag(w *world) fault {
	return fault{"primary gone from the network while its standby lags", func(c *cluster, old *node) func() {
		standby := c.nodes[0]
		if standby == old {
			standby = c.nodes[1]
		}
		c.network.unplug(c.t, standby.site, backCable)
		w.steady(time.Now(), "while the standby is away")
		c.network.unplug(c.t, old.site, frontCable, backCable)
		c.network.plug(c.t, standby.site, backCable)
		return func() { c.network.plug(c.t, old.site, frontCable, backCable) }
	}, moved}
}

// TestFailoverForgetsAfterPatroni plants a fault: Patroni starts again beside a PostgreSQL that runs. It takes the
// synchronous standby out of the settings of the server, and believes that it is there.
func TestFailoverForgetsAfterPatroni(t *testing.T) {
	if !report.Scale(t) {
		t.Skip("make scale runs it")
	}
	w := newWorld(t, options{nodes: 2, switched: true})
	old := w.waitPrimary()
	restart := func() {
		old.patroni.stop(syscall.SIGKILL)
		old.startPatroniAlone()
		eventually.True(t, "no commit waits for a standby any more", func() bool { return old.standbys() == "" })
		w.doctor("a failover loses the events that were acknowledged last")
	}
	restart()
	// As docs/scale.md says.
	w.configure(`{"synchronous_mode": false}`)
	eventually.True(t, "no node is synchronous for Patroni", func() bool {
		return !slices.ContainsFunc(w.nodes, func(n *node) bool { return n.answers("/synchronous") })
	})
	w.configure(`{"synchronous_mode": true}`)
	w.waitHealthy()
	w.doctor("a failover to a synchronous standby loses no acknowledged event")

	restart()
	w.asynchronous = true
	if r := w.trial(lag(w)); r.lost == 0 {
		t.Errorf("no acknowledged event was lost, of %d", r.acked)
	} else {
		t.Logf("lost, as it must be: %d of %d acknowledged events", r.lost, r.acked)
	}
}

// TestFailoverDoubles plants a fault: an application that writes its effects in a transaction of their own, and is in
// between when the primary dies.
func TestFailoverDoubles(t *testing.T) {
	if !report.Scale(t) {
		t.Skip("make scale runs it")
	}
	w := newWorld(t, options{nodes: 2, careless: true})
	if r := w.trial(killPrimary); r.doubled == 0 {
		t.Errorf("no effect was doubled, of %d: the trial does not notice work outside the transaction", r.acked)
	} else {
		t.Logf("doubled, as it must be: %d effects of %d events", r.doubled, r.acked)
	}
}

// row is a fault with the results of its trials.
type row struct {
	fault   string
	trials  int
	silence map[string][]time.Duration // by gateway
	extra   int
	figures
}

func add(rows []*row, r result) []*row {
	i := slices.IndexFunc(rows, func(line *row) bool { return line.fault == r.fault })
	if i < 0 {
		i = len(rows)
		rows = append(rows, &row{fault: r.fault, silence: make(map[string][]time.Duration)})
	}
	line := rows[i]
	line.trials++
	line.extra += r.extra
	line.acked += r.fresh
	line.again += r.again
	line.lost += r.lost
	line.doubled += r.doubled
	for name, silence := range r.silence {
		line.silence[name] = append(line.silence[name], silence)
	}
	return rows
}

// table returns the rows as Markdown.
func table(rows []*row) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s.\nAll nodes, etcd, HAProxy, gateways and senders are on this one machine.\n\n", report.Machine())
	b.WriteString("| fault | trials | without a 200, several hosts: median, worst | through HAProxy: median, worst | acknowledged | lost | doubled |\n")
	b.WriteString("|---|---|---|---|---|---|---|\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %d | %s | %s | %d | %d | %d |\n",
			r.fault, r.trials, spread(r.silence[byHosts]), spread(r.silence[byProxy]), r.acked, r.lost, r.doubled)
	}
	return b.String()
}

// spread returns the median and the worst.
func spread(all []time.Duration) string {
	slices.Sort(all)
	return fmt.Sprintf("%.1f s, %.1f s", all[len(all)/2].Seconds(), all[len(all)-1].Seconds())
}
