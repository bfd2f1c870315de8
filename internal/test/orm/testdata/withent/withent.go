// Package withent has the handler for ent. TestEnt generates its client, and runs its test.
package withent

import (
	"context"
	"database/sql"

	"entgo.io/ent/dialect"
	entsql "entgo.io/ent/dialect/sql"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/internal/test/orm/generated"
)

// handlerTx is ent's driver over the transaction of a handler.
type handlerTx struct{ entsql.Conn }

func (handlerTx) Dialect() string                          { return dialect.Postgres }
func (handlerTx) Close() error                             { return nil }
func (d handlerTx) Tx(context.Context) (dialect.Tx, error) { return dialect.NopTx(d), nil }

func withEnt(ctx context.Context, tx *sql.Tx, ev *hookonce.Event) error {
	client := generated.NewClient(generated.Driver(handlerTx{entsql.Conn{ExecQuerier: tx}}))
	line, err := client.Line.Create().SetID(ev.ID + "/1").Save(ctx)
	if err != nil {
		return err
	}
	return client.Invoice.Create().SetID(ev.ID).SetAmount(5).AddLines(line).Exec(ctx)
}
