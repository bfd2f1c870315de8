package orm

import (
	"context"
	"database/sql"

	"github.com/jackc/pgx/v5"
	"github.com/jmoiron/sqlx"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/internal/test/orm/bill"
)

// Invoice is a row of the table invoices.
type Invoice struct {
	bun.BaseModel `gorm:"-"`
	ID            string `bun:",pk"`
	Amount        int64
}

func withGORM(ctx context.Context, tx *sql.Tx, ev *hookonce.Event) error {
	db, err := gorm.Open(postgres.New(postgres.Config{Conn: tx}), &gorm.Config{SkipDefaultTransaction: true})
	if err != nil {
		return err
	}
	return db.WithContext(ctx).Create(&Invoice{ID: ev.ID, Amount: 5}).Error
}

func withBun(pool *sql.DB) hookonce.HandlerFunc[*sql.Tx] {
	db := bun.NewDB(pool, pgdialect.New())
	return func(ctx context.Context, tx *sql.Tx, ev *hookonce.Event) error {
		_, err := db.NewInsert().Conn(tx).Model(&Invoice{ID: ev.ID, Amount: 5}).Exec(ctx)
		return err
	}
}

func withSQLX(ctx context.Context, tx *sql.Tx, ev *hookonce.Event) error {
	query, args, err := sqlx.Named("INSERT INTO invoices (id, amount) VALUES (:id, :amount)", Invoice{ID: ev.ID, Amount: 5})
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, sqlx.Rebind(sqlx.DOLLAR, query), args...)
	return err
}

func withSQLC(ctx context.Context, tx pgx.Tx, ev *hookonce.Event) error {
	return bill.New(tx).AddInvoice(ctx, bill.AddInvoiceParams{ID: ev.ID, Amount: 5})
}
