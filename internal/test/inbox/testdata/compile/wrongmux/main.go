// Program wrongmux gives a Mux of database/sql to an Inbox of pgx.
package main

import (
	"database/sql"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/hookpgx"
)

func main() {
	mux := &hookonce.Mux[*sql.Tx]{}
	db := hookpgx.New(nil)

	_, _ = hookonce.New(db, mux, nil)
}
