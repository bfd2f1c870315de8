// Command go is an application behind hookonce: it does the work of each webhook-id once.
package main

import (
	"cmp"
	"database/sql"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"os"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	_ "modernc.org/sqlite"
)

const tables = `CREATE TABLE IF NOT EXISTS seen (webhook_id TEXT PRIMARY KEY); CREATE TABLE IF NOT EXISTS work (webhook_id TEXT, body TEXT)`

func main() {
	hook, err := standardwebhooks.NewWebhook(os.Getenv("APP_SECRET"))
	if err != nil {
		log.Fatal(err)
	}
	db, _ := sql.Open("sqlite", "file:"+cmp.Or(os.Getenv("DATABASE"), "app.db")+"?_txlock=immediate&_pragma=busy_timeout(5000)")
	http.HandleFunc("POST /hooks", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20)) // the raw body; one that is cut off does not verify
		if hook.Verify(body, r.Header) != nil || !json.Valid(body) {
			w.WriteHeader(http.StatusUnauthorized)
		} else if err := once(db, r.Header.Get("webhook-id"), string(body)); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable) // hookonce sends it again
		}
	})
	address := "127.0.0.1:" + cmp.Or(os.Getenv("PORT"), "3000")
	log.Print("http://", address, "/hooks")
	log.Fatal(http.ListenAndServe(address, nil))
}

// once does the work, unless it was done before: then the answer is 200 again.
func once(db *sql.DB, id, body string) error {
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback() // after the commit it does nothing
	first, err := tx.Exec(tables+"; INSERT INTO seen VALUES (?) ON CONFLICT DO NOTHING", id)
	if err != nil {
		return err
	}
	if n, _ := first.RowsAffected(); n == 1 {
		if _, err := tx.Exec("INSERT INTO work VALUES (?, ?)", id, body); err != nil {
			return err
		}
	}
	return tx.Commit()
}
