//go:build unix && !linux

package dbtest

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// dieWithParent does nothing here: only Linux binds a child to its parent.
func dieWithParent(*syscall.SysProcAttr, syscall.Signal) {}

// processes returns the fields "pid parent state" of every process.
func processes() ([][]string, error) {
	out, err := exec.Command("ps", "-A", "-o", "pid=,ppid=,stat=").Output()
	if err != nil {
		return nil, fmt.Errorf("ps: %w", err)
	}
	var all [][]string
	for line := range strings.Lines(string(out)) {
		if fields := strings.Fields(line); len(fields) == 3 {
			all = append(all, fields)
		}
	}
	return all, nil
}

// alive reports whether a process is running or stopped. A zombie is not alive.
func alive(pid int) bool {
	state, err := stateOf(pid)
	if err != nil {
		return syscall.Kill(pid, 0) == nil
	}
	return state != "" && !strings.HasPrefix(state, "Z")
}

// stopped reports whether a signal has stopped a process.
func stopped(pid int) bool {
	state, err := stateOf(pid)
	return err == nil && strings.HasPrefix(state, "T")
}

// stateOf returns the state of a process as ps shows it; "" if there is none.
func stateOf(pid int) (string, error) {
	all, err := processes()
	for _, fields := range all {
		if fields[0] == strconv.Itoa(pid) {
			return fields[2], err
		}
	}
	return "", err
}

// children returns the children of a process.
func children(pid int) ([]int, error) {
	all, err := processes()
	if err != nil {
		return nil, err
	}
	var found []int
	for _, fields := range all {
		if fields[1] != strconv.Itoa(pid) {
			continue
		}
		child, err := strconv.Atoi(fields[0])
		if err != nil {
			return nil, fmt.Errorf("ps: %w", err)
		}
		found = append(found, child)
	}
	return found, nil
}

// baseFolder returns the folder for servers.
func baseFolder() string { return os.TempDir() }

// removeSharedMemory removes the System V segment of a killed server.
func removeSharedMemory(id int) error {
	if out, err := exec.Command("ipcrm", "-m", strconv.Itoa(id)).CombinedOutput(); err != nil {
		return fmt.Errorf("ipcrm -m %d: %w: %s", id, err, out)
	}
	return nil
}
