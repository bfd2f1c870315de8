package hookpgx

import (
	"context"
	"strings"

	"github.com/hookonce/hookonce/internal/pgstore"
)

// Deviation is how another engine understands statements.
type Deviation struct {
	Old, New      string // it reads New in place of Old
	KeepsRollback bool   // it commits a transaction that is rolled back
}

// Deviating returns a store on the sessions of s whose server deviates.
func Deviating(s *Store, schema string, d Deviation) *Store {
	other := Renew(s, schema)
	pools := pgstore.Pools{}
	for i, db := range []*pgstore.DB{&pools.Receive, &pools.Admin, &pools.Search} {
		*db = deviatingDB{ownDB(s, i), d}
	}
	pools.Work = pools.Receive
	other.use(schema, pools)
	return other
}

type deviatingDB struct {
	pgstore.DB
	d Deviation
}

func (b deviatingDB) Query(ctx context.Context, sql string, args ...any) (pgstore.Rows, error) {
	return deviatingConn{b.DB, b.d}.Query(ctx, sql, args...)
}

func (b deviatingDB) Transaction(ctx context.Context, level pgstore.Isolation, f func(pgstore.Conn) error) error {
	return b.DB.Transaction(ctx, level, func(conn pgstore.Conn) error { return f(deviatingConn{conn, b.d}) })
}

func (b deviatingDB) Begin(ctx context.Context) (pgstore.Tx, error) {
	tx, err := b.DB.Begin(ctx)
	if err != nil {
		return nil, err
	}
	return deviatingTx{tx, b.d}, nil
}

type deviatingConn struct {
	pgstore.Conn
	d Deviation
}

func (c deviatingConn) Query(ctx context.Context, sql string, args ...any) (pgstore.Rows, error) {
	if c.d.Old != "" {
		sql = strings.ReplaceAll(sql, c.d.Old, c.d.New)
	}
	return c.Conn.Query(ctx, sql, args...)
}

type deviatingTx struct {
	pgstore.Tx
	d Deviation
}

func (t deviatingTx) Query(ctx context.Context, sql string, args ...any) (pgstore.Rows, error) {
	return deviatingConn{t.Tx, t.d}.Query(ctx, sql, args...)
}

func (t deviatingTx) Rollback(ctx context.Context) {
	if t.d.KeepsRollback {
		_ = t.Commit(ctx)
	}
	t.Tx.Rollback(ctx)
}
