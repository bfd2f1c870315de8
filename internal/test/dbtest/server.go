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
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce/internal/test/eventually"
)

const (
	prefix    = "hookonce-pg-"
	superuser = "hookonce"
)

// Options configure a private server.
type Options struct {
	// Config are settings as "name=value", for example "fsync=off". The settings of durability are
	// the server's defaults unless they are named here.
	Config []string
	// OnDisk puts the files into the folder for temporary files. Otherwise they are in memory if
	// there is room. An fsync then costs nothing: tests are faster, but measurements would be
	// wrong.
	OnDisk bool
	// Folder is where the files are, instead of either.
	Folder string
	// Stranger gives the server a system identifier of its own. Otherwise it has that of the others, as a standby has.
	Stranger bool
	// Migrated gives the server hookonce's tables, in the schema "hookonce".
	Migrated bool
	// Env adds to the server's environment, as "NAME=value".
	Env []string
}

// Server is a PostgreSQL server in a folder of its own. Its methods are for one
// goroutine at a time.
type Server struct {
	programs, folder string
	owner            *Credential // nil: the user of this process
	unlock           func()      // releases the folder's lock
	port             int
	password         string
	config, env      []string

	cmd    *exec.Cmd
	exited chan struct{} // closed when the server's first process has ended
}

// StartServer starts a server that belongs to this test alone, which may stop, freeze and kill it.
// The server is removed when the test ends.
func StartServer(t testing.TB, opts *Options) *Server {
	t.Helper()
	if opts == nil {
		opts = &Options{}
	}
	from := ""
	if !opts.Stranger {
		from = template()
	}
	copied := opts.Migrated && from != ""
	if copied {
		var err error
		if from, err = migratedFolder(from); err != nil {
			t.Fatalf("dbtest: making a server with tables: %v", err)
		}
	}
	s, err := start(opts, from)
	if err != nil {
		t.Fatalf("dbtest: %v", err)
	}
	t.Cleanup(func() {
		if err := s.destroy(); err != nil {
			t.Errorf("dbtest: %v", err)
		}
	})
	if opts.Migrated && !copied {
		if err := s.migrate(); err != nil {
			t.Fatalf("dbtest: making tables: %v", err)
		}
	}
	return s
}

// DSN returns the URL of the server's database. The port stays the same over restarts.
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

// start makes a new server and starts it. Its files are a copy of those of a new server in the folder template, or made
// anew if that is "".
func start(opts *Options, template string) (*Server, error) {
	folder, err := programs()
	if err != nil {
		return nil, err
	}
	s := &Server{programs: folder, password: randomHex(16), config: opts.Config, env: opts.Env}
	base := baseFolder()
	if opts.OnDisk {
		base = os.TempDir()
	}
	if opts.Folder != "" {
		base = opts.Folder
	}
	if err := s.makeFolder(base, prefix); err != nil {
		return nil, err
	}
	if template == "" {
		err = s.initialise()
	} else {
		err = s.copyFrom(template)
	}
	if err == nil {
		err = s.launch()
	}
	if err != nil {
		return nil, errors.Join(err, s.destroy())
	}
	return s, nil
}

// makeFolder makes the server's folder in base, locks it for the life of this process, and removes
// the folders of killed processes.
func (s *Server) makeFolder(base, prefix string) error {
	stale, err := filepath.Glob(filepath.Join(base, prefix+"*"))
	if err != nil {
		return err
	}
	for _, folder := range stale {
		if unlock, err := lockFile(filepath.Join(folder, "lock"), lockExclusive|lockNow); err == nil {
			_ = os.RemoveAll(folder) // another process may be removing it too
			unlock()
		}
	}
	if s.owner, err = Unprivileged(); err != nil {
		return err
	}
	// Another process may remove the folder before it is locked.
	for range 10 {
		if s.folder, err = os.MkdirTemp(base, prefix); err != nil {
			return err
		}
		lock := filepath.Join(s.folder, "lock")
		if s.unlock, err = lockFile(lock, lockExclusive|lockNow); err != nil {
			continue
		}
		if _, err = os.Stat(lock); err == nil {
			break
		}
		s.unlock() // it was removed after it was opened here
	}
	if err != nil {
		return err
	}
	if s.owner != nil {
		return os.Chown(s.folder, int(s.owner.Uid), int(s.owner.Gid))
	}
	return nil
}

// Folder returns a new folder, in memory if there is room, whose name begins with prefix. Any user may pass
// through it. It is removed when the test ends, and by a later test if this process is killed.
func Folder(t testing.TB, prefix string) string {
	t.Helper()
	s := &Server{}
	if err := s.makeFolder(baseFolder(), prefix); err != nil {
		t.Fatalf("dbtest: %v", err)
	}
	t.Cleanup(func() {
		_ = os.RemoveAll(s.folder)
		s.unlock()
	})
	if err := os.Chmod(s.folder, 0o755); err != nil {
		t.Fatalf("dbtest: %v", err)
	}
	return s.folder
}

