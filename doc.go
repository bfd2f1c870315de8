// Package hookonce receives webhooks and makes their at-least-once delivery
// behave like exactly-once processing.
//
// Senders deliver an event again whenever an answer was slow, lost or an
// error: twice, twenty times, at the same moment, out of order. And anybody
// can send something that looks like it. An [Inbox] verifies the signature
// over the raw bytes, claims the sender's event id in the database by a unique
// key, commits, and only then answers 2xx. What the event owes is written by
// that same commit and worked off behind it: a handler works in your own
// transaction, in which the event is marked as done too, and messages are sent to
// destinations under one id.
//
// # Quickstart
//
// A handler gets a transaction. What it writes, the mark that the event is done,
// and the messages it enqueues are committed together or not at all:
//
//	db := hookpgx.New(pool)                    // fixes the type of transactions: pgx.Tx
//	if _, err := hookmigrate.Up(ctx, db); err != nil {
//		return err
//	}
//	outbox := hookonce.NewOutbox(db)
//	mux := &hookpgx.Mux{}
//	hookonce.HandleJSON(mux, "stripe", "invoice.paid",
//		func(ctx context.Context, tx pgx.Tx, ev *hookonce.Event, inv Invoice) error {
//			if _, err := tx.Exec(ctx, markPaid, inv.ID); err != nil {
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
//	go in.Run(ctx)                             // handlers, messages, upkeep; drains when ctx ends
//
// Packages hookpgx and hooksql open databases: PostgreSQL by pgx, and PostgreSQL
// and SQLite by database/sql, where a transaction is a *sql.Tx. A handler for
// another type of transaction does not compile. Package hooktest signs requests
// and runs handlers in tests.
//
// # What is promised
//
//   - Acknowledged means durably committed: an answer of 2xx is written after the
//     commit. Whenever that is not certain the answer is 503, and the sender's
//     retry settles it by the unique key.
//   - Effects that are written through the given transaction happen exactly once
//     for each (source, event id, generation), while the identity is kept
//     (Config.DedupeWindow), however many copies arrive and however many processes
//     are killed at whatever moment.
//   - Messages and forwarded requests are sent at least once, under a key
//     (webhook-id, Idempotency-Key) that stays the same over all attempts.
//   - Nothing authentic that keeps the limits is lost: every event ends as done,
//     skipped or dead, and what verifies but cannot be read as an event is kept in
//     the quarantine. Nothing owed is ever pruned.
//   - Nothing forged gets in: what does not verify is not parsed, not stored,
//     and cannot take the identity of the real event.
//
// # What is not promised
//
//   - Order. Rules ([StaleRule]) skip what is older than what was applied.
//   - That a handler is run once. What it does outside of its transaction may
//     happen again: it belongs into the outbox ([Outbox]), or carries a key
//     ([Event.IdempotencyKey]) by which the other side recognises it.
//   - That a handler which ends its transaction by itself takes effect once; it
//     must not. When that is noticed its event is dead, and is not run again.
//   - Exactly one HTTP request for each message.
//   - Anything past the dedupe window, or on a database that loses commits, as an
//     asynchronous replica does after a failover.
//
// # Three ways to work
//
// Queued, the normal one: the delivery is claimed and answered, and workers ([Inbox]
// runs them) take what is due. They take only events whose source and type their
// own [Mux] has a handler for, so processes with different handlers share one
// database.
//
// Inline ([Source].Inline): claim, handler and done mark are one transaction, and
// the answer comes after its commit. A handler that fails undoes the claim, and
// the sender's retry is a first delivery.
//
// In your own transaction: [Engine.Verify] and [Inbox.ClaimTx], with a router of
// your own.
//
// An application in another language takes events with SQL functions instead
// ([ConsumeSQL]), or has them forwarded by routes ([Route]).
//
// # States
//
// An event is pending until it is worked on, running while it is, and then done,
// dead (out of attempts, or failed for good) or skipped (stale, or discarded by an
// operator). One that only has routes is running while one of its messages is open;
// then done, dead or skipped as they are. Without a handler or a route it is done at
// once, with the note "no route". A failed attempt is repeated after a random time
// that grows ([Retry]); an attempt that was interrupted, because its process was
// killed, counts too, if the event was alone in its run. A delivery of a dead event
// reopens it under a new generation ([Source].Redelivery), and so does an operator's
// replay ([Engine.Replay]).
//
// A message goes from pending to sending to sent, back to pending when an attempt
// fails, and to dead when its attempts are used up or the destination refused it for
// good.
package hookonce
