// Package hookonce receives webhooks and makes their at-least-once delivery behave like
// exactly-once processing.
//
// Senders deliver an event again whenever an answer was slow, lost or an error: twice, twenty
// times, at the same moment, out of order. And anybody can forge a request that looks like a
// delivery. An [Inbox] verifies the signature over the raw bytes, claims the sender's event id in
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
//	http.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
//		if err := in.Ready(r.Context()); err != nil {
//			http.Error(w, "not ready", http.StatusServiceUnavailable)
//		}
//	})
//	go func() {
//		// Run runs handlers, sends messages and does the upkeep. It drains when ctx ends. Without
//		// it, events are only stored.
//		if err := in.Run(ctx); err != nil {
//			log.Fatal(err)
//		}
//	}()
//
// Packages hookpgx and hooksql open databases: PostgreSQL with pgx, and PostgreSQL and SQLite with
// database/sql, where a transaction is a *sql.Tx. A handler for another transaction type does not
// compile. Package hooktest signs requests and runs handlers in tests.
//
// # What is promised
//
//   - An answer of 2xx means durably committed: it is written after the commit. Whenever the commit
//     is uncertain, the answer is 503, and the sender's retry settles it by the unique key.
//   - An effect that a handler writes through its transaction happens exactly once for each
//     (source, event id, generation), while the identity is kept (Config.DedupeWindow). This holds
//     for any number of copies and of processes killed at any moment.
//   - Messages and forwarded requests are sent at least once, under a key (webhook-id,
//     Idempotency-Key) that is the same on every attempt.
//   - Nothing authentic within the limits is lost: every event ends as done, skipped or dead, and a
//     verified request that cannot be read as an event is kept in the quarantine. Unfinished work
//     is never pruned.
//   - Nothing forged gets in: a request that does not verify is neither parsed nor stored, and
//     cannot take the identity of a real event.
//
// # What is not promised
//
//   - Order. Rules ([StaleRule]) skip events that are older than an applied one.
//   - That a handler runs once. Its effects outside the transaction may happen again: put them into
//     the outbox ([Outbox]), or send a key ([Event.IdempotencyKey]) by which the other side
//     recognises them.
//   - That a handler may end its transaction: it must not. If it commits by itself, its event is
//     dead with the note driver.NoteTxEnded, and only a replay that names the note runs it again.
//   - Exactly one HTTP request for each message.
//   - Anything past the dedupe window, or on a database that loses commits, as an asynchronous
//     replica does after a failover.
//
// # Three ways to work
//
// Queued, the normal one: the delivery is claimed and answered, and the workers of the [Inbox] take
// due events. They take only events whose source and type have a handler in their own [Mux], so
// processes with different handlers can share one database.
//
// Inline ([Source].Inline): claim, handler and done mark are one transaction, and the answer comes
// after its commit. A failed handler undoes the claim, and the sender's retry is a first delivery.
//
// In your own transaction: [Engine.Verify] and [Inbox.ClaimTx], with a router of your own.
//
// An application in another language takes events with SQL functions instead ([ConsumeSQL]), or
// gets them forwarded by routes ([Route]).
//
// # States
//
// An event is pending until a worker takes it, running while its handler runs, and then done, dead
// (out of attempts, or failed for good) or skipped (stale, or discarded by an operator). An event
// that has only routes is running while one of its messages is open, and then done, dead or skipped
// as they are. An event without a handler or a route is done at once, with the note "no route".
//
// A failed attempt is repeated after a growing random time ([Retry]). An attempt that was
// interrupted because its process was killed counts too, if the event was alone in its run. A
// delivery of a dead event reopens it under a new generation ([Source].Redelivery), and so does an
// operator's replay ([Engine.Replay]).
//
// A message goes from pending to sending to sent. A failed attempt makes it pending again; it is
// dead when its attempts are used up or the destination refuses it for good.
package hookonce
