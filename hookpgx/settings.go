package hookpgx

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	connectTimeout = 2 * time.Second
	pingTimeout    = time.Second
	// peerTimeout is how long sent bytes may stay unacknowledged by the peer's
	// system before a connection counts as lost.
	peerTimeout = 5 * time.Second
)

// commonSettings are those of every connection of the store's own pools. They
// override what the server, the database and the user have as defaults. That a
// server is read-only is not overridden: somebody took it out of service.
func commonSettings() map[string]string {
	return map[string]string{
		// Under a stricter level a batch with one key that is claimed
		// concurrently would fail whole.
		"default_transaction_isolation":       "read committed",
		"idle_in_transaction_session_timeout": "60000",
		// Plans of claims are cheap to run and large to look at: compiling
		// them would cost more than it saves.
		"jit": "off",
	}
}

func receiveSettings() map[string]string {
	s := commonSettings()
	s["application_name"] = "hookonce receive"
	s["statement_timeout"] = "2000"
	s["lock_timeout"] = "1000"
	// A batch is kept in memory, up to this many kilobytes, while it is sorted.
	s["work_mem"] = "32768"
	return s
}

func adminSettings() map[string]string {
	s := commonSettings()
	s["application_name"] = "hookonce admin"
	s["statement_timeout"] = "5000"
	s["lock_timeout"] = "2000"
	return s
}

// configure turns a copy of the caller's configuration into that of a pool of
// the store's own. Hooks that belong to the caller's use of a connection are
// left out; those that make a connection stay.
func configure(config *pgxpool.Config, conns int, settings map[string]string) {
	config.MaxConns = int32(conns)
	config.MinConns, config.MinIdleConns = 0, 0
	config.PingTimeout = pingTimeout
	config.BeforeAcquire, config.PrepareConn, config.AfterRelease, config.ShouldPing = nil, nil, nil, nil //nolint:staticcheck // deprecated, but it may be set

	c := config.ConnConfig
	if c.ConnectTimeout == 0 || c.ConnectTimeout > connectTimeout {
		c.ConnectTimeout = connectTimeout
	}
	if c.RuntimeParams == nil {
		c.RuntimeParams = map[string]string{}
	}
	maps.Copy(c.RuntimeParams, settings)

	validate := c.ValidateConnect
	c.ValidateConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		if validate != nil {
			if err := validate(ctx, conn); err != nil {
				return err
			}
		}
		// Of several hosts the next one is tried where this one is a standby.
		return pgconn.ValidateConnectTargetSessionAttrsReadWrite(ctx, conn)
	}
	afterNet := c.AfterNetConnect
	c.AfterNetConnect = func(ctx context.Context, config *pgconn.Config, conn net.Conn) (net.Conn, error) {
		if err := detectLoss(conn); err != nil {
			return nil, err
		}
		if afterNet == nil {
			return conn, nil
		}
		return afterNet(ctx, config, conn)
	}
	afterConnect := config.AfterConnect
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		if afterConnect != nil {
			if err := afterConnect(ctx, conn); err != nil {
				return err
			}
		}
		return assertSettings(ctx, conn, settings)
	}
}

// assertSettings reads back what was asked for when connecting: a pooler may
// drop it, and the caller's own hook may change it.
func assertSettings(ctx context.Context, conn *pgx.Conn, want map[string]string) error {
	names := slices.Sorted(maps.Keys(want))
	rows, err := conn.Query(ctx, "SELECT name, setting FROM pg_settings WHERE name = ANY ($1::text[])",
		pgx.QueryExecModeCacheDescribe, names)
	if err != nil {
		return err
	}
	got := map[string]string{}
	var name, setting string
	if _, err := pgx.ForEachRow(rows, []any{&name, &setting}, func() error {
		got[name] = setting
		return nil
	}); err != nil {
		return err
	}
	for _, name := range names {
		if got[name] != want[name] {
			return fmt.Errorf("the connection's %s is %q although %q was asked for: a pooler or a hook of the pool changes it",
				name, got[name], want[name])
		}
	}
	return nil
}

// detectLoss makes the system notice within seconds that a peer is gone, on
// connections that it can do that for.
func detectLoss(conn net.Conn) error {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return nil // a socket of this machine, or the caller's own kind of connection
	}
	if err := tcp.SetKeepAliveConfig(net.KeepAliveConfig{
		Enable: true, Idle: 10 * time.Second, Interval: 2 * time.Second, Count: 3,
	}); err != nil {
		return fmt.Errorf("setting keep-alive: %w", err)
	}
	return setPeerTimeout(tcp, peerTimeout)
}
