package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"
)

// Limits of both listeners.
const (
	readHeaderTimeout = 5 * time.Second
	// A balancer that sends a request just when the server closes the connection answers 502, and not
	// every sender tries again. So the balancer must close first: Cloudflare does after 900 s.
	idleTimeout    = 920 * time.Second
	maxIdle        = 2000     // connections without a request, of 10 to 20 KiB each
	maxHeaderBytes = 12 << 10 // net/http adds 4 KiB of its own
	// publicWriteTimeout is a backstop. The engine sets its own, much shorter deadlines: for the
	// body when it begins to read, and for the answer when it begins to write.
	publicWriteTimeout = 2 * time.Minute
	// The API serves people and probes: requests are small, and an answer is at most one page of
	// events or one body. A bulk replay takes longer, and sets its own deadline for the answer.
	adminReadTimeout  = 10 * time.Second
	adminWriteTimeout = 60 * time.Second
)

// listener is an HTTP server with the address it listens on.
type listener struct {
	net.Listener
	server *http.Server
}

// lean makes the connections of l cheap, for requests that no client cancels by hanging up.
func (l *listener) lean() { l.Listener = leanListener{l.Listener} }

// listen opens the public or the admin listener. setting is its name in errors.
func listen(ctx context.Context, setting, addr string, server *http.Server, log *slog.Logger) (*listener, error) {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, Errorf("%s: %s: %w", setting, addr, plainly(err)).
			Try(fmt.Sprintf("free that address, or choose another with the setting %s", setting))
	}
	server.ReadHeaderTimeout = readHeaderTimeout
	server.IdleTimeout = idleTimeout
	server.ConnState = (&idleConns{most: maxIdle}).track
	server.MaxHeaderBytes = maxHeaderBytes
	// net/http reports faults of clients here: broken handshakes and framing, superfluous answers.
	// They must not fill the log.
	server.ErrorLog = slog.NewLogLogger(log.With("listener", setting).Handler(), slog.LevelDebug)
	return &listener{ln, server}, nil
}

// plainly leaves out the parts of an error that repeat the address.
func plainly(err error) error {
	if call, is := errors.AsType[*os.SyscallError](err); is {
		return call.Err
	}
	return err
}

// publicServer returns the server of /webhooks/. The engine is its root handler: http.ServeMux
// would redirect "//webhooks/x", and senders count a redirect as a failure.
func publicServer(engine http.Handler) *http.Server {
	return &http.Server{Handler: engine, WriteTimeout: publicWriteTimeout}
}

// adminServer returns the server of the admin API and the dashboard. A shutdown cancels the
// contexts of open requests, so that they do not delay the stop: a bulk replay ends after its
// current chunk and answers how far it came; a listing is aborted and answered 503.
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
	serve := l.server.Serve
	if l.server.TLSConfig != nil {
		serve = func(ln net.Listener) error { return l.server.ServeTLS(plainListener{ln}, "", "") }
	}
	if err := serve(l.Listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving on %s: %w", l.Addr(), err)
	}
	return nil
}

// shutdown refuses new connections and waits until the open requests are answered. It may be called
// again to wait longer.
func (l *listener) shutdown(ctx context.Context) error {
	if err := l.server.Shutdown(ctx); err != nil {
		return fmt.Errorf("requests on %s were still open: %w", l.Addr(), err)
	}
	return nil
}

// cut closes the remaining connections.
func (l *listener) cut() { _ = l.server.Close() } // an error would concern unused sockets

// localURL returns an address of ln for programs on this machine.
func localURL(ln net.Listener) string { return "http://" + net.JoinHostPort(localAddress(ln)) }

// localAddress returns a host and the port of ln for programs on this machine.
func localAddress(ln net.Listener) (host, port string) {
	host, port, _ = net.SplitHostPort(ln.Addr().String()) // listeners of this program are of TCP
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return host, port
}
