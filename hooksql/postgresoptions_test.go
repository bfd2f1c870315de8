package hooksql_test

import (
	"database/sql"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/hookmigrate"
	"github.com/hookonce/hookonce/hooksql"
	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/group"
)

func TestNewPostgresRefuses(t *testing.T) {
	t.Parallel()
	const dsn = "postgres://nobody@127.0.0.1:1/none"
	one, two := openPool(t, dsn, 1), openPool(t, dsn, 2)
	for name, test := range map[string]struct {
		db   *sql.DB
		opts *hooksql.PostgresOptions
		want string
	}{
		"no pool":               {nil, nil, "nil"},
		"a schema's name":       {two, &hooksql.PostgresOptions{Schema: "Hook-Once"}, "schema"},
		"one connection":        {one, nil, "one connection"},
		"one connection, named": {one, &hooksql.PostgresOptions{Receive: one, Admin: two}, "one connection"},
	} {
		store, err := hooksql.NewPostgresWithOptions(test.db, test.opts)
		if err == nil || store != nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v and the error %v, want one about %q", name, store, err, test.want)
		}
	}
	for name, db := range map[string]*sql.DB{"nil": nil, "one connection": one} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("NewPostgres of %s did not panic", name)
				}
			}()
			hooksql.NewPostgres(db)
		}()
	}
	if _, err := hooksql.NewPostgresWithOptions(one, &hooksql.PostgresOptions{Receive: two}); err != nil {
		t.Errorf("one connection for handlers and others for receiving: %v", err)
	}
	if _, err := hooksql.OpenPostgres("no such driver", dsn); err == nil {
		t.Error("OpenPostgres with an unknown driver returned no error")
	}
}

func TestPostgresLimits(t *testing.T) {
	t.Parallel()
	const dsn = "postgres://nobody@127.0.0.1:1/none"
	for _, test := range []struct{ db, receive, transactions, most, claims int }{
		{2, 0, 1, 1, 1},
		{3, 0, 1, 1, 1},
		{8, 0, 4, 4, 2},
		{1, 2, 1, -1, 1},
		{2, 2, 1, 1, 1},
		{8, 8, 4, 6, 4},
	} {
		opts := &hooksql.PostgresOptions{}
		if test.receive > 0 {
			opts.Receive = openPool(t, dsn, test.receive)
		}
		store, err := hooksql.NewPostgresWithOptions(openPool(t, dsn, test.db), opts)
		if err != nil {
			t.Fatal(err)
		}
		if got := store.WorkLimits(); got.Transactions != test.transactions || got.MaxTransactions != test.most {
			t.Errorf("pools of %d and %d connections: limits %+v, want %d transactions and at most %d",
				test.db, test.receive, got, test.transactions, test.most)
		}
		if got := store.ClaimConcurrency(); got != test.claims {
			t.Errorf("pools of %d and %d connections: %d claims at a time, want %d", test.db, test.receive, got, test.claims)
		}
	}
}

// TestOpenPostgres opens, uses and closes a store with its own pools. Close must leave a caller's
// pool open.
func TestOpenPostgres(t *testing.T) {
	group.Need(t, "servers")
	t.Parallel()
	server := dbtest.StartServer(t, nil)
	store, err := hooksql.OpenPostgres("pgx", server.DSN())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := hookmigrate.Up(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	mustClaim(t, store, "evt_1")
	if !has(t, store, "evt_1") {
		t.Error("the event is not there")
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
	if err := claim(t.Context(), store, "evt_2"); err == nil {
		t.Error("a claim succeeded after Close")
	}

	db := openPool(t, server.DSN(), 2)
	borrowed := hooksql.NewPostgres(db)
	if err := borrowed.Close(); err != nil {
		t.Error(err)
	}
	mustClaim(t, borrowed, "evt_3")
}
