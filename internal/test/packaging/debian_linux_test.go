package packaging

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hookonce/hookonce/internal/test/eventually"
)

// settings are those of the test. Each package must leave them alone.
const settings = `database: sqlite:hookonce.db
env_file: env
sources:
  github: {provider: github, secrets: ["${GITHUB_WEBHOOK_SECRET}"]}
  forwarded: {provider: none, event: {id: "header:webhook-id"}} # what the destination of github gets
destinations:
  itself: {url: "http://127.0.0.1:8080/webhooks/forwarded"}
routes:
  - {name: forward, sources: [github], to: itself}
`

const environment = "GITHUB_WEBHOOK_SECRET=0123456789abcdef0123456789abcdef\n"

// sending sends one event twice.
var sending = []string{"send", "http://127.0.0.1:8080/webhooks/github", "--provider", "github", "--duplicate", "1"}

// machine is a bare Debian in a folder, with a network of its own.
type machine struct{ root, network string }

// newMachine makes a Debian with debootstrap from the mirror of this machine.
func newMachine(t *testing.T) *machine {
	t.Helper()
	folder := t.TempDir()
	m := &machine{root: filepath.Join(folder, "debian"), network: filepath.Join(folder, "network")}
	list := must(t, "apt-get", "indextargets", "--no-release-info", "--format", "$(REPO_URI) $(RELEASE)", "Created-By: Packages", "Component: main")
	mirror, suite := "", ""
	for line := range strings.Lines(list) {
		address, release, _ := strings.Cut(strings.TrimSpace(line), " ")
		if _, err := os.Stat("/usr/share/debootstrap/scripts/" + release); err == nil && strings.HasPrefix(address, "http") && suite == "" {
			mirror, suite = address, release
		}
	}
	if suite == "" {
		t.Skip("NOT RUN: apt's sources name no mirror of a release that debootstrap knows")
	}
	must(t, "debootstrap", "--variant=minbase", "--include=ca-certificates", suite, m.root, mirror) // the network of the machine reaches no mirror
	must(t, "mount", "-t", "proc", "proc", m.root+"/proc")
	t.Cleanup(func() { must(t, "umount", "--lazy", m.root+"/proc") })
	m.put(t, "/dev/null", "", 0o666)
	must(t, "mount", "--bind", "/dev/null", m.root+"/dev/null")
	t.Cleanup(func() { must(t, "umount", m.root+"/dev/null") })
	must(t, "touch", m.network)
	must(t, "unshare", "--net="+m.network, "ip", "link", "set", "lo", "up")
	t.Cleanup(func() { must(t, "umount", m.network) })
	return m
}

