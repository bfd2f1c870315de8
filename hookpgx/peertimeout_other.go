//go:build !linux

package hookpgx

import (
	"net"
	"time"
)

// setPeerTimeout does nothing here; keep-alive and deadlines remain.
func setPeerTimeout(*net.TCPConn, time.Duration) error { return nil }
