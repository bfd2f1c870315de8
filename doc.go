// Package hookonce receives webhooks and makes their at-least-once delivery
// behave like exactly-once processing.
//
// Senders deliver an event again whenever an answer was slow, lost or an
// error: twice, twenty times, at the same moment, out of order. And anybody
// can send something that looks like it. An [Inbox] verifies the signature
// over the raw bytes, claims the sender's event id in the database by a unique
// key, commits, and only then answers 2xx. What the event owes is written by
// that same commit and worked off behind it.
//
// # What is promised
//
//   - An answer of 2xx means durably committed. Whenever that is not certain
//     the answer is 503, and the sender's retry settles it by the unique key.
//   - One event, identified by its source and the sender's event id, is
//     claimed once while its identity is kept (Config.DedupeWindow), however
//     many processes on however many machines receive copies of it.
//   - Messages to destinations are sent at least once, under one id
//     (webhook-id, Idempotency-Key) that stays the same over all attempts.
//   - Nothing authentic that keeps the limits is lost: what verifies but cannot
//     be read as an event is kept in the quarantine, and what could not be sent
//     ends as a dead letter. Nothing owed is ever pruned.
//   - Nothing forged gets in: what does not verify is not parsed, not stored,
//     and cannot take the identity of the real event.
//
// Not promised: order, exactly one HTTP request to a destination, and
// deduplication after the dedupe window. On a database that loses commits
// (an asynchronous replica after a failover) acknowledged events can be lost
// with them.
//
// # Parts
//
// An Inbox works on a store: github.com/hookonce/hookonce/hookpgx makes one
// for PostgreSQL, github.com/hookonce/hookonce/hooksql one for SQLite. A
// [Source] says who sends and how it signs, a [Destination] where messages go,
// a [Route] which events become messages for which destination.
//
//	in, err := hookonce.New(store, &hookonce.Config{
//		Sources: []hookonce.Source{{
//			Name:     "stripe",
//			Provider: provider.Stripe,
//			Secrets:  hookonce.StaticSecrets(secret),
//		}},
//		Destinations: []hookonce.Destination{{Name: "billing", URL: "http://billing:3000/hooks"}},
//		Routes:       []hookonce.Route{{Name: "billing", Sources: []string{"stripe"}, To: "billing"}},
//	})
//	if err != nil {
//		return err
//	}
//	http.Handle("/webhooks/{source}", in)
//	go in.Run(ctx)
//
// # States
//
// An event is pending until an application takes it (Source.Consume), or
// running while one of its messages is pending or sending, then done, dead or
// skipped. Without a route it is done at once, with the note "no route". A
// message goes from pending to sending to sent, back to pending when an
// attempt fails, and to dead when its attempts are used up or the destination
// answered 410. A delivery of a dead event reopens it under a new generation
// (Source.Redelivery).
package hookonce