// Unprivileged returns the user for the server, because PostgreSQL refuses root; nil stands for the
// user of this process.
func Unprivileged() (*Credential, error) {
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
			return &Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
		}
	}
	return nil, errors.New("PostgreSQL refuses to run as root, and there is no user postgres or nobody to run it as")
}

func (s *Server) data() string { return filepath.Join(s.folder, "data") }

func (s *Server) command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.programs, program), args...)
	cmd.Dir = s.folder
	// Only the PATH is inherited, so no PG* variable is.
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"}, s.env...)
	cmd.SysProcAttr = ownGroup(s.owner)
	// PostgreSQL takes SIGQUIT as an immediate shutdown, which still removes its shared memory.
	dieWithParent(cmd.SysProcAttr, syscall.SIGQUIT)
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
	// A password, because other users of the machine can reach the port. Small segments, because
	// most servers see few writes.
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

// copyFrom copies the files and the password of a server that does not run: initdb takes a second.
func (s *Server) copyFrom(template string) error {
	password, err := os.ReadFile(passwordFile(template))
	if err != nil {
		return err
	}
	s.password = string(password)
	return copyFiles(filepath.Join(template, "data"), s.data())
}

func passwordFile(template string) string { return filepath.Join(template, "superuser") }

// launch starts the server on its port, or on a free one the first time.
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
		"unix_socket_directories=",        // TCP is enough
		"dynamic_shared_memory_type=mmap", // files in the data folder, removed with it
		"shared_buffers=64MB",
		"max_connections=400",
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
	defer log.Close() // the child has a copy
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if err := startChild(s.cmd); err != nil {
		s.cmd = nil
		return err
	}
	s.exited = make(chan struct{})
	go func(cmd *exec.Cmd, exited chan struct{}) {
		_ = cmd.Wait() // the log tells how it ended
		close(exited)
	}(s.cmd, s.exited)
	return s.waitReady(port)
}

// waitReady waits until the server accepts connections.
func (s *Server) waitReady(port int) error {
	ctx, cancel := context.WithTimeout(context.Background(), eventually.Bound)
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
			return fmt.Errorf("postgres does not accept connections: %w; its log ends with:\n%s", err, s.Log())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// FreeAddress returns an address of loopback that no program listens on, for programs that cannot report
// the address they got. Another program may take it; the test then fails.
func FreeAddress(t testing.TB) string {
	t.Helper()
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

// given are the ports that freePort has returned. The system may give a port again before a program listens there.
var given sync.Map

func freePort() (int, error) {
	for {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			return 0, err
		}
		port := l.Addr().(*net.TCPAddr).Port
		if _, again := given.LoadOrStore(port, true); !again {
			return port, l.Close()
		}
		defer l.Close() // after another one is found
	}
}

func (s *Server) logPath() string { return filepath.Join(s.folder, "log") }

// Log returns the end of the server's log, or the error of reading it.
func (s *Server) Log() string {
	const most = 8 << 10
	text, err := os.ReadFile(s.logPath())
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-most):])
}

// destroy stops the server, if it runs, and removes its files and shared memory.
func (s *Server) destroy() error {
	var failed []error
	if s.cmd != nil {
		failed = append(failed, s.end(syscall.SIGQUIT))
	}
	failed = append(failed, s.removeSharedMemory(), os.RemoveAll(s.folder))
	s.unlock()
	return errors.Join(failed...)
}

// removeSharedMemory removes the segment of a killed server. A server that stops by itself removes
// its file with the segment's number.
func (s *Server) removeSharedMemory() error {
	text, err := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
	if err != nil {
		return nil
	}
	lines := strings.Split(string(text), "\n")
	const segmentLine = 6 // the segment's key and number
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

// Together returns a DSN with two hosts: the first server, then the second, which gets the password
// of the first.
func Together(t testing.TB, first, second *Server) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), second.DSN())
	if err != nil {
		t.Fatalf("dbtest: %v", err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), "ALTER ROLE CURRENT_USER PASSWORD '"+first.password+"'"); err != nil {
		t.Fatalf("dbtest: %v", err)
	}
	second.password = first.password
	return strings.Replace(first.DSN(), first.Addr(), first.Addr()+","+second.Addr(), 1)
}

// Fence makes the server refuse writes, as an operator does before a switchover. Sessions notice it
// one after another.
func (s *Server) Fence(t testing.TB) {
	t.Helper()
	s.configure(t, "ALTER SYSTEM SET default_transaction_read_only = on")
}

// Unfence ends Fence.
func (s *Server) Unfence(t testing.TB) {
	t.Helper()
	s.configure(t, "SET default_transaction_read_only = off", "ALTER SYSTEM RESET default_transaction_read_only")
}

// configure runs statements, and has all sessions read the settings again.
func (s *Server) configure(t testing.TB, statements ...string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.DSN())
	if err != nil {
		t.Fatalf("dbtest: %v", err)
	}
	defer conn.Close(t.Context())
	for _, sql := range append(statements, "SELECT pg_reload_conf()") {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("dbtest: %v", err)
		}
	}
}
