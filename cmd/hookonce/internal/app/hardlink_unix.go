//go:build unix

package app

import (
	"fmt"
	"os"
	"syscall"
)

// refuseHardLinks refuses a file that has more than one name. SQLite finds the
// log of a database by its name, and so does the lock of the gateway: under two
// names the file would have two logs, and be corrupted.
func refuseHardLinks(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("opening the database: %w", err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.Mode().IsRegular() || stat.Nlink <= 1 {
		return nil
	}
	return &Error{
		Err: fmt.Errorf("the database %s has %d names (hard links): used under two of them, it would be corrupted", path, stat.Nlink),
		Remedy: "remove the other names, which find -xdev -samefile lists, or use a copy of the file; " +
			"symbolic links are fine",
	}
}
