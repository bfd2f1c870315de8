// Command shopsqlite is a small shop behind Stripe, on SQLite with database/sql: one program, one
// file. It is examples/shop with one more rule: SQLite has one writer, so slow work belongs in the
// outbox.
//
//	STRIPE_WEBHOOK_SECRET=whsec_... SHIPPING_URL=http://shipping.internal/orders go run ./examples/shopsqlite
//
// Further variables: DATABASE (default shop.db), LISTEN (default :8080) and MAIL_FOLDER (default
// mail).
package main

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/mail"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	_ "modernc.org/sqlite"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/hookmigrate"
	"github.com/hookonce/hookonce/hooksql"
	"github.com/hookonce/hookonce/provider"
)

const schema = `
CREATE TABLE IF NOT EXISTS stock (sku TEXT PRIMARY KEY, quantity INTEGER NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY, email TEXT NOT NULL, status TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS order_lines (order_id TEXT, sku TEXT, quantity INTEGER NOT NULL, PRIMARY KEY (order_id, sku)) STRICT;`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		slog.Error("the shop ended", "error", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	db, err := hooksql.OpenSQLite("sqlite", cmp.Or(os.Getenv("DATABASE"), "shop.db"))
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := hookmigrate.Up(ctx, db); err != nil {
		return err
	}
	// The shop's tables are in the same file. SQLite has one writer, so the shop writes through the
	// pool of the store.
	if _, err := db.Writer().ExecContext(ctx, schema); err != nil {
		return fmt.Errorf("creating the shop's tables: %w", err)
	}

	mux := &hooksql.Mux{}
	hookonce.HandleJSON(mux, "stripe", "checkout.session.completed", (&shop{hookonce.NewOutbox(db)}).paid)
	in, err := hookonce.New(db, mux, &hookonce.Config{
		Sources: []hookonce.Source{{
			Name:     "stripe",
			Provider: provider.Stripe,
			Secrets:  hookonce.StaticSecrets(os.Getenv("STRIPE_WEBHOOK_SECRET")),
		}},
		Destinations: []hookonce.Destination{
			// Sent with the message's id as Idempotency-Key. The destination is in our own network.
			{Name: "shipping", URL: os.Getenv("SHIPPING_URL"), AllowPrivate: true, Timeout: 3 * time.Second},
			{Name: "mail", Sender: hookonce.SenderFunc(writeMail), Timeout: 2 * time.Second},
		},
		Retry: hookonce.Retry{First: time.Second},
	})
	if err != nil {
		return err
	}
	return serve(ctx, in)
}

type shop struct {
	outbox *hookonce.Outbox[*sql.Tx]
}

// checkout is the part of Stripe's event that the shop reads.
type checkout struct {
	Data struct {
		Object struct {
			Order   string `json:"client_reference_id"`
			Details struct {
				Email string `json:"email"`
			} `json:"customer_details"`
		}
	}
}

// paid holds SQLite's only write lock from its first statement to the commit. Meanwhile no other
// handler runs and no delivery is answered. So it writes a few rows and returns; it has a second at
// most. It enqueues slow work (another API, mail). That work is sent after the commit, outside any
// lock, and only if this transaction commits.
//
// paid must write through tx: the pool would wait for the connection that tx has.
func (s *shop) paid(ctx context.Context, tx *sql.Tx, ev *hookonce.Event, e checkout) error {
	order, email := e.Data.Object.Order, e.Data.Object.Details.Email
	if order == "" {
		return hookonce.Permanent(fmt.Errorf("checkout of event %s has no client_reference_id", ev.ID))
	}
	// After a failed statement SQLite still commits the others: never ignore an error.
	if _, err := tx.ExecContext(ctx, `
		INSERT INTO orders (id, email, status) VALUES (?1, ?2, 'paid')
		ON CONFLICT (id) DO UPDATE SET email = ?2, status = 'paid'`, order, email); err != nil {
		return err
	}
	// Not safe to repeat by itself; happens once because it commits with the event.
	if _, err := tx.ExecContext(ctx, `
		UPDATE stock SET quantity = stock.quantity - l.quantity
		FROM order_lines l WHERE l.order_id = ?1 AND l.sku = stock.sku`, order); err != nil {
		return err
	}
	return s.outbox.EnqueueTx(ctx, tx,
		&hookonce.Message{Destination: "shipping", Type: "order.paid", Header: http.Header{"Content-Type": {"text/plain"}}, Body: []byte(order)},
		&hookonce.Message{Destination: "mail", Type: "receipt", Header: http.Header{"Mail-To": {email}}, Body: []byte("Thank you for order " + order + ".\r\n")})
}

// writeMail stands in for a mail server. The message's id names the file and is the same on every
// attempt, so sending again rewrites the same file.
func writeMail(_ context.Context, m *hookonce.Outgoing) error {
	to, err := mail.ParseAddress(m.Header.Get("Mail-To"))
	if err != nil {
		return hookonce.Permanent(err) // no attempt can do better
	}
	folder := cmp.Or(os.Getenv("MAIL_FOLDER"), "mail")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	name := filepath.Join(folder, m.ID+".eml")
	content := "From: shop@example.com\r\nTo: " + to.String() + "\r\nSubject: Your receipt\r\n\r\n" + string(m.Body)
	if err := os.WriteFile(name+".part", []byte(content), 0o600); err != nil {
		return err
	}
	return os.Rename(name+".part", name)
}

// serve receives and works until ctx ends, then stops in order.
func serve(ctx context.Context, in *hookonce.Inbox[*sql.Tx]) error {
	listener, err := net.Listen("tcp", cmp.Or(os.Getenv("LISTEN"), ":8080"))
	if err != nil {
		return err
	}
	server := &http.Server{Handler: in, ReadHeaderTimeout: 5 * time.Second}
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
	return errors.Join(err, <-ran)
}
