package scale

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/program"
)

// balancerFile is the configuration that users get.
var balancerFile = filepath.Join(root, "deploy", "haproxy", "haproxy.cfg")

// haproxy returns the path of HAProxy, which it installs where it can.
func haproxy(t testing.TB) string {
	t.Helper()
	var path string
	dbtest.Need(t, "scale", func() error {
		for _, name := range []string{"haproxy", "/usr/sbin/haproxy", "/usr/local/sbin/haproxy"} {
			if found, err := exec.LookPath(name); err == nil {
				path = found
				return nil
			}
		}
		return errors.New("HAProxy was not found on the PATH or in the usual folders: " +
			"install it (apt-get install haproxy, dnf install haproxy, brew install haproxy)")
	}, "haproxy")
	return path
}

// balance starts HAProxy with the users' configuration. Only its addresses are replaced, and what edit changes.
func (c *cluster) balance(t testing.TB, edit func(string) string) {
	t.Helper()
	text, err := os.ReadFile(balancerFile)
	if err != nil {
		t.Fatal(err)
	}
	c.address = dbtest.FreeAddress(t)
	config := strings.Replace(string(text), "bind :8080", "bind "+c.address, 1)
	var servers []string
	for i, g := range c.gateways {
		_, port, err := net.SplitHostPort(g.admin)
		if err != nil {
			t.Fatal(err)
		}
		line := fmt.Sprintf("    server gateway%d gateway%[1]d:8080\n", i+1)
		if i < 3 && !strings.Contains(config, line) {
			t.Fatalf("%s has no line %q", balancerFile, line)
		}
		config = strings.Replace(config, line, "", 1)
		servers = append(servers, fmt.Sprintf("    server %s %s port %s\n", g.name, g.public, port))
	}
	config += strings.Join(servers, "")
	c.socket = filepath.Join(c.folder, "haproxy.sock")
	config = strings.Replace(config, "global\n", "global\n    stats socket "+c.socket+"\n", 1)
	if edit != nil {
		edited := edit(config)
		if edited == config {
			t.Fatalf("the edit changes nothing in\n%s", config)
		}
		config = edited
	}
	file := filepath.Join(c.folder, "haproxy.cfg")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	c.balancer = program.Start(t, exec.Command(haproxy(t), "-db", "-f", file))
	c.balancer.Eventually(t, "the balancer answers", func() bool {
		resp, err := http.Get("http://" + c.address + "/")
		if err != nil {
			return false
		}
		_ = resp.Body.Close() // only the status counts
		return resp.StatusCode == http.StatusNotFound
	})
}

// without returns an edit that removes lines of the configuration by their beginnings.
func without(beginnings ...string) func(string) string {
	return func(config string) string {
		var kept []string
		for _, line := range strings.SplitAfter(config, "\n") {
			remove := false
			for _, beginning := range beginnings {
				remove = remove || strings.HasPrefix(strings.TrimSpace(line), beginning)
			}
			if !remove {
				kept = append(kept, line)
			}
		}
		return strings.Join(kept, "")
	}
}

// replaced returns an edit that replaces a text of the configuration.
func replaced(before, after string) func(string) string {
	return func(config string) string { return strings.Replace(config, before, after, 1) }
}

// inRotation reports whether the balancer gives deliveries to a gateway, and its last check succeeded.
func (c *cluster) inRotation(t testing.TB, g *gateway) bool {
	t.Helper()
	conn, err := net.Dial("unix", c.socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "show stat gateways 4 -1\n"); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(conn).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	name, status := slices.Index(rows[0], "svname"), slices.Index(rows[0], "status")
	for _, row := range rows {
		if row[name] == g.name {
			return row[status] == "UP"
		}
	}
	t.Fatalf("the balancer does not know %s: %q", g.name, rows)
	return false
}
