package hookpgx

import (
	"fmt"
	"net"
	"syscall"
	"time"
)

// tcpUserTimeout is the socket option TCP_USER_TIMEOUT of tcp(7). Package syscall has no name for
// it.
const tcpUserTimeout = 0x12

// setPeerTimeout bounds how long sent bytes may stay unacknowledged.
func setPeerTimeout(conn *net.TCPConn, d time.Duration) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) {
		failed = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(d.Milliseconds()))
	}); err != nil {
		return err
	}
	if failed != nil {
		return fmt.Errorf("setting TCP_USER_TIMEOUT: %w", failed)
	}
	return nil
}
