package dbtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	prefix       = "hookonce-pg-"
	superuser    = "hookonce"
	startTimeout = time.Minute
	stopTimeout  = 30 * time.Second
)

// Options configure a private server.
type Options struct {
	// Config are settings as "name=value", as "fsync=off". The durability
	// settings are the server's defaults unless named here.
	Config []string
	// OnDisk puts the files where temporary files are. Otherwise they are in memory
	// where there is room, and an fsync costs nothing: tests are faster by it, and
	// measurements would be wrong.
	OnDisk bool
	// Env is more of the server's environment, as "NAME=value".
	Env []string
}

// Server is a PostgreSQL server in a folder of its own. Its methods are for one
// goroutine at a time.
type Server struct {
	programs, folder string
	owner            *syscall.Credential // nil: this process' own user
	unlock           func()              // of the folder's lock
	port             int
	password         string
	config, env      []string

	cmd    *exec.Cmd
	exited chan struct{} // closed when the server's first process has ended
}

// StartServer starts a server that only this test uses, and that the test may
// stop, freeze and kill. It is removed when the test ends.
func StartServer(t testing.TB, opts *Options) *Server {
	t.Helper()
	if opts == nil {
		opts = &Options{}
	}
	s, err := start(opts)
	if err != nil {
		t.Fatalf("dbtest: %v", err)
	}
	t.Cleanup(func() {
		if err := s.destroy(); err != nil {
			t.Errorf("dbtest: %v", err)
		}
	})
	return s
}

// DSN returns the URL of the server's database; it keeps its port over restarts.
func (s *Server) DSN() string {
	dsn := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(superuser, s.password),
		Host:     s.Addr(),
		Path:     "/postgres",
		RawQuery: "sslmode=disable",
	}
	return dsn.String()
}

// Addr returns the host and port that the server listens on.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// start makes a new server and starts it.
func start(opts *Options) (*Server, error) {
	folder, err := programs()
	if err != nil {
		return nil, err
	}
	s := &Server{programs: folder, password: randomHex(16), config: opts.Config, env: opts.Env}
	base := baseFolder()
	if opts.OnDisk {
		base = os.TempDir()
	}
	if err := s.makeFolder(base); err != nil {
		return nil, err
	}
	if err = s.initialise(); err == nil {
		err = s.launch()
	}
	if err != nil {
		return nil, errors.Join(err, s.destroy())
	}
	return s, nil
}

// makeFolder makes the server's folder in base, locked as long as this process lives,
// and removes those of processes that were killed.
func (s *Server) makeFolder(base string) error {
	stale, err := filepath.Glob(filepath.Join(base, prefix+"*"))
	if err != nil {
		return err
	}
	for _, folder := range stale {
		if unlock, err := lockFile(filepath.Join(folder, "lock"), false); err == nil {
			_ = os.RemoveAll(folder) // another process may be at it too
			unlock()
		}
	}
	if s.owner, err = unprivileged(); err != nil {
		return err
	}
	// A process that cleans up may take a folder that is not locked yet.
	for range 10 {
		if s.folder, err = os.MkdirTemp(base, prefix); err != nil {
			return err
		}
		if s.unlock, err = lockFile(filepath.Join(s.folder, "lock"), false); err == nil {
			break
		}
	}
	if err != nil {
		return err
	}
	if s.owner != nil {
		return os.Chown(s.folder, int(s.owner.Uid), int(s.owner.Gid))
	}
	return nil
}

// unprivileged returns the user to run a server as: PostgreSQL refuses root.
// It returns nil for this process' own user.
func unprivileged() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errUID := strconv.ParseUint(u.Uid, 10, 32)
		gid, errGID := strconv.ParseUint(u.Gid, 10, 32)
		if errUID == nil && errGID == nil {
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
		}
	}
	return nil, errors.New("PostgreSQL refuses to run as root, and there is no user postgres or nobody to run it as")
}

func (s *Server) data() string { return filepath.Join(s.folder, "data") }

