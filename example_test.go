package hookonce_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	_ "modernc.org/sqlite"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/hookmigrate"
	"github.com/hookonce/hookonce/hooksql"
	"github.com/hookonce/hookonce/provider"
)

// A handler in a transaction. GitHub delivers an event twice, and the first attempt fails after the
// INSERT. The row exists once.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	folder, err := os.MkdirTemp("", "hookonce")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "app.db")
	db, err := hooksql.OpenSQLite("sqlite", path)
	if err != nil {
		panic(err)
	}
	defer db.Close()
	if _, err := hookmigrate.Up(ctx, db); err != nil {
		panic(err)
	}
	app := db.Writer() // for the application's own tables in the same file
	if _, err := app.ExecContext(ctx, "CREATE TABLE pushes (ref TEXT)"); err != nil {
		panic(err)
	}

	mails := make(chan string)
	outbox := hookonce.NewOutbox(db)
	mux := &hooksql.Mux{}
	hookonce.HandleJSON(mux, "github", "push", func(ctx context.Context, tx *sql.Tx, ev *hookonce.Event, push struct{ Ref string }) error {
		if _, err := tx.ExecContext(ctx, "INSERT INTO pushes VALUES (?)", push.Ref); err != nil {
			return err
		}
		if err := outbox.EnqueueTx(ctx, tx, &hookonce.Message{Destination: "mail", Body: []byte("pushed " + push.Ref)}); err != nil {
			return err
		}
		if ev.Attempt == 1 {
			return hookonce.RetryAfter(0, errors.New("failed in the last line"))
		}
		return nil
	})
	in, err := hookonce.New(db, mux, &hookonce.Config{
		Sources: []hookonce.Source{{
			Name: "github", Provider: provider.GitHub, Secrets: hookonce.StaticSecrets("a-secret-of-16-bytes-or-more"),
		}},
		Destinations: []hookonce.Destination{{
			Name: "mail",
			Sender: hookonce.SenderFunc(func(_ context.Context, m *hookonce.Outgoing) error {
				mails <- string(m.Body)
				return nil
			}),
		}},
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		panic(err)
	}
	ran := make(chan error)
	go func() { ran <- in.Run(ctx) }()
	routes := http.NewServeMux()
	routes.Handle("POST /webhooks/{source}", in)
	server := httptest.NewServer(routes)
	defer server.Close()

	fmt.Print(push(server.URL))
	fmt.Print(push(server.URL))
	fmt.Println(<-mails)
	in.Drain()
	stop()
	fmt.Println(<-ran)
	var effects int
	if err := app.QueryRow("SELECT count(*) FROM pushes").Scan(&effects); err != nil {
		panic(err)
	}
	fmt.Println(effects, "effect")

	// Output:
	// {"status":"ok","event_id":"72d3162e"}
	// {"status":"duplicate","event_id":"72d3162e"}
	// pushed refs/heads/main
	// <nil>
	// 1 effect
}

// An Engine in your own server, without handlers. GitHub delivers an event twice, and the
// destination gets it once.
func ExampleNewEngine() {
	ctx, stop := context.WithCancel(context.Background())
	folder, err := os.MkdirTemp("", "hookonce")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	store, err := hooksql.OpenSQLite("sqlite", filepath.Join(folder, "hookonce.db"))
	if err != nil {
		panic(err)
	}
	defer store.Close()
	if _, err := hookmigrate.Up(ctx, store); err != nil {
		panic(err)
	}

	got := make(chan string)
	app := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- fmt.Sprintf("attempt %s: %s", r.Header.Get("Hookonce-Attempt"), body)
	}))
	defer app.Close()

	in, err := hookonce.NewEngine(store, &hookonce.Config{
		Sources: []hookonce.Source{{
			Name:     "github",
			Provider: provider.GitHub,
			Secrets:  hookonce.StaticSecrets("a-secret-of-16-bytes-or-more"),
		}},
		Destinations: []hookonce.Destination{{Name: "app", URL: app.URL, AllowPrivate: true}},
		Routes:       []hookonce.Route{{Name: "pushes", Types: []string{"push"}, To: "app"}},
		Logger:       slog.New(slog.DiscardHandler),
	})
	if err != nil {
		panic(err)
	}
	ran := make(chan error)
	go func() { ran <- in.Run(ctx) }()

	mux := http.NewServeMux()
	mux.Handle("POST /webhooks/{source}", in)
	server := httptest.NewServer(mux)
	defer server.Close()
	for range 2 {
		fmt.Print(push(server.URL))
	}
	fmt.Println(<-got)

	// To stop, refuse new deliveries first, and then end Run.
	in.Drain()
	stop()
	fmt.Println(<-ran)

	// Output:
	// {"status":"ok","event_id":"72d3162e"}
	// {"status":"duplicate","event_id":"72d3162e"}
	// attempt 1: {"ref":"refs/heads/main"}
	// <nil>
}

// push delivers an event as GitHub does.
func push(url string) string {
	body := `{"ref":"refs/heads/main"}`
	mac := hmac.New(sha256.New, []byte("a-secret-of-16-bytes-or-more"))
	mac.Write([]byte(body))
	r, err := http.NewRequest(http.MethodPost, url+"/webhooks/github", strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	r.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	r.Header.Set("X-GitHub-Event", "push")
	r.Header.Set("X-GitHub-Delivery", "72d3162e")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		panic(err)
	}
	return string(answer)
}
