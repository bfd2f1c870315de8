package hooktest_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/hookmigrate"
	"github.com/hookonce/hookonce/hooksql"
	"github.com/hookonce/hookonce/hooktest"
	"github.com/hookonce/hookonce/provider"
)

// A test delivers an event twice, as GitHub would, waits until the work is done, and checks its
// effects.
func Example() {
	t := new(testing.T) // your test function's own t
	folder, err := os.MkdirTemp("", "hooktest")
	must(err)
	defer os.RemoveAll(folder)
	db, store, closeAll := open(filepath.Join(folder, "app.db"))
	defer closeAll()
	_, err = db.Exec(`CREATE TABLE stars (repository TEXT, by TEXT)`)
	must(err)

	mux := &hooksql.Mux{}
	hookonce.Handle(mux, "github", "star", func(ctx context.Context, tx *sql.Tx, ev *hookonce.Event) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO stars VALUES ('hookonce', 'octocat')`)
		return err
	})
	source := hookonce.Source{
		Name: "github", Provider: provider.GitHub, Secrets: hookonce.StaticSecrets("a-secret-of-16-bytes-or-more"),
	}
	in, err := hookonce.New(store, mux, &hookonce.Config{Sources: []hookonce.Source{source}, Logger: slog.New(slog.DiscardHandler)})
	must(err)
	ctx, stop := context.WithCancel(context.Background())
	ran := make(chan error)
	go func() { ran <- in.Run(ctx) }()

	for range 2 {
		r := hooktest.NewRequest(t, source, `{"action":"created"}`, hooktest.WithEventID("d1"), hooktest.WithEventType("star"))
		w := httptest.NewRecorder()
		in.ServeHTTP(w, r)
		fmt.Print(w.Body)
	}
	hooktest.Settled(ctx, t, store, "github")
	var stars int
	must(db.QueryRow(`SELECT count(*) FROM stars`).Scan(&stars))
	fmt.Println("stars:", stars)

	in.Drain()
	stop()
	must(<-ran)
	// Output:
	// {"status":"ok","event_id":"d1"}
	// {"status":"duplicate","event_id":"d1"}
	// stars: 1
}

// A test runs a handler in a transaction that it rolls back.
func ExampleWork() {
	t := new(testing.T) // your test function's own t
	folder, err := os.MkdirTemp("", "hooktest")
	must(err)
	defer os.RemoveAll(folder)
	db, store, closeAll := open(filepath.Join(folder, "app.db"))
	defer closeAll()
	outbox := hookonce.NewOutbox(store)

	mux := &hooksql.Mux{}
	hookonce.HandleJSON(mux, "stripe", "invoice.paid",
		func(ctx context.Context, tx *sql.Tx, ev *hookonce.Event, invoice struct{ Customer string }) error {
			if invoice.Customer == "" {
				return hookonce.Permanent(fmt.Errorf("event %s has no customer", ev.ID))
			}
			body, err := json.Marshal(map[string]string{"thank": invoice.Customer})
			if err != nil {
				return err
			}
			return outbox.EnqueueTx(ctx, tx, &hookonce.Message{Destination: "mail", Body: body})
		})

	tx, err := db.Begin()
	must(err)
	defer tx.Rollback()
	for _, body := range []string{`{"customer":"ada"}`, `{}`, `[]`} {
		r := hooktest.Work(context.Background(), t, tx, mux, hooktest.NewEvent("stripe", "evt_1", "invoice.paid", body))
		fmt.Println(len(r.Messages), r.Permanent, r.Err)
	}
	fmt.Println(hooktest.Work(context.Background(), t, tx, mux, hooktest.NewEvent("stripe", "evt_1", "invoice.void", "")).Handled)
	// Output:
	// 1 false <nil>
	// 0 true event evt_1 has no customer
	// 0 true decoding the body: json: cannot unmarshal array into Go value of type struct { Customer string }
	// false
}

// open opens a database with the schema of hookonce.
func open(path string) (db *sql.DB, store *hooksql.Store, closeAll func()) {
	writerDSN, readerDSN, err := hooksql.SQLiteDSN(path)
	must(err)
	writer, err := sql.Open("sqlite", writerDSN)
	must(err)
	writer.SetMaxOpenConns(1)
	reader, err := sql.Open("sqlite", readerDSN)
	must(err)
	store = hooksql.NewSQLite(writer, reader)
	_, err = hookmigrate.Up(context.Background(), store)
	must(err)
	return writer, store, func() { must(errors.Join(store.Close(), reader.Close(), writer.Close())) }
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
