package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/hookpgx"
)

// What a real shop has in migrations of its own. It fills order_lines before the
// customer goes to the checkout.
const schema = `
CREATE TABLE IF NOT EXISTS stock (sku text PRIMARY KEY, quantity bigint NOT NULL);
CREATE TABLE IF NOT EXISTS orders (
	id text PRIMARY KEY, customer text NOT NULL, email text NOT NULL, status text NOT NULL,
	payment text NOT NULL DEFAULT '', refunded bigint NOT NULL DEFAULT 0);
CREATE INDEX IF NOT EXISTS orders_payment ON orders (payment);
CREATE TABLE IF NOT EXISTS order_lines (order_id text, sku text, quantity bigint NOT NULL, PRIMARY KEY (order_id, sku));
CREATE TABLE IF NOT EXISTS subscriptions (id text PRIMARY KEY, customer text NOT NULL, status text NOT NULL, plan text NOT NULL);
CREATE TABLE IF NOT EXISTS access (customer text, plan text, granted_at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (customer, plan));`

type shop struct {
	outbox   *hookonce.Outbox[pgx.Tx]
	shipping shipping
}

func (s *shop) handlers() *hookpgx.Mux {
	mux := &hookpgx.Mux{}
	hookonce.HandleJSON(mux, "stripe", "checkout.session.completed", s.paid)
	hookonce.HandleJSON(mux, "stripe", "charge.refunded", s.refunded)
	hookonce.HandleJSON(mux, "stripe", "customer.subscription.updated", s.subscribed)
	return mux
}

// event is what all of Stripe's events have in common.
type event[T any] struct {
	Data struct{ Object T } `json:"data"`
}

type checkout struct {
	Order    string `json:"client_reference_id"`
	Customer string `json:"customer"`
	Payment  string `json:"payment_intent"`
	Details  struct {
		Email string `json:"email"`
	} `json:"customer_details"`
}

// paid may be run more than once for an event, as when the process is killed. What
// it writes in tx is kept of one run only, the one whose commit marks the event as
// done; so only what goes outside of tx has to be safe to repeat by itself.
func (s *shop) paid(ctx context.Context, tx pgx.Tx, ev *hookonce.Event, e event[checkout]) error {
	c := e.Data.Object
	if c.Order == "" {
		// The same bytes will not have one next time either: dead at once, for somebody to look at.
		return hookonce.Permanent(fmt.Errorf("checkout of event %s has no client_reference_id", ev.ID))
	}
	// An upsert, since a checkout may be told of before the order is stored here. It
	// says what is, not what to change, so it may be said again.
	_, err := tx.Exec(ctx, `
		INSERT INTO orders (id, customer, email, status, payment) VALUES ($1, $2, $3, 'paid', $4)
		ON CONFLICT (id) DO UPDATE SET customer = $2, email = $3, status = 'paid', payment = $4`,
		c.Order, c.Customer, c.Details.Email, c.Payment)
	if err != nil {
		return err
	}
	// Counted by the database and not in Go, so that handlers side by side lose
	// nothing; in the order of the SKUs, so that they do not deadlock. To subtract is
	// not safe to repeat: it is done once because it commits with the event.
	_, err = tx.Exec(ctx, `
		WITH taken AS (
			SELECT s.sku, l.quantity FROM stock s JOIN order_lines l USING (sku)
			WHERE l.order_id = $1 ORDER BY s.sku FOR UPDATE OF s)
		UPDATE stock SET quantity = stock.quantity - taken.quantity FROM taken WHERE stock.sku = taken.sku`, c.Order)
	if err != nil {
		return err
	}
	// Outside of tx, so it is called on every run: the key, which is the same on all
	// of them, is how the other side knows.
	if err := s.shipping.Ship(ctx, ev.IdempotencyKey("shipping"), c.Order); err != nil {
		return fmt.Errorf("shipping order %s: %w", c.Order, err)
	}
	// The mail is sent if and only if this commits, and no handler waits for it.
	return s.outbox.EnqueueTx(ctx, tx, receipt(c.Order, c.Details.Email))
}

type charge struct {
	Payment  string `json:"payment_intent"`
	Refunded int64  `json:"amount_refunded"` // of all refunds so far, in cents
}

func (s *shop) refunded(ctx context.Context, tx pgx.Tx, _ *hookonce.Event, e event[charge]) error {
	c := e.Data.Object
	// Set, not added: the event tells the sum, and so the same event, or one that came
	// late, does no harm.
	tag, err := tx.Exec(ctx, `UPDATE orders SET refunded = greatest(refunded, $2) WHERE payment = $1`, c.Payment, c.Refunded)
	if err == nil && tag.RowsAffected() == 0 {
		// Events come in any order: the checkout may still be on its way. The next
		// attempt finds it; if there is none, this ends as a dead letter.
		err = fmt.Errorf("there is no order with payment %s yet", c.Payment)
	}
	return err
}

type subscription struct {
	ID       string `json:"id"`
	Customer string `json:"customer"`
	Status   string `json:"status"`
	Plan     struct {
		ID string `json:"id"`
	} `json:"plan"`
}

// subscribed gets no event that is older than what it has applied; see
// Source.Stale.
func (s *shop) subscribed(ctx context.Context, tx pgx.Tx, _ *hookonce.Event, e event[subscription]) error {
	sub := e.Data.Object
	_, err := tx.Exec(ctx, `
		INSERT INTO subscriptions (id, customer, status, plan) VALUES ($1, $2, $3, $4)
		ON CONFLICT (id) DO UPDATE SET status = $3, plan = $4`, sub.ID, sub.Customer, sub.Status, sub.Plan.ID)
	if err != nil {
		return err
	}
	if sub.Status != "active" && sub.Status != "trialing" {
		_, err = tx.Exec(ctx, `DELETE FROM access WHERE customer = $1 AND plan = $2`, sub.Customer, sub.Plan.ID)
		return err
	}
	// Granted only if it is not granted yet; granted_at stays what it was.
	_, err = tx.Exec(ctx, `INSERT INTO access (customer, plan) VALUES ($1, $2) ON CONFLICT DO NOTHING`, sub.Customer, sub.Plan.ID)
	return err
}
