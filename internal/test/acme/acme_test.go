package acme

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const quarter = 90 * 24 * 3600 // seconds

// A gateway gets a certificate for each host, keeps the keys private, and asks for none after a restart.
func TestGetsCertificates(t *testing.T) {
	t.Parallel()
	a, dir := newAuthority(t, quarter), t.TempDir()
	settings := a.settings("hooks.example.com", "api.example.com")
	g := start(t, a, dir, settings)
	a.door.lead(g.public)
	hosts := []string{"hooks.example.com", "api.example.com"}
	for _, host := range hosts {
		g.until(host+" has its certificate", func() bool { return g.metric(expiry(host)) > 0 })
		if status, err := a.deliver(host, host); status != 200 || err != nil {
			t.Errorf("a delivery to %s: %d, %v", host, status, err)
		}
	}
	count := 0
	err := filepath.WalkDir(filepath.Join(dir, "keys"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		if !entry.IsDir() {
			count++
		}
		return err
	})
	if err != nil || count != 3 {
		t.Errorf("the folder holds %d files, want the account's key and two certificates; error %v", count, err)
	}
	if out, err := g.command("doctor").CombinedOutput(); err != nil || strings.Count(string(out), "the certificate expires on") != 2 {
		t.Errorf("doctor: %v\n%s", err, out)
	}

	// Names of others never reach the authority.
	before := a.requests.Load()
	for _, host := range []string{"other.example.com", "hooks.example.com.example.com"} {
		if conn, err := a.dial(host, time.Time{}); err == nil || strings.Contains(err.Error(), "x509") {
			t.Errorf("the handshake for %s: %v, want it refused", host, err)
			if err == nil {
				conn.Close()
			}
		}
	}
	first, err := a.serial(hosts[0])
	if err != nil {
		t.Fatal(err)
	}
	g.stop()

	again := start(t, a, dir, settings)
	a.door.lead(again.public)
	if second, err := a.serial(hosts[0]); err != nil || second != first {
		t.Errorf("after a restart the certificate is %s, %v, want %s", second, err, first)
	}
	again.stop()
	if asked := a.requests.Load() - before; asked != 0 {
		t.Errorf("the authority got %d more requests, want none", asked)
	}
}

// A certificate that lives for seconds is renewed in time, and no delivery fails meanwhile.
func TestRenewsCertificates(t *testing.T) {
	t.Parallel()
	const host = "hooks.example.com"
	a := newAuthority(t, 30)
	g := start(t, a, t.TempDir(), a.settings(host))
	a.door.lead(g.public)
	g.until("there is a certificate", func() bool { return g.metric(expiry(host)) > 0 })
	serials := map[string]bool{}
	n := 0
	g.until("the certificate was renewed", func() bool {
		n++
		if status, err := a.deliver(host, fmt.Sprint(n)); status != 200 || err != nil {
			t.Errorf("delivery %d: %d, %v", n, status, err)
		}
		serial, err := a.serial(host)
		if err != nil {
			t.Error(err)
		}
		serials[serial] = true
		return len(serials) == 2 || t.Failed()
	})
	if failed := g.metric(failures(host)); failed != 0 {
		t.Errorf("%v failures were counted", failed)
	}
}

// The authority cannot be reached, at the start and later. The gateway says so and serves on: without a
// certificate at first, later with the old one. SIGHUP tries again.
func TestAuthorityIsAway(t *testing.T) {
	t.Parallel()
	const host = "hooks.example.com"
	a := newAuthority(t, 9)
	api := a.front.to
	a.front.lead("")
	g := start(t, a, t.TempDir(), a.settings(host))
	a.door.lead(g.public)
	g.until("a failure is counted", func() bool { return g.metric(failures(host)) > 0 })
	line := g.find("getting a certificate failed; senders cannot connect to this host; retrying in ")[0]
	if line["level"] != "ERROR" || line["host"] != host || !strings.Contains(fmt.Sprint(line["remedy"]), "tls.directory") {
		t.Errorf("the log line is %v", line)
	}
	if out, err := g.command("doctor").CombinedOutput(); err == nil || !strings.Contains(string(out), host+": there is no certificate") ||
		!strings.Contains(string(out), "check tls.directory") {
		t.Errorf("doctor: %v\n%s", err, out)
	}

	hangUp := func() {
		t.Helper()
		if err := g.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	a.front.lead(api)
	hangUp()
	g.until("there is a certificate", func() bool { return g.metric(expiry(host)) > 0 })

	a.front.lead("")
	before := g.metric(failures(host))
	g.until("a renewal has failed", func() bool { return g.metric(failures(host)) > before })
	until := time.Unix(int64(g.metric(expiry(host))), 0)
	conn, err := a.dial(host, until.Add(-time.Second))
	if err != nil {
		t.Fatalf("the old certificate is not in use: %v", err)
	}
	conn.Close()
	if len(g.find("renewing a certificate failed; retrying in ")) == 0 {
		t.Error("the log does not tell of the renewal")
	}
	a.front.lead(api)
	hangUp()
	g.until("the certificate is renewed", func() bool { return g.metric(expiry(host)) > float64(until.Unix()) })
}

// One host cannot be validated, one has no address, and one is refused. Each has its own error, and the
// other host its certificate.
func TestHostsThatCannotBeHad(t *testing.T) {
	t.Parallel()
	a := newAuthority(t, quarter)
	const good, lost = "hooks.example.com", "nowhere.example.com"
	a.door.lead("")
	g := start(t, a, t.TempDir(), a.settings(good, lost, blocked))
	for host, want := range map[string][2]string{
		good: {"could not validate the host", "port 443 of " + good}, lost: {"could not validate the host", ""}, blocked: {"ordering a certificate", "the authority must be able to issue"},
	} {
		g.until("the failure of "+host+" is counted", func() bool { return g.metric(failures(host)) > 0 })
		found := false
		for _, line := range g.find("getting a certificate failed; senders cannot connect to this host; retrying in ") {
			if line["host"] == host {
				found = strings.Contains(fmt.Sprint(line["error"]), want[0]) && strings.Contains(fmt.Sprint(line["remedy"]), want[1])
			}
		}
		if !found {
			t.Errorf("the log has no failure of %s with %q", host, want)
		}
	}
	a.door.lead(g.public)
	if err := g.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	g.until(good+" has its certificate", func() bool { return g.metric(expiry(good)) > 0 })
	if status, err := a.deliver(good, "1"); status != 200 || err != nil {
		t.Errorf("a delivery to %s: %d, %v", good, status, err)
	}
}
