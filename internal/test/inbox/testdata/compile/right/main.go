// Program right has a handler for the transactions of its Mux.
package main

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/hookpgx"
)

func main() {
	mux, outbox := &hookpgx.Mux{}, &hookonce.Outbox[pgx.Tx]{}
	hookonce.Handle(mux, "stripe", "invoice.paid",
		func(ctx context.Context, tx pgx.Tx, ev *hookonce.Event) error {
			return outbox.EnqueueTx(ctx, tx, &hookonce.Message{Destination: "crm", Body: ev.Body})
		})
	_, _ = hookonce.New(hookpgx.New(nil), mux, nil)
}
