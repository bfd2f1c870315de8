// Command shop is a small shop behind Stripe, on PostgreSQL with pgx. It shows handlers that work
// in a transaction of their own. Even under a delivery storm or kill -9, an order is paid once, its
// stock moves once, and its customer gets one receipt.
//
//	export DATABASE_URL=postgres://shop@localhost/shop STRIPE_WEBHOOK_SECRET=whsec_...
//	export SHIPPING_URL=https://shipping.example.com/orders
//	go run ./examples/shop
//
// Further variables: LISTEN (default :8080), and for the receipts either SMTP_ADDRESS or
// MAIL_FOLDER (default: mail).
package main

import (
	"context"
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

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		slog.Error("the shop ended", "error", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		return err
	}
	defer pool.Close()
	db := hookpgx.New(pool)
	defer db.Close()
	// hookonce's tables are in a schema of their own in the shop's database, so that one
	// transaction writes both. Any number of processes may migrate at once.
	if _, err := hookmigrate.Up(ctx, db); err != nil {
		return err
	}
	if _, err := pool.Exec(ctx, schema); err != nil {
		return fmt.Errorf("creating the shop's tables: %w", err)
	}
	s := &shop{outbox: hookonce.NewOutbox(db), shipping: newShipping()}
	in, err := hookonce.New(db, s.handlers(), config())
	if err != nil {
		return err
	}
	return serve(ctx, in)
}

func config() *hookonce.Config {
	return &hookonce.Config{
		Sources: []hookonce.Source{{
			Name:     "stripe",
			Provider: provider.Stripe,
			Secrets:  hookonce.StaticSecrets(os.Getenv("STRIPE_WEBHOOK_SECRET")),
			// Stripe does not deliver in order. This rule skips a subscription event that is older
			// than the last applied one.
			Stale: []hookonce.StaleRule{{
				Types: []string{"customer.subscription.updated"}, Key: "body:data.object.id", Version: "body:created",
			}},
		}},
		Destinations: []hookonce.Destination{{Name: "mail", Sender: newMailer(), Timeout: 5 * time.Second}},
		Retry:        hookonce.Retry{First: time.Second}, // then up to 2 s, 4 s ... 12 h; 20 attempts
	}
}

// serve receives and works until ctx ends. Then it stops in order: first new deliveries, then the
// work behind them.
func serve(ctx context.Context, in *hookonce.Inbox[pgx.Tx]) error {
	address := os.Getenv("LISTEN")
	if address == "" {
		address = ":8080"
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	routes := http.NewServeMux()
	routes.Handle("POST /webhooks/{source}", in)
	server := &http.Server{Handler: routes, ReadHeaderTimeout: 5 * time.Second}
	served, ran := make(chan error, 1), make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	working, stopWorking := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWorking()
	go func() { ran <- in.Run(working) }()
	slog.Info("the shop is open", "address", listener.Addr().String())

	select {
	case err = <-served: // serving failed
	case <-ctx.Done():
	}
	in.Drain() // answers queued deliveries; later ones get 503
	down, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	err = errors.Join(err, server.Shutdown(down))
	stopWorking()
	return errors.Join(err, <-ran) // after running handlers and mails have ended
}
