package dbtest

import (
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/hookonce/hookonce/internal/test/eventually"
)

// The test binaries of a run share one server. Each holds a shared lock on the file "users" for as long as it lives. The
// first one starts a keeper: its own program again, which starts the server and ends it once that lock is free.
// The system releases the locks of killed processes, so a kill leaves no server behind.
const (
	keeperVariable = "HOOKONCE_DBTEST_KEEPER" // set for a keeper: its folder
	keeperLinger   = 5 * time.Second          // go test may be compiling the next package
)

// keeperFolder is where the processes of one user meet that find the same version of PostgreSQL. A file of the same name
// with ".lock" guards its making and its end.
func keeperFolder() string {
	return filepath.Join(baseFolder(), fmt.Sprintf("hookonce-shared-%d-%x", os.Geteuid(), crc32.ChecksumIEEE([]byte(find()))))
}

// joinServer returns the DSN of the server that those share who name the same folder, and starts it if none runs. The
// server stays until leave is called or this process ends.
func joinServer(folder string) (dsn string, leave func(), err error) {
	open, err := lockFile(folder+".lock", lockExclusive)
	if err != nil {
		return "", nil, err
	}
	defer open()
	if unlock, err := lockFile(filepath.Join(folder, "keeper"), lockExclusive|lockNow); err == nil {
		unlock() // no keeper lives
		if err := os.RemoveAll(folder); err != nil {
			return "", nil, err
		}
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", nil, err
	}
	if leave, err = lockFile(filepath.Join(folder, "users"), lockShared); err != nil {
		return "", nil, err
	}
	text, err := os.ReadFile(dsnFile(folder))
	if errors.Is(err, os.ErrNotExist) {
		text, err = startKeeper(folder)
	}
	if err != nil {
		leave()
		return "", nil, err
	}
	return string(text), leave, nil
}

func dsnFile(folder string) string      { return filepath.Join(folder, "dsn") }
func templateFile(folder string) string { return filepath.Join(folder, "template") }
func failureFile(folder string) string  { return filepath.Join(folder, "failure") }

// startKeeper starts a keeper in a session of its own, and returns the DSN of its server.
func startKeeper(folder string) ([]byte, error) {
	if _, err := programs(); err != nil { // installs PostgreSQL where it can, and tells of it
		return nil, err
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), keeperVariable+"="+folder)
	cmd.SysProcAttr = ownSession()
	if err := cmd.Start(); err != nil { // without our outputs: go test would wait for their end
		return nil, err
	}
	_ = cmd.Process.Release() // it outlives this process
	for began := time.Now(); time.Since(began) < 2*eventually.Bound; time.Sleep(10 * time.Millisecond) {
		if text, err := os.ReadFile(dsnFile(folder)); err == nil {
			return text, nil
		}
		if text, err := os.ReadFile(failureFile(folder)); err == nil {
			return nil, errors.New(string(text))
		}
	}
	return nil, errors.New("the process that starts PostgreSQL told nothing")
}

// init makes this process a keeper if it was started as one.
func init() {
	folder := os.Getenv(keeperVariable)
	if folder == "" {
		return
	}
	if err := keep(folder); err != nil {
		_ = os.WriteFile(failureFile(folder), []byte(err.Error()), 0o600)
		os.Exit(1)
	}
	os.Exit(0)
}

// keep is the whole life of a keeper.
func keep(folder string) error {
	unlock, err := lockFile(filepath.Join(folder, "keeper"), lockExclusive)
	if err != nil {
		return err
	}
	defer unlock()
	first, err := makeTemplate()
	if err != nil {
		return err
	}
	return errors.Join(keepServer(folder, first.folder), first.destroy())
}

// keepServer starts a server from the files in template, and ends it with its last user.
func keepServer(folder, template string) error {
	if err := os.WriteFile(templateFile(folder), []byte(template), 0o600); err != nil {
		return err
	}
	s, err := start(&Options{}, template)
	if err != nil {
		return err
	}
	if err := os.WriteFile(dsnFile(folder)+".new", []byte(s.DSN()), 0o600); err != nil {
		return errors.Join(err, s.destroy())
	}
	if err := os.Rename(dsnFile(folder)+".new", dsnFile(folder)); err != nil {
		return errors.Join(err, s.destroy())
	}
	ended := make(chan error, 1)
	go func() { ended <- awaitEnd(folder) }()
	select {
	case err = <-ended:
	case <-s.exited: // by itself; tests that follow start another one
		err = os.RemoveAll(folder)
	}
	return errors.Join(err, s.destroy())
}

// makeTemplate makes the files of a server that never runs.
func makeTemplate() (*Server, error) {
	folder, err := programs()
	if err != nil {
		return nil, err
	}
	s := &Server{programs: folder, password: randomHex(16)}
	if err := s.makeFolder(baseFolder(), prefix); err != nil {
		return nil, err
	}
	if err = s.initialise(); err == nil {
		err = os.WriteFile(passwordFile(s.folder), []byte(s.password), 0o600)
	}
	if err != nil {
		return nil, errors.Join(err, s.destroy())
	}
	return s, nil
}

// awaitEnd returns when the folder has had no user for a while, and removes it, so that no process finds it any more.
func awaitEnd(folder string) error {
	users := filepath.Join(folder, "users")
	for {
		unlock, err := lockFile(users, lockExclusive)
		if err != nil {
			return err
		}
		unlock()
		time.Sleep(keeperLinger)
		open, err := lockFile(folder+".lock", lockExclusive)
		if err != nil {
			return err
		}
		unlock, err = lockFile(users, lockExclusive|lockNow)
		if err == nil {
			err = os.RemoveAll(folder)
			unlock()
			open()
			return err
		}
		open()
	}
}
