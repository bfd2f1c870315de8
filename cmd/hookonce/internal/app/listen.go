package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Limits of both listeners.
const (
	readHeaderTimeout = 5 * time.Second
	idleTimeout       = 60 * time.Second
	maxHeaderBytes    = 12 << 10 // net/http adds 4 KiB of its own
	// publicWriteTimeout is a backstop only: the inbox sets its own deadlines,
	// for the body when it begins to read and for the answer when it begins to
	// write, and they end long before.
	publicWriteTimeout = 2 * time.Minute
	// The API is for people and probes: small requests, and answers of at
	// most one page of events or one body. What takes longer, a bulk replay,
	// sets its own deadline for the answer.
	adminReadTimeout  = 10 * time.Second
	adminWriteTimeout = 60 * time.Second
)

// listener is an HTTP server with the address it listens on.
type listener struct {
	net.Listener
	server *http.Server
}

// listen opens the public or the admin listener. setting names it in errors.
func listen(ctx context.Context, setting, addr string, server *http.Server, log *slog.Logger) (*listener, error) {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, &Error{
			Err:    fmt.Errorf("%s: %w", setting, err),
			Remedy: fmt.Sprintf("free that address, or choose another with the setting %s", setting),
		}
	}
	server.ReadHeaderTimeout = readHeaderTimeout
	server.IdleTimeout = idleTimeout
	server.MaxHeaderBytes = maxHeaderBytes
	// What net/http reports here is the doing of clients: broken handshakes
	// and framing, superfluous answers. It must not fill the log.
	server.ErrorLog = slog.NewLogLogger(log.With("listener", setting).Handler(), slog.LevelDebug)
	return &listener{ln, server}, nil
}

// publicServer returns the server of /webhooks/. The inbox is its root handler:
// http.ServeMux would redirect "//webhooks/x", and senders count that as a failure.
func publicServer(inbox http.Handler) *http.Server {
	return &http.Server{Handler: inbox, WriteTimeout: publicWriteTimeout}
}

// adminServer returns the server of the admin API and the dashboard. Requests that are open when
// it is shut down are told so by their context, instead of holding up the stop:
// a bulk replay ends, with the chunk that it is at, and answers how far it came;
// a listing is broken off and answered 503.
func adminServer(admin http.Handler) *http.Server {
	serving, stop := context.WithCancel(context.Background())
	s := &http.Server{
		Handler:      admin,
		ReadTimeout:  adminReadTimeout,
		WriteTimeout: adminWriteTimeout,
		BaseContext:  func(net.Listener) context.Context { return serving },
	}
	s.RegisterOnShutdown(stop)
	return s
}

// serve answers until the server is shut down or closed.
func (l *listener) serve() error {
	if err := l.server.Serve(l.Listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving on %s: %w", l.Addr(), err)
	}
	return nil
}

// shutdown refuses new connections and lets the requests that are open be
// answered. It may be called again to wait longer for them.
func (l *listener) shutdown(ctx context.Context) error {
	if err := l.server.Shutdown(ctx); err != nil {
		return fmt.Errorf("requests on %s were still open: %w", l.Addr(), err)
	}
	return nil
}

// cut closes the connections that are left.
func (l *listener) cut() { _ = l.server.Close() } // its error would be of sockets that nobody needs any more

// isLoopback reports whether ln accepts connections from this machine only.
func isLoopback(ln net.Listener) bool {
	addr, ok := ln.Addr().(*net.TCPAddr)
	return ok && addr.IP.IsLoopback()
}
