package demo

import (
	"context"
	"database/sql"
	"fmt"
)

// tally holds the numbers of one receiver.
type tally struct {
	// As the senders saw it, and the system.
	deliveries, duplicates, refused, kills int
	// From the receiver's database.
	events  int // known ones
	foreign int // known ones that no provider sent
	stale   int // skipped, because a newer change was applied
	dead    int // dead letters, before they were replayed
	open    int // neither done nor skipped at the end, dead ones included
	// From the ledger.
	effects     int
	repeated    int   // requests of the gateway that the bank knew by their key
	forged      int   // effects of events that no provider sent
	lost        int   // events without an effect that were not stale
	twice       int   // events with more than one effect
	overwritten int   // changes that replaced a newer one
	cents       int64 // booked
}

// identity identifies an event.
type identity struct{ source, id string }

// entry is a row of a ledger.
type entry struct {
	identity
	facts
}

// readLedger returns the rows of a ledger in their order.
func readLedger(ctx context.Context, db *sql.DB) ([]entry, error) {
	return list(ctx, db, "SELECT source, event_id, account, cents, version FROM ledger ORDER BY seq",
		func(scan func(...any) error) (e entry, err error) {
			return e, scan(&e.source, &e.id, &e.account, &e.cents, &e.version)
		})
}

// sums counts the effects of the traffic in a ledger. skipped holds the events that the receiver says it
// skipped: such an event is not lost if the ledger has a newer change of that customer.
func (t *tally) sums(sent []*event, ledger []entry, skipped map[identity]bool) {
	effects := make(map[identity]int, len(sent))
	type customer struct{ source, account string }
	newest := make(map[customer]int64)
	t.effects = len(ledger)
	for _, e := range ledger {
		effects[e.identity]++
		t.cents += e.cents
		if of := (customer{e.source, e.account}); e.version > 0 {
			if e.version < newest[of] {
				t.overwritten++
			}
			newest[of] = max(newest[of], e.version)
		}
	}
	for _, e := range sent {
		n := effects[e.identity()]
		stale := skipped[e.identity()] && newest[customer{string(e.source), e.account}] > e.version
		switch {
		case n == 0 && !stale:
			t.lost++
		case n > 1:
			t.twice++
		}
		delete(effects, e.identity())
	}
	for _, n := range effects { // those that are left
		t.forged += n
	}
}

func (e *event) identity() identity { return identity{string(e.source), e.id} }

// know counts the events in the receiver's database.
func (t *tally) know(sent []*event, known []identity) {
	expected := make(map[identity]bool, len(sent))
	for _, e := range sent {
		expected[e.identity()] = true
	}
	t.events = len(known)
	for _, id := range known {
		if !expected[id] {
			t.foreign++
		}
	}
}

// saw takes the counts of the senders.
func (t *tally) saw(c *counts, kills int) {
	t.deliveries, t.duplicates, t.refused = int(c.sent.Load()), int(c.duplicates.Load()), int(c.refused.Load())
	t.kills = kills
}

// countGateway returns the numbers of hookonce: from its database, and from the ledger of the bank.
func countGateway(ctx context.Context, sent []*event, d *database, folder string) (*tally, error) {
	t := new(tally)
	events, err := d.stored(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the events of the gateway: %w", err)
	}
	skipped := make(map[identity]bool)
	var known []identity
	for _, e := range events {
		id := identity{e.source, e.id}
		known = append(known, id)
		switch e.state {
		case "done":
		case "skipped":
			skipped[id] = true
			t.stale++
		default:
			t.open++
		}
	}
	t.know(sent, known)
	return t, withLedger(ctx, folder, bankLedger, func(db *sql.DB) error {
		ledger, err := readLedger(ctx, db)
		if err != nil {
			return err
		}
		t.sums(sent, ledger, skipped)
		return db.QueryRowContext(ctx, "SELECT count(*) FROM repeated").Scan(&t.repeated)
	})
}

// countNaive returns the numbers of the other receiver.
func countNaive(ctx context.Context, sent []*event, folder string) (*tally, error) {
	t := new(tally)
	return t, withLedger(ctx, folder, naiveLedger, func(db *sql.DB) error {
		known, err := list(ctx, db, "SELECT DISTINCT source, event_id FROM seen", func(scan func(...any) error) (id identity, err error) {
			return id, scan(&id.source, &id.id)
		})
		if err != nil {
			return err
		}
		t.know(sent, known)
		ledger, err := readLedger(ctx, db)
		t.sums(sent, ledger, nil)
		return err
	})
}

// withLedger calls read with the ledger of a process, which may be running.
func withLedger(ctx context.Context, folder, name string, read func(*sql.DB) error) error {
	db, err := openLedger(ctx, folder, name)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := read(db); err != nil {
		return fmt.Errorf("reading the ledger %s: %w", name, err)
	}
	return nil
}

// money returns the sum of the transfers that were sent.
func (p *plan) money() (cents int64) {
	for _, e := range p.events {
		cents += e.cents
	}
	return cents
}

// faults returns the numbers of hookonce that are not as promised.
func (t *tally) faults(p *plan) []string {
	var faults []string
	wrong := func(is bool, format string, args ...any) {
		if is {
			faults = append(faults, fmt.Sprintf(format, args...))
		}
	}
	wrong(t.events != len(p.events), "%d events in the database, %d sent", t.events, len(p.events))
	wrong(t.foreign > 0, "%d events in the database that no provider sent", t.foreign)
	wrong(t.refused != p.forged, "%d forgeries refused of %d", t.refused, p.forged)
	wrong(t.forged > 0, "%d forged events took effect", t.forged)
	wrong(t.lost > 0, "%d events lost", t.lost)
	wrong(t.twice > 0, "%d events done twice", t.twice)
	wrong(t.overwritten > 0, "%d newer changes overwritten by older ones", t.overwritten)
	wrong(t.open > 0, "%d events unfinished", t.open)
	wrong(t.dead == 0, "no dead letter, although an account was closed")
	wrong(t.kills != kills, "the gateway was killed %d times, not %d", t.kills, kills)
	wrong(t.cents != p.money(), "%s EUR booked, %s EUR sent", euros(t.cents), euros(p.money()))
	return faults
}
