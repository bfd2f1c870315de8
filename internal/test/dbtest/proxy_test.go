package dbtest

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce/internal/test/eventually"
)

func TestProxyDropsReplies(t *testing.T) {
	t.Parallel()
	s := StartServer(t, nil)
	run(t, s.DSN(), "CREATE TABLE a (n int)")
	proxy := StartProxy(t, s.Addr())
	committed := 0
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		for _, cut := range []Cut{CutReset, CutSilence} {
			conn, err := pgx.Connect(t.Context(), proxy.DSN(t, s.DSN()))
			if err != nil {
				t.Fatal(err)
			}
			insert := func(ctx context.Context) error {
				_, err := conn.Exec(ctx, "INSERT INTO a VALUES ($1)", mode, 1)
				return err
			}
			if err := insert(t.Context()); err != nil { // it is prepared from here on
				t.Fatalf("%v: %v", mode, err)
			}
			drop := proxy.DropReply("INSERT INTO a", cut)
			if _, err := conn.Exec(t.Context(), "SELECT 1"); err != nil {
				t.Fatalf("%v: a statement whose reply was not to be dropped: %v", mode, err)
			}
			if err := insert(drop.Context(t)); err == nil {
				t.Errorf("%v, cut %d: no error", mode, cut)
			}
			eventually.Receive(t, "the reply is dropped", drop.Done())
			committed += 2
			_ = conn.Close(t.Context()) // it is broken
		}
	}
	conn, err := pgx.Connect(t.Context(), proxy.DSN(t, s.DSN()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	var n int
	if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM a").Scan(&n); err != nil || n != committed {
		t.Errorf("%d rows are committed, error %v, want %d", n, err, committed)
	}
	proxy.CutAll()
	if err := conn.Ping(t.Context()); err == nil {
		t.Error("a reset connection answers")
	}
	run(t, proxy.DSN(t, s.DSN()), "SELECT 1")
}
