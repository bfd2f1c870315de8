// Package hookonce receives webhooks and makes their at-least-once delivery behave like
// exactly-once processing.
//
// Senders deliver an event again whenever an answer was slow, lost or an error, also at the same
// moment and out of order. And anybody can forge a request that looks like a delivery. An [Inbox] verifies the signature over the raw bytes, claims the sender's event id in
// the database by a unique key, commits, and only then answers 2xx. The same commit stores the work
// that follows: a handler runs in your own transaction, which also marks the event as done, and
// messages go to destinations under a stable id.
//
// # Quickstart
//
// A handler gets a transaction. Its writes, the event's done mark and the messages that it enqueues
// commit together or not at all:
//
//	db := hookpgx.New(pool)                    // fixes the transaction type: pgx.Tx
//	if _, err := hookmigrate.Up(ctx, db); err != nil {
//		return err
//	}
//	outbox := hookonce.NewOutbox(db)
//	mux := &hookpgx.Mux{}
//	type invoicePaid struct { // the whole body: Stripe wraps the invoice in an event
//		Data struct{ Object struct{ ID string } }
//	}
//	hookonce.HandleJSON(mux, "stripe", "invoice.paid",
//		func(ctx context.Context, tx pgx.Tx, ev *hookonce.Event, paid invoicePaid) error {
//			if _, err := tx.Exec(ctx, markPaid, paid.Data.Object.ID); err != nil {
//				return err
//			}
//			return outbox.EnqueueTx(ctx, tx, &hookonce.Message{Destination: "crm", Body: ev.Body})
//		})
//	in, err := hookonce.New(db, mux, &hookonce.Config{
//		Sources: []hookonce.Source{{
//			Name: "stripe", Provider: provider.Stripe, Secrets: hookonce.StaticSecrets(secret),
//		}},
//		Destinations: []hookonce.Destination{{Name: "crm", URL: "https://crm.example.com/hooks"}},
//	})
//	if err != nil {
//		return err
//	}
//	http.Handle("POST /webhooks/{source}", in)
//	go func() {
//		// Without Run, events are only stored.
//		if err := in.Run(ctx); err != nil {
//			log.Fatal(err)
//		}
//	}()
//
// Packages hookpgx and hooksql open databases: PostgreSQL with pgx, and PostgreSQL and SQLite with
// database/sql, where a transaction is a *sql.Tx. A handler for another transaction type does not
// compile. Package hooktest signs requests and runs handlers in tests.
//
// # Promises
//
//   - An answer of 2xx means durably committed. If a commit is uncertain, the answer is 503.
//   - An effect that a handler writes through its transaction happens exactly once for each (source,
//     event id, generation), while the identity is kept (Config.DedupeWindow), for any number of
//     copies and of processes killed at any moment.
//   - Messages and forwarded requests are sent at least once, under a key (webhook-id,
//     Idempotency-Key) that is the same on every attempt.
//   - Nothing authentic within the limits is lost: every event ends as done, skipped or dead, and a
//     verified request that is no readable event is in the quarantine.
//   - Nothing forged gets in: a request that does not verify is neither parsed nor stored.
//
// Not promised are an order of events without an [Order]; that a handler runs once, so effects outside its
// transaction belong in the [Outbox] or carry an [Event.IdempotencyKey]; exactly one HTTP request for each
// message; and anything past the dedupe window, or on a database that loses commits.
//
// # Three ways to work
//
// Queued, the normal one: the delivery is claimed and answered, and the workers of an [Inbox] take due
// events that have a handler in its [Mux]. So processes with different handlers can share a database.
//
// Inline ([Source].Inline): claim, handler and done mark are one transaction, and the answer comes
// after its commit. A failed handler undoes the claim, and the sender's retry is a first delivery.
//
// In your own transaction: [Engine.Verify] and [Inbox.ClaimTx], with a router of your own. An application
// in another language takes events with SQL functions ([ConsumeSQL]), or gets them by routes ([Route]).
//
// # States
//
// An event is pending until a worker takes it, running while its handler runs or one of its messages is
// open, and then done, dead (out of attempts, or failed for good) or skipped (stale, or discarded by an
// operator). Without a handler or a route it is done at once, with the note "no route". A failed attempt
// is repeated after a growing random time ([Retry]); so is one whose process was killed. A delivery of a
// dead event reopens it under a new generation ([Source].Redelivery), and so does an operator's replay
// ([Engine.Replay]). A message goes from pending to sending to sent, or to dead.
package hookonce
