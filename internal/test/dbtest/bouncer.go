package dbtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce/internal/test/eventually"
)

// BouncerOptions configure a PgBouncer. All other settings are PgBouncer's defaults.
type BouncerOptions struct {
	Mode     string   // pool_mode: session or transaction
	PoolSize int      // default_pool_size; defaults to PgBouncer's 20
	OnServer string   // a statement that each new connection to the server runs first
	Config   []string // further settings, as "name = value"
}

// Bouncer is a PgBouncer in front of a server.
type Bouncer struct {
	folder string
	dsn    *url.URL // of the server
	port   int

	cmd    *exec.Cmd
	exited chan struct{} // closed when the process has ended
}

// StartBouncer starts a PgBouncer in front of the server of a DSN, which is a URL. On Debian and
// Ubuntu, as root, it first installs PgBouncer if it is missing. It ends with the test.
func StartBouncer(t testing.TB, dsn string, opts BouncerOptions) *Bouncer {
	t.Helper()
	Need(t, "pooler", func() error { _, err := bouncerProgram(); return err }, "pgbouncer")
	b, err := startBouncer(dsn, opts)
	if err != nil {
		t.Fatalf("dbtest: %v", err)
	}
	t.Cleanup(b.destroy)
	return b
}

// DSN returns the URL of the same database through PgBouncer.
func (b *Bouncer) DSN() string {
	u := *b.dsn
	u.Host = net.JoinHostPort("127.0.0.1", strconv.Itoa(b.port))
	return u.String()
}

// bouncerProgram returns the path of PgBouncer. Distributions install it where the PATH of an
// ordinary user does not lead.
func bouncerProgram() (string, error) {
	for _, name := range []string{"pgbouncer", "/usr/sbin/pgbouncer", "/usr/local/sbin/pgbouncer"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("PgBouncer was not found on the PATH or in the usual folders: " +
		"install it (apt-get install pgbouncer, dnf install pgbouncer, brew install pgbouncer)")
}

func startBouncer(dsn string, opts BouncerOptions) (*Bouncer, error) {
	server, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(dsn)
	if err != nil {
		return nil, err
	}
	u.RawQuery = "sslmode=disable"
	owner, err := Unprivileged()
	if err != nil {
		return nil, err
	}
	b := &Bouncer{dsn: u}
	if b.folder, err = os.MkdirTemp("", "hookonce-bouncer-"); err != nil {
		return nil, err
	}
	for range 5 {
		if b.port, err = freePort(); err != nil {
			break
		}
		if err = b.launch(server, owner, opts); err == nil {
			return b, nil
		}
	}
	return nil, errors.Join(err, os.RemoveAll(b.folder))
}

// launch writes the files of PgBouncer, starts it, and waits until it accepts connections.
func (b *Bouncer) launch(server *pgx.ConnConfig, owner *Credential, opts BouncerOptions) error {
	onServer := ""
	if opts.OnServer != "" {
		onServer = " connect_query='" + strings.ReplaceAll(opts.OnServer, "'", "''") + "'"
	}
	users, settings := filepath.Join(b.folder, "users"), filepath.Join(b.folder, "settings")
	lines := []string{
		"[databases]",
		fmt.Sprintf("%s = host=%s port=%d%s", server.Database, server.Host, server.Port, onServer),
		"[pgbouncer]",
		"listen_addr = 127.0.0.1",
		fmt.Sprintf("listen_port = %d", b.port),
		"unix_socket_dir =",
		"auth_type = plain", // users of this machine reach the port
		"auth_file = " + users,
		"pool_mode = " + opts.Mode,
	}
	if opts.PoolSize > 0 {
		lines = append(lines, fmt.Sprintf("default_pool_size = %d", opts.PoolSize))
	}
	lines = append(lines, opts.Config...)
	for path, text := range map[string]string{
		users:    fmt.Sprintf("%q %q\n", server.User, server.Password),
		settings: strings.Join(lines, "\n") + "\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return err
		}
	}
	if owner != nil {
		for _, path := range []string{b.folder, users, settings} {
			if err := os.Chown(path, int(owner.Uid), int(owner.Gid)); err != nil {
				return err
			}
		}
	}
	program, err := bouncerProgram()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(b.folder, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close() // the child has a copy
	b.cmd = exec.Command(program, settings)
	b.cmd.Dir = b.folder
	b.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"}
	b.cmd.Stdout, b.cmd.Stderr = log, log
	b.cmd.SysProcAttr = ownGroup(owner)
	dieWithParent(b.cmd.SysProcAttr, syscall.SIGQUIT)
	if err := startChild(b.cmd); err != nil {
		return err
	}
	b.exited = make(chan struct{})
	go func(cmd *exec.Cmd, exited chan struct{}) {
		_ = cmd.Wait() // the log tells how it ended
		close(exited)
	}(b.cmd, b.exited)
	return b.waitReady()
}

// waitReady waits until PgBouncer passes connections on.
func (b *Bouncer) waitReady() error {
	ctx, cancel := context.WithTimeout(context.Background(), eventually.Bound)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, b.DSN())
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-b.exited:
			return fmt.Errorf("pgbouncer ended while it was starting; its log ends with:\n%s", b.Log())
		case <-ctx.Done():
			b.kill()
			return fmt.Errorf("pgbouncer does not accept connections: %w; its log ends with:\n%s", err, b.Log())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Log returns the end of PgBouncer's log, or the error of reading it.
func (b *Bouncer) Log() string {
	text, err := os.ReadFile(filepath.Join(b.folder, "log"))
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-8<<10):])
}

func (b *Bouncer) kill() {
	_ = b.cmd.Process.Kill() // it may have ended
	<-b.exited
}

func (b *Bouncer) destroy() {
	b.kill()
	_ = os.RemoveAll(b.folder)
}
