package failover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/eventually"
)

const (
	deployed  = "../../../deploy/patroni"
	superPass = "canary-superuser-55c1"
	replPass  = "canary-replicator-0b7e"
	restPass  = "canary-restapi-94ad"
	roleName  = "hookonce"
	rolePass  = "canary-database-password-c0ffee"
)

// cluster is a PostgreSQL cluster under Patroni, with etcd and HAProxy.
type cluster struct {
	t       testing.TB
	folder  string
	network *network
	nodes   []*node
	etcd    *process
	proxy   *process
	door    string // HAProxy's address

	asynchronous bool // the standbys are not synchronous, by a fault planted in the settings
}

// node is one PostgreSQL and its Patroni.
type node struct {
	*site
	cluster *cluster
	name    string
	folder  string
	user    *syscall.Credential
	bin     string // folder of PostgreSQL's programs
	patroni *process
}

// options of a cluster.
type options struct {
	nodes    int
	switched bool // each node has a network namespace of its own
	// asynchronous plants a fault: commits do not wait for a standby.
	asynchronous bool
	// careless plants a fault: the application's effects are not in the transaction of take.
	careless bool
	room     string // size of each node's file system, such as 300m; "": no file system of its own
	// change changes the shipped file of Patroni: old text, new text.
	change map[string]string
}

// startCluster starts a cluster by the files of deploy/patroni, and waits until its standbys are synchronous.
func startCluster(t testing.TB, o options) *cluster {
	t.Helper()
	dbtest.Need(t, "cluster", installed, "patroni", "etcd-server", "haproxy", "iproute2")
	user, err := dbtest.Unprivileged()
	if err != nil {
		t.Fatal(err)
	}
	bin := dbtest.Programs(t)
	c := &cluster{t: t, folder: dbtest.Folder(t, "hookonce-failover-"), asynchronous: o.asynchronous}
	if o.switched {
		c.network = switched(t, o.nodes)
	} else {
		c.network = loopback(t, o.nodes)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, n := range c.nodes {
				t.Logf("the log of %s ends with:\n%s", n.name, n.patroni.log(4<<10))
			}
		}
		// A killed Patroni leaves its PostgreSQL.
		signalAll(t, syscall.SIGKILL, processesOf(c.folder)...)
	})
	c.startEtcd()
	for i, s := range c.network.sites {
		n := &node{site: s, cluster: c, name: fmt.Sprint("db", i+1), user: user, bin: bin}
		n.folder = filepath.Join(c.folder, n.name)
		c.nodes = append(c.nodes, n)
		n.prepare(o)
		n.startPatroni()
		if i == 0 {
			eventually.True(t, "the first node is the primary", func() bool { return n.answers("/primary") })
		}
	}
	c.startProxy()
	c.waitHealthy()
	c.createDatabase()
	return c
}

func installed() error {
	for _, name := range []string{"patroni", "etcd", "haproxy", "ip"} {
		if _, err := exec.LookPath(name); err != nil {
			return errors.New("install Patroni, etcd, HAProxy and iproute2 (apt-get install patroni etcd-server haproxy iproute2): " + err.Error())
		}
	}
	return nil
}

func (c *cluster) startEtcd() {
	at := "http://" + c.network.etcd.String()
	peers := "http://" + dbtest.FreeAddress(c.t)
	c.etcd = (&command{
		name: "etcd", space: host(), end: syscall.SIGKILL,
		args: []string{
			"etcd", "--data-dir", filepath.Join(c.folder, "etcd"), "--listen-client-urls", at, "--advertise-client-urls", at,
			"--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", "default=" + peers,
			"--unsafe-no-fsync=false",
		},
	}).start(c.t, c.folder)
	eventually.True(c.t, "etcd answers", func() bool { return status(at+"/health") == http.StatusOK })
}

// shipped reads a file of deploy/patroni and replaces texts. A text that is not there is an error: the files and the
// test must agree.
func shipped(t testing.TB, file string, replace ...string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(deployed, file))
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	for i := 0; i < len(replace); i += 2 {
		if !strings.Contains(text, replace[i]) {
			t.Fatalf("%s does not contain %q", file, replace[i])
		}
		text = strings.ReplaceAll(text, replace[i], replace[i+1])
	}
	return text
}

