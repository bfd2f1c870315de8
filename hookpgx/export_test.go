package hookpgx

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/pgsession"
	"github.com/hookonce/hookonce/internal/pgstore"
)

// GiveBack ends the transaction of a run, and keeps its record.
func GiveBack(ctx context.Context, r driver.Run[pgx.Tx]) {
	r.(*pgsession.Run[pgx.Tx]).Run.Tx().Rollback(ctx)
}

// Renew returns a store on the sessions of s, which works on a pool of the caller. It knows nothing else of s.
func Renew(s *Store, schema string) *Store {
	renewed := &Store{link: s.link, work: s.work, receive: s.receive}
	renewed.use(schema, pgstore.Pools{
		Receive: pgsession.NewBinary(ownClient(s, 0)),
		Work:    pgsession.New(client{pool: s.link.users, link: s.link}),
		Admin:   ownDB(s, 1),
		Search:  ownDB(s, 2),
	})
	return renewed
}

// ownClient returns one of the pools that s made.
func ownClient(s *Store, i int) client {
	bounds := boundsSQL(s.link.own[i].Config().ConnConfig.RuntimeParams)
	return client{pool: s.link.own[i], link: s.link, bounds: bounds, shared: bounds}
}

func ownDB(s *Store, i int) pgstore.DB { return pgsession.NewReadCommitted(ownClient(s, i)) }

// Idle reports whether none of the store's sessions is in use, and the store has noticed nothing odd.
func Idle(s *Store) bool {
	for _, pool := range append(s.link.own, s.link.users) {
		if pool.Stat().AcquiredConns() > 0 {
			return false
		}
	}
	return !s.link.sharing.active() && !s.link.pooled.Load() && !s.link.unnamed.Load() && !s.link.scarce()
}

// WorkPool returns the pool of handlers, leases and outcomes.
func WorkPool(s *Store) *pgxpool.Pool { return s.work }

// Pooled reports whether the store has noticed a pooler.
func Pooled(s *Store) bool { return s.link.pooled.Load() }

// Scarce reports whether the store has noticed that its pooler has no connection to spare.
func Scarce(s *Store) bool { return s.link.scarce() }

// ReceivePool returns the pool of claims.
func ReceivePool(s *Store) *pgxpool.Pool { return s.receive }

// IsUnnamed reports whether the store has noticed that its named statements get lost.
func IsUnnamed(s *Store) bool { return s.link.unnamed.Load() }

// Unnamed returns tx without named prepared statements.
func Unnamed(tx pgx.Tx) pgx.Tx { return unnamedTx{tx} }

// ServerPID returns the number of the server's process that a run works in.
func ServerPID(r driver.Run[pgx.Tx]) uint32 {
	return uint32(r.(*pgsession.Run[pgx.Tx]).Run.PID())
}

// AssertSettings reads settings back from a connection, as a new connection of a store does.
func AssertSettings(ctx context.Context, conn *pgx.Conn, want map[string]string) error {
	return assertSettings(ctx, conn, want)
}

// ReceiveSettings returns the settings of a statement of the receiving pool, and those of a transaction.
func ReceiveSettings(t testing.TB, s *Store, names ...string) (ofStatement, ofTx string) {
	t.Helper()
	c := client{pool: s.receive, link: s.link, bounds: boundsSQL(s.receive.Config().ConnConfig.RuntimeParams)}
	session, err := c.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ofStatement = settingsOf(t, session, names)
	session.Release()
	tx, _, err := c.Begin(t.Context(), pgstore.ReadCommitted)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Release()
	defer tx.Rollback(t.Context())
	return ofStatement, settingsOf(t, tx, names)
}

func settingsOf(t testing.TB, conn pgstore.Conn, names []string) string {
	t.Helper()
	rows, err := conn.Query(t.Context(), "SELECT current_setting(i) FROM unnest($1::text[]) WITH ORDINALITY AS n (i, place) ORDER BY place", names)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var values []string
	for rows.Next() {
		var value string
		if err := rows.Scan(&value); err != nil {
			t.Fatal(err)
		}
		values = append(values, value)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return strings.Join(values, " ")
}

// LeaveHost makes new connections of s begin with the host after the one that a connection for claims has.
func LeaveHost(t testing.TB, s *Store) bool {
	t.Helper()
	conn, err := s.receive.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	return s.link.leave(conn.Conn())
}
