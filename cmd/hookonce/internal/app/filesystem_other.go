//go:build !linux

package app

// fileSystemOf is implemented on Linux only. Elsewhere every file system counts as a local disk, as
// docs/deploying.md says.
func fileSystemOf(string) (fileSystem, error) { return fileSystem{}, nil }
