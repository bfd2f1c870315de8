//go:build !linux && !darwin && !freebsd && !netbsd && !openbsd && !dragonfly

package cli

import "golang.org/x/term"

// keyMode lets a terminal deliver each key at once, without showing it. It returns the function that
// undoes this.
func keyMode(fd int) (restore func(), err error) {
	before, err := term.MakeRaw(fd)
	if err != nil {
		return nil, err
	}
	return func() { _ = term.Restore(fd, before) }, nil
}