func (s *Server) command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.programs, program), args...)
	cmd.Dir = s.folder
	// Nothing of the environment, least of all PG* variables, but the PATH.
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"}, s.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.owner, Setpgid: true}
	dieWithParent(cmd.SysProcAttr)
	return cmd
}

// initialise creates the server's files.
func (s *Server) initialise() error {
	passwordFile := filepath.Join(s.folder, "password")
	if err := os.WriteFile(passwordFile, []byte(s.password), 0o600); err != nil {
		return err
	}
	if s.owner != nil {
		if err := os.Chown(passwordFile, int(s.owner.Uid), int(s.owner.Gid)); err != nil {
			return err
		}
	}
	// With a password, because other users of the machine reach the port too.
	// Small segments, because most servers see few writes.
	cmd := s.command("initdb", "--pgdata="+s.data(), "--username="+superuser, "--pwfile="+passwordFile,
		"--auth=password", "--encoding=UTF8", "--locale=C", "--no-sync", "--wal-segsize=4")
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	err := startChild(cmd)
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out.String())
	}
	return os.Remove(passwordFile)
}

// launch starts the server on its port, or on a free one where it has none.
func (s *Server) launch() error {
	var err error
	for range 5 {
		port := s.port
		if port == 0 {
			if port, err = freePort(); err != nil {
				return err
			}
		}
		if err = s.launchOn(port); err == nil {
			s.port = port
			return nil
		}
	}
	return err
}

func (s *Server) launchOn(port int) error {
	args := []string{"-D", s.data(), "-p", strconv.Itoa(port)}
	for _, setting := range append([]string{
		"listen_addresses=127.0.0.1",
		"unix_socket_directories=",        // one way in is enough
		"dynamic_shared_memory_type=mmap", // files in the data folder, gone with it
		"shared_buffers=64MB",
		"max_connections=200",
		"min_wal_size=16MB",
		"max_wal_size=256MB",
		"log_min_messages=warning",
	}, s.config...) {
		args = append(args, "-c", setting)
	}
	s.cmd = s.command("postgres", args...)
	log, err := os.OpenFile(s.logPath(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close() // the child has its own
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if err := startChild(s.cmd); err != nil {
		s.cmd = nil
		return err
	}
	s.exited = make(chan struct{})
	go func(cmd *exec.Cmd, exited chan struct{}) {
		_ = cmd.Wait() // how it ended is in its log
		close(exited)
	}(s.cmd, s.exited)
	return s.waitReady(port)
}

// waitReady waits until the server takes connections.
func (s *Server) waitReady(port int) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	probe := *s
	probe.port = port
	for {
		conn, err := pgx.Connect(ctx, probe.DSN())
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-s.exited:
			return fmt.Errorf("postgres ended while it was starting; its log ends with:\n%s", s.Log())
		case <-ctx.Done():
			return fmt.Errorf("postgres does not take connections: %w; its log ends with:\n%s", err, s.Log())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func freePort() (int, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func (s *Server) logPath() string { return filepath.Join(s.folder, "log") }

// Log returns the end of the server's log.
func (s *Server) Log() string {
	const most = 8 << 10
	text, err := os.ReadFile(s.logPath())
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-most):])
}

// destroy stops the server, if it runs, and removes all that it left.
func (s *Server) destroy() error {
	var failed []error
	if s.cmd != nil {
		failed = append(failed, s.end(syscall.SIGQUIT))
	}
	failed = append(failed, s.removeSharedMemory(), os.RemoveAll(s.folder))
	s.unlock()
	return errors.Join(failed...)
}

// removeSharedMemory removes the segment of a server that was killed. A server
// that ended by itself has removed its file with the number.
func (s *Server) removeSharedMemory() error {
	text, err := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
	if err != nil {
		return nil
	}
	lines := strings.Split(string(text), "\n")
	const segmentLine = 6 // key and number of the segment
	if len(lines) <= segmentLine {
		return nil
	}
	fields := strings.Fields(lines[segmentLine])
	if len(fields) != 2 {
		return nil
	}
	id, err := strconv.Atoi(fields[1])
	if err != nil {
		return fmt.Errorf("postmaster.pid: %w", err)
	}
	return removeSharedMemory(id)
}
