package dbtest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/hookonce/hookonce/internal/test/eventually"
)

// pids returns all of the server's processes, its first one first.
func (s *Server) pids() ([]int, error) {
	if s.cmd == nil {
		return nil, errors.New("the server is not running")
	}
	first := s.cmd.Process.Pid
	rest, err := children(first)
	return append([]int{first}, rest...), err
}

// PIDs returns the ids of all of the server's processes, its first one first.
func (s *Server) PIDs(t testing.TB) []int {
	t.Helper()
	all, err := s.pids()
	if err != nil {
		t.Fatalf("dbtest: listing the server's processes: %v", err)
	}
	return all
}

// Kill kills all of the server's processes at once, as a crash does, and returns when they have
// ended.
func (s *Server) Kill(t testing.TB) {
	t.Helper()
	if err := s.end(syscall.SIGKILL); err != nil {
		t.Fatalf("dbtest: killing the server: %v", err)
	}
}

// Shutdown ends the server as an operator does: it cuts connections and writes out committed data.
func (s *Server) Shutdown(t testing.TB) {
	t.Helper()
	if err := s.end(syscall.SIGINT); err != nil {
		t.Fatalf("dbtest: stopping the server: %v", err)
	}
}

// end sends the signal and waits until all processes have ended. SIGKILL goes to every process,
// other signals to the first one.
func (s *Server) end(signal syscall.Signal) error {
	if s.cmd == nil {
		return nil
	}
	if signal == syscall.SIGKILL {
		if err := s.stopFirst(); err != nil {
			return err
		}
	}
	all, err := s.pids()
	if err != nil {
		return err
	}
	target := all
	if signal != syscall.SIGKILL {
		target = all[:1]
		// A frozen process ignores every other signal.
		if err := signalAll(all, sigCont); err != nil {
			return err
		}
	}
	if err := signalAll(target, signal); err != nil {
		return err
	}
	select {
	case <-s.exited:
	case <-time.After(eventually.Bound):
		if err := signalAll(all, syscall.SIGKILL); err != nil {
			return err
		}
		<-s.exited
		return fmt.Errorf("the server did not end within %v of signal %v; its log ends with:\n%s", eventually.Bound, signal, s.Log())
	}
	s.cmd = nil
	return waitGone(all)
}

// Stop freezes all of the server's processes: connections stay open without an answer.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	if err := s.stopFirst(); err != nil {
		t.Fatalf("dbtest: %v", err)
	}
	s.signal(t, sigStop)
}

// stopFirst stops the first process, so that it starts no new ones while they are listed. It may start one for a moment
// after the signal.
func (s *Server) stopFirst() error {
	if s.cmd == nil {
		return errors.New("the server is not running")
	}
	first := s.cmd.Process.Pid
	if err := signalAll([]int{first}, sigStop); err != nil {
		return err
	}
	return waitFor([]int{first}, "runs", func(pid int) bool { return stopped(pid) || !alive(pid) })
}

// Cont lets a frozen server continue.
func (s *Server) Cont(t testing.TB) {
	t.Helper()
	s.signal(t, sigCont)
}

func (s *Server) signal(t testing.TB, signal syscall.Signal) {
	t.Helper()
	all, err := s.pids()
	if err == nil {
		err = signalAll(all, signal)
	}
	if err != nil {
		t.Fatalf("dbtest: %v", err)
	}
}

// Restart starts a killed or stopped server again, on its old port, and adds settings to its own.
// It returns when the server accepts connections.
func (s *Server) Restart(t testing.TB, config ...string) {
	t.Helper()
	if s.cmd != nil {
		t.Fatal("dbtest: restart of a server that is running")
	}
	s.config = append(s.config, config...)
	if err := s.launch(); err != nil {
		t.Fatalf("dbtest: restarting the server: %v", err)
	}
}

// MakeStandby makes a stopped server a standby without a primary: after the next Restart it refuses
// writes.
func (s *Server) MakeStandby(t testing.TB) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.data(), "standby.signal"), nil, 0o644); err != nil {
		t.Fatalf("dbtest: %v", err)
	}
}
