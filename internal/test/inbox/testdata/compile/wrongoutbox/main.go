// Program wrongoutbox enqueues in a transaction of another type than its Outbox's.
package main

import (
	"context"
	"database/sql"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce"
)

func main() {
	outbox := &hookonce.Outbox[pgx.Tx]{}
	var tx *sql.Tx
	_ = outbox.EnqueueTx(context.Background(), tx, &hookonce.Message{Destination: "crm"})
}
