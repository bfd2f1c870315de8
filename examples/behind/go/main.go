// Command go is an application behind hookonce: it does the work of each webhook-id once.
package main

import (
	"context"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

func main() {
	pool, err := pgxpool.New(context.Background(), os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	hook, err := standardwebhooks.NewWebhook(os.Getenv("APP_SECRET"))
	if err != nil {
		log.Fatal(err)
	}
	http.HandleFunc("POST /hooks", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20)) // the raw body: the signature covers its bytes
		switch {
		case err != nil:
			http.Error(w, "too large", http.StatusRequestEntityTooLarge)
			return
		case hook.Verify(body, r.Header) != nil:
			http.Error(w, "the signature does not fit", http.StatusUnauthorized)
			return
		case !json.Valid(body):
			http.Error(w, "no JSON", http.StatusBadRequest)
			return
		}
		id := r.Header.Get("webhook-id")
		err = pgx.BeginFunc(r.Context(), pool, func(tx pgx.Tx) error {
			first, err := tx.Exec(r.Context(), "INSERT INTO seen VALUES ($1) ON CONFLICT DO NOTHING", id)
			if err != nil || first.RowsAffected() == 0 {
				return err // nil if the work was done before: the answer is 200 again
			}
			_, err = tx.Exec(r.Context(), "INSERT INTO work VALUES ($1, $2)", id, body)
			return err
		})
		if err != nil {
			log.Print(err)
			http.Error(w, "not done", http.StatusServiceUnavailable) // hookonce sends it again
		}
	})
	address := "127.0.0.1:" + os.Getenv("PORT")
	log.Print("http://", address)
	log.Fatal(http.ListenAndServe(address, nil))
}
