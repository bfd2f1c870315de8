package dbtest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// dieWithParent makes the system send a signal to the child when this process ends for any reason.
func dieWithParent(attr *syscall.SysProcAttr, signal syscall.Signal) { attr.Pdeathsig = signal }

// stat returns the state and the parent of a process.
func stat(pid int) (state byte, parent int, ok bool) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, 0, false
	}
	// The name is in parentheses and may contain any characters.
	_, rest, found := bytes.Cut(text[bytes.LastIndexByte(text, ')')+1:], []byte(" "))
	if !found {
		return 0, 0, false
	}
	if n, err := fmt.Sscanf(string(rest), "%c %d", &state, &parent); n != 2 || err != nil {
		return 0, 0, false
	}
	return state, parent, true
}

// alive reports whether a process is running or stopped. A zombie is not alive.
func alive(pid int) bool {
	state, _, ok := stat(pid)
	return ok && state != 'Z' && state != 'X'
}

// stopped reports whether a signal has stopped a process.
func stopped(pid int) bool {
	state, _, ok := stat(pid)
	return ok && state == 'T'
}

// children returns the children of a process.
func children(pid int) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var found []int
	for _, entry := range entries {
		child, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if _, parent, ok := stat(child); ok && parent == pid {
			found = append(found, child)
		}
	}
	return found, nil
}

// baseFolder returns the folder for servers: one in memory if it is big enough, because a commit
// there needs no disk write.
func baseFolder() string {
	const inMemory, enough = "/dev/shm", 1 << 30
	var fs syscall.Statfs_t
	if err := syscall.Statfs(inMemory, &fs); err == nil && fs.Bavail*uint64(fs.Bsize) >= enough {
		if probe, err := os.MkdirTemp(inMemory, prefix); err == nil {
			_ = os.Remove(probe)
			return inMemory
		}
	}
	return os.TempDir()
}

// removeSharedMemory removes the System V segment of a killed server.
func removeSharedMemory(id int) error {
	const ipcRmid = 0
	_, _, errno := syscall.Syscall(syscall.SYS_SHMCTL, uintptr(id), ipcRmid, 0)
	if errno != 0 && errno != syscall.EINVAL && errno != syscall.EIDRM {
		return fmt.Errorf("removing the shared memory segment %d: %w", id, errno)
	}
	return nil
}
