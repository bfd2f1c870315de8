// Command ownrouter does the work before it answers, in a transaction that it begins and commits
// itself. hookonce verifies and claims; the rest is an ordinary handler on an ordinary router. It
// counts GitHub's pushes, on PostgreSQL with pgx.
//
//	DATABASE_URL=postgres://app@localhost/app GITHUB_WEBHOOK_SECRET=... go run ./examples/ownrouter
//
// LISTEN defaults to :8080. Use this pattern where the work is short and the sender should see its
// outcome. Otherwise leave the work to handlers: they also retry when the sender does not.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/hookmigrate"
	"github.com/hookonce/hookonce/hookpgx"
	"github.com/hookonce/hookonce/provider"
)

const schema = `
CREATE TABLE IF NOT EXISTS pushes (repository text PRIMARY KEY, count bigint NOT NULL);
CREATE TABLE IF NOT EXISTS push_log (repository text NOT NULL, head text NOT NULL);`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		slog.Error("the program ended", "error", err)
		os.Exit(1)
	}
}

// app holds the dependencies of the router's handlers.
type app struct {
	in   *hookonce.Inbox[pgx.Tx]
	pool *pgxpool.Pool
}

// webhook takes one delivery.
func (a *app) webhook(w http.ResponseWriter, r *http.Request) {
	d, err := a.in.Verify(w, r)
	if err != nil {
		a.in.Refuse(w, r, err) // 401, 400, 503 ... depending on the error
		return
	}
	// A sender that hangs up ends the request's context, but must not stop the commit.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), 5*time.Second)
	defer cancel()
	var claimed []hookonce.Claimed
	err = pgx.BeginFunc(ctx, a.pool, func(tx pgx.Tx) (err error) {
		if claimed, err = a.in.ClaimTx(ctx, tx, d); err != nil {
			return err
		}
		for _, c := range claimed {
			if !c.Claimed {
				continue // a duplicate: its work is already done
			}
			if err := work(ctx, tx, c.Event); err != nil {
				return fmt.Errorf("event %s: %w", c.Event.ID, err)
			}
		}
		return nil
	})
	if err != nil {
		// Neither the work nor the claim was committed, or the outcome is unknown. The sender
		// retries and finds either a new event or a duplicate. Both are right.
		a.in.Refuse(w, r, err)
		return
	}
	a.in.Accept(w, r, d, claimed) // only after the commit
}

// work adds one. That alone is not safe to repeat; it happens once because it commits with the
// claim.
func work(ctx context.Context, tx pgx.Tx, ev *hookonce.Event) error {
	if ev.Type != "push" {
		return nil // claimed, so that later copies are duplicates
	}
	var push struct {
		After      string
		Repository struct {
			FullName string `json:"full_name"`
		}
	}
	if err := json.Unmarshal(ev.Body, &push); err != nil {
		// The same bytes cannot do better next time, so do not make GitHub deliver them again. The
		// claim keeps them for an operator to look at.
		slog.Error("a push cannot be read", "event_id", ev.ID, "error", err)
		return nil
	}
	if _, err := tx.Exec(ctx, `
		INSERT INTO pushes (repository, count) VALUES ($1, 1)
		ON CONFLICT (repository) DO UPDATE SET count = pushes.count + 1`, push.Repository.FullName); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `INSERT INTO push_log (repository, head) VALUES ($1, $2)`, push.Repository.FullName, push.After)
	return err
}

func run(ctx context.Context) error {
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		return err
	}
	defer pool.Close()
	db := hookpgx.New(pool)
	defer db.Close()
	if _, err := hookmigrate.Up(ctx, db); err != nil {
		return err
	}
	if _, err := pool.Exec(ctx, schema); err != nil {
		return fmt.Errorf("creating the tables: %w", err)
	}
	in, err := hookonce.New(db, nil, &hookonce.Config{Sources: []hookonce.Source{{
		Name:     "github",
		Provider: provider.GitHub,
		Secrets:  hookonce.StaticSecrets(os.Getenv("GITHUB_WEBHOOK_SECRET")),
	}}})
	if err != nil {
		return err
	}
	routes := http.NewServeMux()
	routes.HandleFunc("POST /webhooks/{source}", (&app{in, pool}).webhook)
	routes.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		if err := in.Ready(r.Context()); err != nil {
			http.Error(w, "not ready", http.StatusServiceUnavailable)
		}
	})
	return serve(ctx, in, routes)
}

// serve serves until ctx ends. Run prunes events that are past their window.
func serve(ctx context.Context, in *hookonce.Inbox[pgx.Tx], routes http.Handler) error {
	listener, err := net.Listen("tcp", cmp.Or(os.Getenv("LISTEN"), ":8080"))
	if err != nil {
		return err
	}
	server := &http.Server{Handler: routes, ReadHeaderTimeout: 5 * time.Second}
	served, ran := make(chan error, 1), make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	running, stopRunning := context.WithCancel(context.WithoutCancel(ctx))
	defer stopRunning()
	go func() { ran <- in.Run(running) }()
	slog.Info("listening", "address", listener.Addr().String())

	select {
	case err = <-served: // serving failed
	case <-ctx.Done():
	}
	in.Drain()
	down, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	err = errors.Join(err, server.Shutdown(down)) // waits for the handlers above
	stopRunning()
	return errors.Join(err, <-ran)
}
