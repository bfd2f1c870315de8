package hookpgx

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/hookonce/hookonce/driver"
)

const (
	connectTimeout = 2 * time.Second
	pingTimeout    = time.Second
	// peerTimeout is how long the peer's system may leave sent bytes unacknowledged before a
	// connection counts as lost.
	peerTimeout = 5 * time.Second
)

// commonSettings are the settings of every connection of the store's own pools. They override the
// defaults of the server, the database and the user. They do not override that a server is
// read-only, because an operator took it out of service.
func commonSettings() map[string]string {
	return map[string]string{
		// A role may have another one, and texts would then be stored wrongly.
		"client_encoding": "UTF8",
		// At a stricter level a whole batch would fail because of one key that is claimed
		// concurrently.
		"default_transaction_isolation":       "read committed",
		"idle_in_transaction_session_timeout": "60000",
		// Plans of claims look expensive and run fast: compiling them would cost more than it
		// saves.
		"jit": "off",
	}
}

// workSettings are settings of the work pool of Open, except those that the caller's configuration
// has itself. A frozen or disconnected process must not hold its locks for hours, nor keep an
// abandoned statement running: the server rolls the work back, and it is done again.
func workSettings(given map[string]string) map[string]string {
	s := commonSettings()
	s["application_name"] = "hookonce"
	s["statement_timeout"] = "60000"
	s["lock_timeout"] = "5000"
	for _, name := range []string{"application_name", "statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"} {
		if given[name] != "" {
			delete(s, name)
		}
	}
	return s
}

func receiveSettings() map[string]string {
	s := commonSettings()
	s["application_name"] = "hookonce receive"
	s["statement_timeout"] = "2000"
	s["lock_timeout"] = "1000"
	// In kilobytes; enough to sort a batch in memory.
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

// configure turns a copy of the caller's configuration into that of the store's own pool. It keeps
// hooks that make a connection, and drops hooks for the caller's use of a connection.
func (l *link) configure(config *pgxpool.Config, conns int, settings map[string]string) {
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
	WatchCommits(c)
	c.DefaultQueryExecMode = execMode // for batches
	l.rereads = config.BeforeConnect != nil
	config.BeforeConnect = l.beforeConnect(config.BeforeConnect)

	validate := c.ValidateConnect
	c.ValidateConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		// First, as pgx gives the same answer for target_session_attrs=read-write without an error that can be told apart.
		if err := acceptsWrites(ctx, conn); err != nil || validate == nil {
			return err
		}
		return validate(ctx, conn)
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
		if l.pooled.Load() {
			return nil // each transaction has the settings
		}
		return assertSettings(ctx, conn, settings)
	}
}

// whyReadOnlySQL tells why a session accepts no writes.
const whyReadOnlySQL = "SELECT CASE WHEN pg_is_in_recovery() THEN 'standby'" +
	" WHEN (SELECT source FROM pg_settings WHERE name = 'default_transaction_read_only') IN ('user', 'database user', 'database', 'client') THEN 'role'" +
	" ELSE 'server' END"

// acceptsWrites refuses a server that accepts no writes: of several hosts a standby is passed over.
func acceptsWrites(ctx context.Context, conn *pgconn.PgConn) error {
	answers, err := conn.Exec(ctx, "SHOW transaction_read_only").ReadAll()
	switch {
	case err != nil:
		return err
	case len(answers) != 1 || len(answers[0].Rows) != 1 || string(answers[0].Rows[0][0]) != "off":
		return whyReadOnly(ctx, conn)
	}
	return nil
}

func whyReadOnly(ctx context.Context, conn *pgconn.PgConn) error {
	answers, err := conn.Exec(ctx, whyReadOnlySQL).ReadAll()
	if err != nil || len(answers) != 1 || len(answers[0].Rows) != 1 {
		return driver.ErrReadOnly
	}
	switch string(answers[0].Rows[0][0]) {
	case "standby":
		return driver.ErrStandby
	case "role":
		return driver.ErrReadOnlyRole
	}
	return driver.ErrReadOnly
}

// assertSettings reads the settings back: a pooler may drop them, and the caller's hook may change
// them. It also compares the number of the server's process with the one that the connection got, which is a
// pooler's own invention. The error is a *poolerError.
func assertSettings(ctx context.Context, conn *pgx.Conn, want map[string]string) error {
	want = maps.Clone(want)
	want["pg_backend_pid"] = strconv.FormatUint(uint64(conn.PgConn().PID()), 10)
	names := slices.Sorted(maps.Keys(want))
	rows, err := conn.Query(ctx, "SELECT name, setting FROM pg_settings WHERE name = ANY ($1::text[])"+
		" UNION ALL SELECT 'pg_backend_pid', pg_backend_pid()::text",
		pgx.QueryExecModeCacheDescribe, names)
	if err != nil {
		return err
	}
	got := map[string]string{}
	var name, setting string
	_, err = pgx.ForEachRow(rows, []any{&name, &setting}, func() error {
		got[name] = setting
		return nil
	})
	if refusedBy(err, codeNoRights) {
		return &poolerError{fmt.Errorf("the role may not read pg_settings, so each transaction states its settings: %w", err)}
	}
	if err != nil {
		return err
	}
	for _, name := range names {
		if got[name] != want[name] {
			return &poolerError{fmt.Errorf("the connection has %s = %q instead of %q: a pooler or a hook of the pool changes it",
				name, got[name], want[name])}
		}
	}
	return nil
}

// detectLoss makes the system notice within seconds that a peer is gone. It does nothing on
// connections that are not TCP.
func detectLoss(conn net.Conn) error {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return nil // a local socket, or the caller's own kind of connection
	}
	if err := tcp.SetKeepAliveConfig(net.KeepAliveConfig{
		Enable: true, Idle: 10 * time.Second, Interval: 2 * time.Second, Count: 3,
	}); err != nil {
		return fmt.Errorf("setting keep-alive: %w", err)
	}
	return setPeerTimeout(tcp, peerTimeout)
}
