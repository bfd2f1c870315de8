package demo

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"net/http"
	"time"
)

// Bank is the process of the bank, the gateway's destination. Its ledger is in folder. It books each
// transfer once under the key of hookonce, as an application should: the key and the booking are one
// transaction.
func Bank(ctx context.Context, folder string, out io.Writer) error {
	db, err := openLedger(ctx, folder, bankLedger)
	if err != nil {
		return err
	}
	b := &bank{till{folder, bankLedger}, db}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /transfers", b.receive)
	return errors.Join(serve(ctx, mux, out), db.Close())
}

type bank struct {
	till
	db *sql.DB
}

func (b *bank) receive(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the gateway hung up
	}
	source, id := r.Header.Get("Hookonce-Source"), r.Header.Get("Hookonce-Event-Id")
	f, err := read(source, r.Header.Get("Hookonce-Event-Type"), body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		return
	}
	switch err := b.check(f.account); {
	case errors.Is(err, errClosed):
		http.Error(w, err.Error(), http.StatusGone) // hookonce does not try again
		return
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	time.Sleep(bankTime)
	// The work goes on if the gateway is killed meanwhile.
	if err := b.apply(context.WithoutCancel(r.Context()), r.Header.Get("webhook-id"), source, id, f); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// apply books an event unless its key is known.
func (b *bank) apply(ctx context.Context, key, source, id string, f facts) error {
	tx, err := b.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	inserted, err := tx.ExecContext(ctx, "INSERT INTO applied (key) VALUES (?) ON CONFLICT DO NOTHING", key)
	if err != nil {
		return err
	}
	n, err := inserted.RowsAffected()
	switch {
	case err != nil:
		return err
	case n == 0:
		_, err = tx.ExecContext(ctx, "INSERT INTO repeated (key) VALUES (?)", key)
	default:
		err = book(ctx, tx, source, id, f)
	}
	if err != nil {
		return err
	}
	return tx.Commit()
}
