//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package send

import "syscall"

// canPeek reports whether this platform shows waiting bytes without reading them. Without that, no
// connection is used twice.
const canPeek = true

// peek looks at a socket without reading from it.
func peek(raw syscall.RawConn) state {
	found := quiet
	var b [1]byte
	err := raw.Control(func(fd uintptr) {
		for {
			n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
			switch {
			case err == syscall.EINTR:
				continue
			case err == syscall.EAGAIN:
			case err != nil || n == 0:
				found = ended
			default:
				found = spoke
			}
			return
		}
	})
	if err != nil {
		return ended
	}
	return found
}
