//go:build !unix

package app

// refuseHardLinks knows Unix only; elsewhere every file passes for one with a
// single name.
func refuseHardLinks(string) error { return nil }
