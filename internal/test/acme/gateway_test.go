package acme

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience bounds every wait; it only runs out if something is broken.
const patience = 2 * time.Minute

var program string

func TestMain(m *testing.M) { os.Exit(run(m)) }

// run builds the gateway and runs the tests.
func run(m *testing.M) int {
	// Pebble reads these when it is made: no pauses, and many refused nonces.
	for name, value := range map[string]string{"PEBBLE_VA_NOSLEEP": "1", "PEBBLE_WFE_NONCEREJECT": "15"} {
		if err := os.Setenv(name, value); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	dir, err := os.MkdirTemp("", "hookonce-acme-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "hookonce")
	build := exec.Command("go", "build", "-o", program, "./cmd/hookonce")
	build.Dir = filepath.Join("..", "..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building the gateway: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// gateway is a running "hookonce serve".
type gateway struct {
	t             *testing.T
	authority     *authority
	dir           string
	cmd           *exec.Cmd
	public, admin string
	log           lines
	exited        chan struct{}
}

// lines collects the log.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// start starts a gateway in dir, and leads the authority's door to it.
func start(t *testing.T, a *authority, dir, settings string) *gateway {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "hookonce.yaml"), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	g := &gateway{t: t, authority: a, dir: dir, exited: make(chan struct{})}
	g.cmd = g.command("serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
	g.cmd.Stderr = &g.log
	if err := g.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = g.cmd.Wait() // stop reads the code
		close(g.exited)
	}()
	t.Cleanup(func() {
		g.stop()
		if t.Failed() {
			t.Logf("log of the gateway:\n%s", g.log.String())
		}
	})
	g.public = g.field("serving webhooks", "listen")
	g.admin = "http://" + g.field("serving the admin API and the dashboard", "admin")
	return g
}

func (g *gateway) command(args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Dir = g.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + g.dir, "TMPDIR=" + os.TempDir(), "SSL_CERT_FILE=" + g.authority.trusted}
	return cmd
}

// stop ends the gateway as an operator does. Calling it again is harmless.
func (g *gateway) stop() {
	g.t.Helper()
	_ = g.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-g.exited:
	case <-time.After(patience):
		g.t.Error("the gateway did not end")
		_ = g.cmd.Process.Kill()
		<-g.exited
	}
	if code := g.cmd.ProcessState.ExitCode(); code != 0 {
		g.t.Errorf("the gateway ended with code %d", code)
	}
	if strings.Contains(g.log.String(), "PRIVATE KEY") {
		g.t.Error("a private key is in the log")
	}
}

// until polls the gateway, another process, until ok returns true.
func (g *gateway) until(what string, ok func() bool) {
	g.t.Helper()
	timeout := time.After(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-g.exited:
			g.t.Fatalf("waiting until %s: the gateway ended", what)
		case <-timeout:
			g.t.Fatalf("waiting until %s: it did not happen", what)
		}
	}
}

// find returns the log lines with a message that begins with text.
func (g *gateway) find(text string) []map[string]any {
	var found []map[string]any
	for line := range strings.Lines(g.log.String()) {
		var fields map[string]any
		if json.Unmarshal([]byte(line), &fields) == nil && strings.HasPrefix(fmt.Sprint(fields["msg"]), text) {
			found = append(found, fields)
		}
	}
	return found
}

func (g *gateway) field(message, name string) string {
	g.t.Helper()
	var value string
	g.until("the log says "+message, func() bool {
		for _, line := range g.find(message) {
			value = fmt.Sprint(line[name])
		}
		return value != ""
	})
	return value
}

// metric returns the value of a series.
func (g *gateway) metric(series string) float64 {
	g.t.Helper()
	resp, err := http.Get(g.admin + "/metrics")
	if err != nil {
		g.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		g.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			number, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				g.t.Fatal(err)
			}
			return number
		}
	}
	g.t.Fatalf("there is no series %s", series)
	return 0
}

func expiry(host string) string {
	return fmt.Sprintf("hookonce_tls_certificate_expiry_timestamp_seconds{host=%q}", host)
}

func failures(host string) string {
	return fmt.Sprintf("hookonce_tls_certificate_failures_total{host=%q}", host)
}

// dial makes a handshake for a host through the door. It checks the certificate at the given time; zero
// means now.
func (a *authority) dial(host string, at time.Time) (*tls.Conn, error) {
	return tls.Dial("tcp", a.door.ln.Addr().String(), &tls.Config{
		ServerName: host, RootCAs: a.roots, Time: func() time.Time {
			if at.IsZero() {
				return time.Now()
			}
			return at
		},
	})
}

// serial returns the serial number of the certificate that a sender sees.
func (a *authority) serial(host string) (string, error) {
	conn, err := a.dial(host, time.Time{})
	if err != nil {
		return "", err
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.String(), nil
}

// deliver delivers an event to a host through the door, and returns the status.
func (a *authority) deliver(host, id string) (int, error) {
	conn, err := a.dial(host, time.Time{})
	if err != nil {
		return 0, err
	}
	transport := &http.Transport{DialTLSContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil }}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: patience}
	resp, err := client.Post("https://"+host+"/webhooks/lab", "application/json", strings.NewReader(fmt.Sprintf(`{"id":%q}`, id)))
	if err != nil {
		return 0, err
	}
	resp.Body.Close()
	return resp.StatusCode, nil
}
