//go:build unix

package app

import (
	"fmt"
	"os"
	"syscall"
)

// refuseHardLinks refuses a file with several names. SQLite finds the write-ahead log by the name
// of the database, and the gateway finds its lock the same way: under two names the file would have
// two logs and be corrupted.
func refuseHardLinks(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("opening the database: %w", err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.Mode().IsRegular() || stat.Nlink <= 1 {
		return nil
	}
	return Errorf("the database %s has %d names (hard links): using two of them would corrupt it", path, stat.Nlink).
		Try("remove the other names (find -xdev -samefile lists them), or use a copy of the file; " +
			"symbolic links are fine")
}
