//go:build !linux

package app

// sharedFileSystem knows Linux only; elsewhere every file system passes for a
// local one, and docs/deploying.md says so.
func sharedFileSystem(string) (string, error) { return "", nil }
