//go:build !linux

package app

import "os"

// Only Linux has locks on the database itself that are none of SQLite's. Elsewhere the lock file alone counts, as
// docs/deploying.md says.

func holdFile(*os.File) error { return nil }

func isHeld(string) bool { return false }