// prepare makes the node's folder and its settings.
func (n *node) prepare(o options) {
	t := n.cluster.t
	if err := os.Mkdir(n.folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if o.room != "" {
		if err := syscall.Mount("tmpfs", n.folder, "tmpfs", 0, "mode=0700,size="+o.room); err != nil {
			t.Fatalf("NOT RUN: mounting a small file system: %v", err)
		}
		t.Cleanup(func() { _ = syscall.Unmount(n.folder, syscall.MNT_DETACH) })
	}
	pg, rest := strconv.Itoa(n.pgPort), strconv.Itoa(n.rest)
	listen := n.front
	if n.back != n.front {
		listen += "," + n.back
	}
	replace := []string{
		"name: db1", "name: " + n.name,
		"  listen: 10.0.0.11:5432", "  listen: " + listen + ":" + pg,
		"connect_address: 10.0.0.11:5432", "connect_address: " + n.back + ":" + pg,
		"  listen: 10.0.0.11:8008", "  listen: 0.0.0.0:" + rest,
		"connect_address: 10.0.0.11:8008", "connect_address: " + n.back + ":" + rest,
		"10.0.0.21:2379, 10.0.0.22:2379, 10.0.0.23:2379", n.cluster.network.etcd.String(),
		"10.0.0.0/24", "0.0.0.0/0",
		"/var/lib/postgresql/15/hookonce", filepath.Join(n.folder, "data"),
		"/usr/lib/postgresql/15/bin", n.bin,
		"/var/lib/postgresql/patroni.pgpass", filepath.Join(n.folder, "pgpass"),
		"/var/run/postgresql", n.folder,
		"  mode: automatic", `  mode: "off"`,
	}
	if o.asynchronous {
		replace = append(replace, "synchronous_mode: true", "synchronous_mode: false")
	}
	for from, to := range o.change {
		replace = append(replace, from, to)
	}
	file := filepath.Join(n.folder, "patroni.yml")
	if err := os.WriteFile(file, []byte(shipped(t, "patroni.yml", replace...)), 0o600); err != nil {
		t.Fatal(err)
	}
	// The node's user may not be allowed to enter the checkout.
	if err := os.WriteFile(n.script(), []byte(shipped(t, "stop-postgresql")), 0o700); err != nil {
		t.Fatal(err)
	}
	if n.user != nil {
		for _, path := range []string{n.folder, file, n.script()} {
			if err := os.Chown(path, int(n.user.Uid), int(n.user.Gid)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// script is the node's copy of stop-postgresql.
func (n *node) script() string { return filepath.Join(n.folder, "stop-postgresql") }

// startPatroni starts the node's Patroni, as systemd does with the shipped file: it stops a PostgreSQL that runs first.
func (n *node) startPatroni() {
	t := n.cluster.t
	t.Helper()
	file := shipped(t, "systemd.conf", "/usr/local/sbin/stop-postgresql", n.script(),
		"/var/lib/postgresql/15/hookonce", filepath.Join(n.folder, "data"), "/usr/lib/postgresql/15/bin", n.bin)
	_, line, _ := strings.Cut(file, "\nExecStartPre=")
	first := (&command{name: n.name, space: n.space, user: n.user, end: syscall.SIGTERM, args: strings.Fields(line)}).start(t, n.cluster.folder)
	<-first.exited
	if state := first.cmd.ProcessState; !state.Success() {
		t.Fatalf("%s: %s:\n%s", line, state, first.log(4<<10))
	}
	n.startPatroniAlone()
}

// startPatroniAlone starts the node's Patroni beside a PostgreSQL that may run.
func (n *node) startPatroniAlone() {
	n.patroni = (&command{
		name: n.name, space: n.space, user: n.user, end: syscall.SIGTERM,
		env: []string{
			"PATRONI_SUPERUSER_PASSWORD=" + superPass, "PATRONI_REPLICATION_PASSWORD=" + replPass, "PATRONI_RESTAPI_PASSWORD=" + restPass,
		},
		args: []string{"patroni", filepath.Join(n.folder, "patroni.yml")},
	}).start(n.cluster.t, n.cluster.folder)
}

// startProxy starts HAProxy by the shipped file.
func (c *cluster) startProxy() {
	c.door = dbtest.FreeAddress(c.t)
	replace := []string{"127.0.0.1:5000", c.door}
	for i, n := range c.nodes {
		line := fmt.Sprintf("    server db%d 10.0.0.1%d:5432 check port 8008", i+1, i+1)
		own := fmt.Sprintf("    server %s %s check port %d", n.name, n.postgres(), n.rest)
		if i == 2 { // the file has two nodes
			replace[3*2-1] += "\n" + own
			continue
		}
		replace = append(replace, line, own)
	}
	file := filepath.Join(c.folder, "haproxy.cfg")
	if err := os.WriteFile(file, []byte(shipped(c.t, "haproxy.cfg", replace...)), 0o600); err != nil {
		c.t.Fatal(err)
	}
	c.proxy = (&command{
		name: "haproxy", space: host(), end: syscall.SIGKILL, args: []string{"haproxy", "-db", "-f", file},
	}).start(c.t, c.folder)
}

// client asks other processes of the machine.
var client = &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// status returns the status of an answer, 0 if there is none.
func status(address string) int {
	resp, err := client.Get(address)
	if err != nil {
		return 0
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// answers reports whether the node's Patroni answers 200.
func (n *node) answers(path string) bool { return status("http://"+n.api()+path) == http.StatusOK }

// primary returns the node that holds the lock and is not among others, nil if there is none.
func (c *cluster) primary(others ...*node) *node {
	for _, n := range c.nodes {
		if !slices.Contains(others, n) && n.answers("/primary") {
			return n
		}
	}
	return nil
}

// waitPrimary waits until a node other than those is the primary.
func (c *cluster) waitPrimary(others ...*node) (n *node) {
	c.t.Helper()
	eventually.True(c.t, "another node is the primary", func() bool {
		n = c.primary(others...)
		return n != nil
	})
	return n
}

// waitHealthy waits until there is a primary, and every other node streams from it, one of them synchronously.
func (c *cluster) waitHealthy() (n *node) {
	c.t.Helper()
	eventually.True(c.t, "every node is in place again", func() bool {
		if n = c.primary(); n == nil {
			return false
		}
		var streaming, synchronous int
		err := n.ask(`SELECT count(*), count(*) FILTER (WHERE sync_state IN ('sync', 'quorum')) FROM pg_stat_replication WHERE state = 'streaming'
			AND application_name LIKE 'db_'`, &streaming, &synchronous)
		if err != nil || streaming != len(c.nodes)-1 {
			return false
		}
		return c.asynchronous || synchronous > 0 && slices.ContainsFunc(c.nodes, func(n *node) bool { return n.answers("/synchronous") })
	})
	return n
}

// dsn is the URL of the hosts, with the options.
func dsn(user, password, hosts, database, query string) string {
	u := url.URL{Scheme: "postgres", User: url.UserPassword(user, password), Host: hosts, Path: "/" + database, RawQuery: query}
	return u.String()
}

// hosts returns the addresses of all nodes, as in a URL.
func (c *cluster) hosts() string {
	var all []string
	for _, n := range c.nodes {
		all = append(all, n.postgres())
	}
	return strings.Join(all, ",")
}

// byHosts and byProxy are the two ways of a gateway to the primary.
func (c *cluster) byHosts() string {
	return dsn(roleName, rolePass, c.hosts(), roleName, "sslmode=disable&target_session_attrs=read-write")
}

func (c *cluster) byProxy() string {
	return dsn(roleName, rolePass, c.door, roleName, "sslmode=disable")
}

// connect opens a session of an operator on this node.
func (n *node) connect(ctx context.Context, database string) (*pgx.Conn, error) {
	return pgx.Connect(ctx, dsn("postgres", superPass, n.postgres(), database, "sslmode=disable&connect_timeout=2"))
}

// ask reads one row on this node.
func (n *node) ask(sql string, into ...any) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	conn, err := n.connect(ctx, "postgres")
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	return conn.QueryRow(ctx, sql).Scan(into...)
}

// unanswered is the result of standbys for a node that does not answer.
const unanswered = "no answer"

// standbys returns the names of the standbys that commits of this node wait for.
func (n *node) standbys() (names string) {
	if err := n.ask("SELECT current_setting('synchronous_standby_names')", &names); err != nil {
		return unanswered
	}
	return names
}

func (c *cluster) createDatabase() {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), eventually.Bound)
	defer cancel()
	conn, err := c.waitPrimary().connect(ctx, "postgres")
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	for _, sql := range []string{
		"CREATE ROLE " + roleName + " LOGIN PASSWORD '" + rolePass + "'",
		"CREATE DATABASE " + roleName + " OWNER " + roleName,
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			c.t.Fatal(err)
		}
	}
}

// postmaster returns the id of PostgreSQL's first process on this node.
func (n *node) postmaster() int {
	n.cluster.t.Helper()
	text, err := os.ReadFile(filepath.Join(n.folder, "data", "postmaster.pid"))
	if err != nil {
		n.cluster.t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(first)
	if err != nil {
		n.cluster.t.Fatal(err)
	}
	return pid
}

// switchover asks Patroni to make another node the primary, as patronictl switchover does.
func (c *cluster) switchover(from *node) {
	c.t.Helper()
	body, _ := json.Marshal(map[string]string{"leader": from.name})
	req, err := http.NewRequest(http.MethodPost, "http://"+from.api()+"/switchover", strings.NewReader(string(body)))
	if err != nil {
		c.t.Fatal(err)
	}
	req.SetBasicAuth("patroni", restPass)
	resp, err := (&http.Client{Timeout: eventually.Bound}).Do(req)
	if err != nil {
		c.t.Fatalf("switchover: %v", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusAccepted {
		why, _ := io.ReadAll(resp.Body)
		c.t.Fatalf("switchover: %s: %s", resp.Status, why)
	}
}

// configure changes the settings of the cluster, as patronictl edit-config does.
func (c *cluster) configure(settings string) {
	c.t.Helper()
	n := c.waitPrimary()
	req, err := http.NewRequest(http.MethodPatch, "http://"+n.api()+"/config", strings.NewReader(settings))
	if err != nil {
		c.t.Fatal(err)
	}
	req.SetBasicAuth("patroni", restPass)
	resp, err := client.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		c.t.Fatalf("changing the settings of the cluster: %s", resp.Status)
	}
}