// command returns a command of the Debian, with the environment of a login.
func (m *machine) command(script string) *exec.Cmd {
	return exec.Command("nsenter", "--net="+m.network, "env", "-i", "HOME=/root", "LANG=C.UTF-8", "DEBIAN_FRONTEND=noninteractive",
		"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "chroot", m.root, "sh", "-c", script)
}

func (m *machine) must(t *testing.T, script string) string {
	t.Helper()
	out, err := run(m.command(script))
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return out
}

func (m *machine) put(t *testing.T, name, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(m.root+name, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

// install installs a package from a file, as "apt install ./FILE" does.
func (m *machine) install(t *testing.T, file string) string {
	t.Helper()
	must(t, "cp", file, m.root+"/tmp/")
	return m.must(t, "dpkg -i /tmp/"+filepath.Base(file))
}

// followPage installs a package by the commands of docs/deploying.md, and returns their output. It leaves out the editor.
func (m *machine) followPage(t *testing.T, file, version string) string {
	t.Helper()
	page, err := os.ReadFile("../../../docs/deploying.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```sh\n(sudo apt install .*?)```").FindSubmatch(page)
	if block == nil {
		t.Fatal("docs/deploying.md does not install a package")
	}
	must(t, "cp", file, m.root+"/tmp/")
	m.put(t, "/usr/bin/sudo", "#!/bin/sh\nexec \"$@\"\n", 0o755)
	m.put(t, "/usr/bin/sudoedit", "#!/bin/sh\nexec test -w \"$1\"\n", 0o755)
	return m.must(t, "set -e; cd /tmp\n"+strings.NewReplacer("VERSION", version, "amd64", runtime.GOARCH).Replace(string(block[1])))
}

// serve runs the command of the unit as its user, in its folder and with its environment, and returns what stops it.
func (m *machine) serve(t *testing.T) (stop func()) {
	t.Helper()
	unit := m.must(t, "cat /usr/lib/systemd/system/hookonce.service")
	value := func(key string) string {
		_, rest, found := strings.Cut(unit, "\n"+key+"=")
		if !found {
			t.Fatalf("the unit has no %s", key)
		}
		line, _, _ := strings.Cut(rest, "\n")
		return strings.TrimPrefix(line, "-")
	}
	folder := "/var/lib/" + value("StateDirectory")
	cmd := m.command("set -a; . " + value("EnvironmentFile") + "; install -d -m " + value("StateDirectoryMode") +
		" -o " + value("User") + " -g " + value("Group") + " " + folder + "; cd " + folder + "; umask " + value("UMask") +
		"; exec setpriv --reuid " + value("User") + " --regid " + value("Group") + " --init-groups --no-new-privs " + value("ExecStart"))
	log := &strings.Builder{}
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	eventually.Succeeds(t, "the gateway is ready", func() error {
		_, err := run(m.command("hookonce ready --admin-url http://127.0.0.1:8081"))
		return err
	})
	return func() {
		t.Helper()
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := eventually.Receive(t, "the gateway ends", ended); err != nil {
			t.Fatalf("the gateway: %v\n%s", err, log)
		}
	}
}

// send sends the same event twice, and returns the answers.
func (m *machine) send(t *testing.T, id string) string {
	t.Helper()
	return m.must(t, ". /etc/hookonce/env; hookonce "+strings.Join(sending, " ")+" --secret $GITHUB_WEBHOOK_SECRET --id "+id)
}

// TestDeb installs the deb as a stranger would, upgrades it over a filled database, and removes it.
func TestDeb(t *testing.T) {
	tools(t, "debootstrap=debootstrap", "ip=iproute2", "minisign=minisign")
	older, newer := one(t, release(t, "v0.0.1"), "*.deb"), one(t, release(t, "v0.0.2"), "*.deb")
	m := newMachine(t)
	m.fakeSystemd(t)

	began := time.Now()
	contains(t, m.followPage(t, older, "0.0.1"), "hookonce does not run yet. Name your senders in /etc/hookonce/hookonce.yaml")
	contains(t, m.must(t, "hookonce version"), "hookonce v0.0.1\n")
	contains(t, m.must(t, "getent passwd hookonce"), "/var/lib/hookonce:/usr/sbin/nologin")
	contains(t, m.must(t, "stat -c '%a %U' /etc/hookonce/env /etc/hookonce/hookonce.yaml"), "640 root\n644 root")
	contains(t, m.must(t, "cd /root && hookonce config check 2>&1"), "Settings: /etc/hookonce/hookonce.yaml\nok")
	m.asked(t, "an installation", "--system daemon-reload", "enable --now hookonce")
	contains(t, m.must(t, "hookonce demo --exit"), "hookonce")

	m.put(t, "/etc/hookonce/hookonce.yaml", settings, 0o644)
	m.put(t, "/etc/hookonce/env", environment, 0o600)
	stop := m.serve(t)
	// Without --config, in any folder, also as a user who may not look into it.
	for _, doctor := range []string{"hookonce doctor", "setpriv --reuid hookonce --regid hookonce --init-groups hookonce doctor"} {
		contains(t, m.must(t, "chmod 0700 /root && cd /root && "+doctor), "settings      /etc/hookonce/hookonce.yaml:5:3: sources.forwarded: unsigned")
	}
	answers := m.send(t, "before-upgrade")
	contains(t, answers, `"status":"ok"`)
	contains(t, answers, `"status":"duplicate"`)
	m.forwarded(t, 1)
	m.must(t, "hookonce events replay github before-upgrade --as-new")
	m.forwarded(t, 2)
	t.Logf("%s from the package to an event that was deduplicated, forwarded and replayed", time.Since(began).Round(time.Second))
	stop()

	contains(t, m.install(t, newer), "hookonce (0.0.2) over (0.0.1)")
	contains(t, m.must(t, "hookonce version"), "hookonce v0.0.2\n")
	m.asked(t, "an upgrade", "--system daemon-reload", "try-restart hookonce.service")
	stop = m.serve(t)
	if answers := m.send(t, "before-upgrade"); strings.Contains(answers, `"status":"ok"`) {
		t.Errorf("after the upgrade, the event is new:\n%s", answers)
	}
	contains(t, m.send(t, "after-upgrade"), `"status":"ok"`)
	stop()

	const enabled = "/etc/systemd/system/multi-user.target.wants/hookonce.service"
	m.must(t, "mkdir -p /etc/systemd/system/multi-user.target.wants && ln -s /usr/lib/systemd/system/hookonce.service "+enabled)
	m.must(t, "dpkg -r hookonce && test ! -L "+enabled)
	contains(t, m.must(t, "ls /usr/bin/hookonce /etc/hookonce /var/lib/hookonce 2>&1 || true"), "cannot access '/usr/bin/hookonce'")
	contains(t, m.must(t, "cat /etc/hookonce/hookonce.yaml /etc/hookonce/env"), settings+environment[:len(environment)-1])
	contains(t, m.must(t, "dpkg -P hookonce"), "The database in /var/lib/hookonce stays")
	contains(t, m.must(t, "ls /etc/hookonce 2>&1 || true"), "No such file")
	contains(t, m.must(t, "ls -l /var/lib/hookonce/hookonce.db"), "hookonce hookonce")
	m.scriptsOfRPM(t)
}

// scriptsOfRPM runs the scripts of the rpm as rpm does, at an installation, an upgrade and a removal.
func (m *machine) scriptsOfRPM(t *testing.T) {
	t.Helper()
	m.must(t, "deluser hookonce 2>/dev/null || userdel hookonce 2>/dev/null; install -d /etc/hookonce; install -m 0600 /dev/null /etc/hookonce/env; rm -f /tmp/asked")
	run := func(name, left string) string {
		t.Helper()
		script, err := os.ReadFile("../../../deploy/package/rpm/" + name)
		if err != nil {
			t.Fatal(err)
		}
		m.put(t, "/tmp/"+name, string(script), 0o755)
		return m.must(t, "sh -e /tmp/"+name+" "+left)
	}
	run("pre", "1")
	contains(t, run("post", "1"), "hookonce does not run yet")
	contains(t, m.must(t, "stat -c '%a %G' /etc/hookonce/env"), "640 hookonce")
	m.asked(t, "an installation", "daemon-reload")
	run("pre", "2")
	run("post", "2")
	run("preun", "1")
	run("postun", "1")
	m.asked(t, "an upgrade", "daemon-reload", "daemon-reload", "try-restart hookonce.service")
	run("preun", "0")
	run("postun", "0")
	m.asked(t, "a removal", "--no-reload disable --now hookonce.service", "daemon-reload")
}

// forwarded waits until the destination has had so many different messages.
func (m *machine) forwarded(t *testing.T, want int) {
	t.Helper()
	eventually.True(t, fmt.Sprintf("the destination gets %d messages", want), func() bool {
		return strings.Count(m.must(t, "hookonce events list --json --source forwarded"), `"event_id"`) == want
	})
}

// fakeSystemd puts a systemctl into the Debian that only records its arguments: the scripts of the package believe
// that systemd runs. A folder cannot have a systemd that runs.
func (m *machine) fakeSystemd(t *testing.T) {
	t.Helper()
	m.must(t, "mkdir -p /run/systemd/system")
	m.put(t, "/usr/bin/systemctl", "#!/bin/sh\necho \"$*\" >>/tmp/asked\n", 0o755)
}

// asked checks the calls of systemctl since the last time.
func (m *machine) asked(t *testing.T, when string, want ...string) {
	t.Helper()
	var got []string
	for line := range strings.Lines(m.must(t, "cat /tmp/asked; rm /tmp/asked")) {
		if line = strings.TrimSpace(line); strings.Contains(line, "restart") || strings.Contains(line, "start") || strings.HasPrefix(line, "enable ") || strings.Contains(line, "reload") {
			got = append(got, line)
		}
	}
	if strings.Join(got, ";") != strings.Join(want, ";") {
		t.Errorf("%s asks systemctl for %q, want %q", when, got, want)
	}
}

// TestLintian holds the deb against Debian's own rules.
func TestLintian(t *testing.T) {
	tools(t, "lintian=lintian", "minisign=minisign")
	if said := must(t, "lintian", "--no-cfg", "--allow-root", "--fail-on", "error,warning", one(t, release(t, "v0.0.1"), "*.deb")); said != "" {
		t.Errorf("lintian says:\n%s", said)
	}
}

// TestRPM unpacks the rpm into a folder, and lets rpm verify it.
func TestRPM(t *testing.T) {
	tools(t, "rpm=rpm", "minisign=minisign")
	file, root := one(t, release(t, "v0.0.1"), "*.rpm"), t.TempDir()
	must(t, "rpm", "--root", root, "--nodeps", "--noscripts", "--install", file)
	if said := must(t, "rpm", "--root", root, "--nodeps", "--noscripts", "--verify", "hookonce"); said != "" {
		t.Errorf("rpm --verify: %s", said)
	}
	contains(t, must(t, filepath.Join(root, "usr/bin/hookonce"), "version"), "hookonce v0.0.1\n")
	contains(t, must(t, "rpm", "--query", "--configfiles", "--package", file), "/etc/hookonce/env\n/etc/hookonce/hookonce.yaml")
	contains(t, must(t, "rpm", "--query", "--requires", "--package", file), "shadow-utils")
}
