package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/hookpgx"
)

// A real shop has these tables in its own migrations. It fills order_lines before the customer goes
// to the checkout.
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

// event is the common form of Stripe's events.
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

// paid may run more than once for an event, for example when the process is killed. Only one run's
// writes in tx remain: the run whose commit marks the event as done. So only effects outside tx must
// be safe to repeat by themselves.
func (s *shop) paid(ctx context.Context, tx pgx.Tx, ev *hookonce.Event, e event[checkout]) error {
	c := e.Data.Object
	if c.Order == "" {
		// The same bytes cannot do better next time: dead at once, for an operator to look at.
		return hookonce.Permanent(fmt.Errorf("checkout of event %s has no client_reference_id", ev.ID))
	}
	// An upsert, because the event may come before the order is stored here. It states a fact, not
	// a change, so it can be repeated.
	_, err := tx.Exec(ctx, `
		INSERT INTO orders (id, customer, email, status, payment) VALUES ($1, $2, $3, 'paid', $4)
		ON CONFLICT (id) DO UPDATE SET customer = $2, email = $3, status = 'paid', payment = $4`,
		c.Order, c.Customer, c.Details.Email, c.Payment)
	if err != nil {
		return err
	}
	// The database subtracts, not Go, so that concurrent handlers lose no update; in the order of
	// the SKUs, so that they do not deadlock. Subtracting is not safe to repeat: it happens once
	// because it commits with the event.
	_, err = tx.Exec(ctx, `
		WITH taken AS (
			SELECT s.sku, l.quantity FROM stock s JOIN order_lines l USING (sku)
			WHERE l.order_id = $1 ORDER BY s.sku FOR UPDATE OF s)
		UPDATE stock SET quantity = stock.quantity - taken.quantity FROM taken WHERE stock.sku = taken.sku`, c.Order)
	if err != nil {
		return err
	}
	// Outside tx, so every run calls it. The key is the same on all runs, so the other side does
	// the work once.
	if err := s.shipping.Ship(ctx, ev.IdempotencyKey("shipping"), c.Order); err != nil {
		return fmt.Errorf("shipping order %s: %w", c.Order, err)
	}
	// The mail is sent if and only if this transaction commits, and no handler waits for it.
	return s.outbox.EnqueueTx(ctx, tx, receipt(c.Order, c.Details.Email))
}

type charge struct {
	Payment  string `json:"payment_intent"`
	Refunded int64  `json:"amount_refunded"` // sum of all refunds so far, in cents
}

func (s *shop) refunded(ctx context.Context, tx pgx.Tx, _ *hookonce.Event, e event[charge]) error {
	c := e.Data.Object
	// Set, not added: the event carries the sum, so a repeated or late event does no harm.
	tag, err := tx.Exec(ctx, `UPDATE orders SET refunded = greatest(refunded, $2) WHERE payment = $1`, c.Payment, c.Refunded)
	if err == nil && tag.RowsAffected() == 0 {
		// Events come in any order: the checkout may still be on its way. The next attempt finds
		// it; if it never comes, this event ends as a dead letter.
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

// subscribed never gets an event that is older than the last applied one; see Source.Stale.
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
	// Grant only if not granted yet; granted_at does not change.
	_, err = tx.Exec(ctx, `INSERT INTO access (customer, plan) VALUES ($1, $2) ON CONFLICT DO NOTHING`, sub.Customer, sub.Plan.ID)
	return err
}
