//go:build !linux

package app

// sharedFileSystem is implemented on Linux only. Elsewhere every file system counts as local, as
// docs/deploying.md says.
func sharedFileSystem(string) (string, error) { return "", nil }
