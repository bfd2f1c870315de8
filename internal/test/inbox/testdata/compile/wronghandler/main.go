// Program wronghandler has a handler for transactions of database/sql on a Mux of pgx.
package main

import (
	"context"
	"database/sql"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/hookpgx"
)

func main() {
	mux := &hookpgx.Mux{}
	hookonce.Handle(
		mux, "stripe", "invoice.paid",

		func(context.Context, *sql.Tx, *hookonce.Event) error { return nil },
	)
}
