//go:build !unix

package app

// refuseHardLinks is implemented on Unix only. Elsewhere every file counts as having one name.
func refuseHardLinks(string) error { return nil }
