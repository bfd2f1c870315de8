package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/config"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/say"
)

// carryBytes bounds the bodies that one claim carries.
const carryBytes = 8 << 20

// Carried counts the ids that CarryIDs has carried over. It is the shape of hookonce migrate ids --json.
type Carried struct {
	Claimed int64 `json:"claimed,string"` // in the other database now
	Known   int64 `json:"known,string"`   // were there before
}

// CarryIDs claims each event of the database from in the database to, where it is done and has no messages: a redelivery
// there is a duplicate. It carries headers and bodies, too, but neither attempts nor history. It fails while an event or a
// message of from is not done, or a gateway serves it: their work is in no other database. It may be repeated.
func CarryIDs(ctx context.Context, from *config.Settings, to driver.Store, progress func(Carried)) (done Carried, err error) {
	if path, ok := from.SQLitePath(); ok {
		if err := checkSQLiteFile(path); err != nil {
			return done, &Error{err, "name the database of the other gateway in --from, as sqlite:/var/lib/hookonce/hookonce.db"}
		}
		lock, err := lockDatabase(path)
		if err != nil {
			return done, err
		}
		defer func() { err = errors.Join(err, lock.release()) }()
	}
	store, err := OpenStore(ctx, from)
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, closeStore(store)) }()
	if err := CheckSchema(ctx, store); err != nil {
		return done, err
	}
	if err := checkAllDone(ctx, store); err != nil {
		return done, err
	}
	filter := &driver.EventFilter{Limit: driver.MaxLimit}
	for {
		page, err := store.Events(ctx, filter)
		if err != nil {
			return done, err
		}
		if err := carry(ctx, store, to, page.Events, &done); err != nil {
			return done, err
		}
		progress(done)
		if page.Next == (driver.Cursor{}) {
			return done, nil
		}
		filter.After = page.Next
	}
}

// checkAllDone fails if something in store waits or is dead.
func checkAllDone(ctx context.Context, store driver.Store) error {
	stats, err := store.Stats(ctx)
	if err != nil {
		return err
	}
	running, err := store.Events(ctx, &driver.EventFilter{State: driver.StateRunning, Limit: 1})
	if err != nil {
		return err
	}
	open := stats.EventsPending > 0 || len(running.Events) > 0
	for _, d := range stats.Destinations {
		open = open || d.Pending+d.Sending > 0
	}
	switch {
	case open:
		return Errorf("events or messages of that database are not done").
			Try("start its gateway again until nothing waits there")
	case stats.DeadLetters > 0:
		return Errorf("that database has %s", say.Count(stats.DeadLetters, "dead letter")).
			Try("replay or discard them first, with its gateway")
	}
	return nil
}

// carry claims the events in the order of their keys.
func carry(ctx context.Context, from, to driver.Store, events []driver.Event, done *Carried) error {
	slices.SortFunc(events, func(a, b driver.Event) int { return bytes.Compare(a.Key[:], b.Key[:]) })
	var claims []driver.Claim
	size := 0
	claim := func() error {
		if len(claims) == 0 {
			return nil
		}
		results, err := to.Claim(ctx, &driver.ClaimParams{Claims: claims})
		if err != nil {
			return err
		}
		for i, r := range results {
			switch {
			case r.Claimed:
				done.Claimed++
			case r.Duplicate:
				done.Known++
			default:
				return fmt.Errorf("the event %s of %s could not be claimed: run the command again", claims[i].EventID, claims[i].Source)
			}
		}
		claims, size = claims[:0], 0
		return nil
	}
	for i := range events {
		detail, err := from.Event(ctx, events[i].Source, events[i].EventID)
		if err != nil {
			return err
		}
		claims = append(claims, driver.Claim{
			Key: events[i].Key, Source: detail.Source, EventID: detail.EventID, Type: detail.Type, OccurredAt: detail.OccurredAt,
			Headers: headersOf(detail), Body: detail.Body, BodyHash: detail.BodySHA256, BodyGuard: driver.BodyWatch,
			Remote: detail.Deliveries.FirstRemote, Gateway: detail.Deliveries.FirstGateway,
		})
		if size += len(detail.Body) + len(detail.Headers); size > carryBytes {
			if err := claim(); err != nil {
				return err
			}
		}
	}
	return claim()
}

func headersOf(detail *driver.EventDetail) []byte {
	if detail.Headers == nil { // retention has removed them
		return []byte("{}")
	}
	return detail.Headers
}
