package dbtest

import (
	"errors"
	"os"
	"syscall"
)

// Tests start PostgreSQL on Unix alone, where they can freeze it. On Windows they build, and those on SQLite run.
var errWindows = errors.New("tests with PostgreSQL do not run on Windows")

// Credential is a user for the processes of servers.
type Credential struct{ Uid, Gid uint32 }

const (
	lockExclusive = 1 << iota
	lockShared
	lockNow

	sigStop = syscall.SIGKILL
	sigCont = syscall.SIGKILL
)

func ownGroup(*Credential) *syscall.SysProcAttr          { return new(syscall.SysProcAttr) }
func ownSession() *syscall.SysProcAttr                   { return new(syscall.SysProcAttr) }
func flock(*os.File, int) error                          { return errWindows }
func kill(int, syscall.Signal) error                     { return errWindows }
func dieWithParent(*syscall.SysProcAttr, syscall.Signal) {}
func alive(int) bool                                     { return false }
func stopped(int) bool                                   { return false }
func children(int) ([]int, error)                        { return nil, errWindows }
func baseFolder() string                                 { return os.TempDir() }
func removeSharedMemory(int) error                       { return errWindows }
