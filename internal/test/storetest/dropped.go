package storetest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// DropRow returns SQL that creates a trigger on a table with the column key, or on message. The trigger
// drops new rows of one event, without an error. {schema} stands for the PostgreSQL schema.
func DropRow(table string, key driver.Key) (postgres, sqlite string) {
	column := "key"
	if table == "message" {
		column = "event_key"
	}
	postgres = fmt.Sprintf(`
CREATE FUNCTION {schema}.drop_%[1]s() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE TRIGGER drop_%[1]s BEFORE INSERT ON {schema}.%[1]s
	FOR EACH ROW WHEN (NEW.%[2]s = '\x%[3]x'::bytea) EXECUTE FUNCTION {schema}.drop_%[1]s();`, table, column, key)
	sqlite = fmt.Sprintf(`CREATE TRIGGER drop_%[1]s BEFORE INSERT ON hookonce_%[1]s WHEN NEW.%[2]s = x'%[3]x'
		BEGIN SELECT RAISE(IGNORE); END`, table, column, key)
	return postgres, sqlite
}

// Refusal is the SQL for a trigger that refuses the change of a row, as a rule of the database's owner may, and the SQL that
// ends it.
type Refusal struct{ Begin, End string }

// RefuseRow returns the refusal of one event's rows. In the table event it refuses a new row, in message each change, in
// event_state that the event becomes done, and in delivery_count that a row is removed. In ordered_message the key is that of
// a line, and it refuses each change. {schema} stands for the PostgreSQL schema.
func RefuseRow(table string, key driver.Key) (postgres, sqlite Refusal) {
	column, when, only, row := "key", "INSERT", "", "NEW"
	switch table {
	case "message":
		column, when = "event_key", "UPDATE"
	case "ordered_message":
		column, when = "line", "UPDATE"
	case "event_state":
		when, only = "UPDATE", "NEW.state = 2 AND "
	case "delivery_count":
		when, row = "DELETE", "OLD"
	}
	postgres.Begin = fmt.Sprintf(`
CREATE FUNCTION {schema}.refuse_%[1]s() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not this one'; END $$;
CREATE TRIGGER refuse_%[1]s BEFORE %[2]s ON {schema}.%[1]s
	FOR EACH ROW WHEN (%[5]s%[6]s.%[3]s = '\x%[4]x'::bytea) EXECUTE FUNCTION {schema}.refuse_%[1]s();`, table, when, column, key, only, row)
	postgres.End = fmt.Sprintf("DROP FUNCTION {schema}.refuse_%s() CASCADE", table)
	sqlite.Begin = fmt.Sprintf(`CREATE TRIGGER refuse_%[1]s BEFORE %[2]s ON hookonce_%[1]s WHEN %[5]s%[6]s.%[3]s = x'%[4]x'
		BEGIN SELECT RAISE(ABORT, 'not this one'); END`, table, when, column, key, only, row)
	sqlite.End = "DROP TRIGGER refuse_" + table
	return postgres, sqlite
}

// RefuseDone returns SQL for PostgreSQL that creates a trigger. The trigger refuses, with an error code, that an event with
// a handler becomes done. {schema} stands for the schema.
func RefuseDone(key driver.Key, code string) string {
	return fmt.Sprintf(`
CREATE FUNCTION {schema}.refuse_done() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not this one' USING ERRCODE = '%[1]s'; END $$;
CREATE TRIGGER refuse_done BEFORE UPDATE ON {schema}.event_state
	FOR EACH ROW WHEN (NEW.state = 2 AND NEW.key = '\x%[2]x'::bytea) EXECUTE FUNCTION {schema}.refuse_done();`, code, key)
}

// claimRefused has a trigger that refuses the row of an event. That event alone is at fault, so the
// others can be claimed without it.
func claimRefused(f *fixture, routes ...string) {
	refused, other := newQueued("refused", routes...), newQueued("other", routes...)
	f.with.Refuse(f.T, f.s, "event", refused.Key)
	for _, claims := range [][]driver.Claim{sorted(refused, other), {refused}} {
		results, err := f.s.Claim(f.Context(), &driver.ClaimParams{Claims: claims, Now: t0})
		if !errors.Is(err, driver.ErrBadRow) || errors.Is(err, driver.ErrUnavailable) {
			f.Errorf("Claim of %d events while a trigger refuses one: results %+v, error %v, want %v", len(claims), results, err, driver.ErrBadRow)
		}
	}
	f.absent("stripe", "other")
	f.claimNew(t0, other)
}

// inlineRefused has a trigger that refuses the dead letter of an Inline source that failed first. The others are filed.
func inlineRefused(f *fixture) {
	refused, other := newInline("refused", "audit"), newInline("other", "audit")
	for i, c := range []driver.Claim{refused, other} {
		if _, err := f.s.CountInlineFailure(f.Context(), inlineFailure(t0.Add(time.Duration(i)*time.Second), c, 5)); err != nil {
			f.Fatal(err)
		}
	}
	f.with.Refuse(f.T, f.s, "event", refused.Key)
	filed, err := f.s.FileInlineFailures(f.Context(), &driver.FileFailuresParams{OlderThan: time.Hour, Limit: 10, Now: t0.Add(day)})
	if len(filed) != 1 || filed[0].EventID != other.EventID || err == nil {
		f.Errorf("FileInlineFailures while a trigger refuses one: %+v filed and the error %v, want the other one and an error", filed, err)
	}
	f.absent("stripe", "refused")
}

// claimDropped has a trigger that drops one row of an event. The event is neither claimed nor a
// duplicate; the other claims are as they would be without it.
func claimDropped(f *fixture, routes ...string) {
	tables := []string{"event", "event_state", "message"}
	if len(routes) == 0 {
		tables = tables[:2]
	}
	for i, table := range tables {
		dropped, other, known := newQueued("dropped "+table, routes...), newQueued("other "+table, routes...), newQueued("known "+table, routes...)
		f.claimNew(t0, known)
		f.with.Drop(f.T, f.s, table, dropped.Key)
		p := &driver.ClaimParams{Claims: sorted(dropped, other, known), Now: t0}
		want := map[driver.Key]driver.ClaimResult{other.Key: {Claimed: true}, known.Key: {Duplicate: true}, dropped.Key: {}}
		results, err := f.s.Claim(f.Context(), p)
		switch {
		case errors.Is(err, driver.ErrNotStored): // nothing was claimed
			f.absent("stripe", "other "+table)
			same(f, "claims without it", []driver.ClaimResult{{Claimed: true}, {Duplicate: true}}, f.claim(t0, other, known))
		case err != nil:
			f.Fatalf("Claim while a trigger drops rows of %s: %v", table, err)
		default:
			for j, got := range results {
				same(f, "result of "+p.Claims[j].EventID, want[p.Claims[j].Key], got)
			}
		}
		results, err = f.s.Claim(f.Context(), &driver.ClaimParams{Claims: []driver.Claim{dropped}, Now: t0})
		if !errors.Is(err, driver.ErrNotStored) && (err != nil || results[0].Settled()) {
			f.Errorf("claim alone while a trigger drops rows of %s: %+v, error %v; want it unsettled, or %v", table, results, err, driver.ErrNotStored)
		}
		f.absent("stripe", "dropped "+table)
		found, err := f.s.ForeignTriggers(f.Context())
		if err != nil || len(found) != i+1 || !strings.Contains(strings.Join(found, "\n"), "trigger drop_"+table+" on ") {
			f.Errorf("ForeignTriggers: %q, error %v, want %d, with drop_%s", found, err, i+1, table)
		}
	}
}

// quarantineDropped has a trigger that drops a quarantined request: Quarantine fails.
func quarantineDropped(f *fixture) {
	request := func(body string) driver.Quarantined {
		return driver.Quarantined{
			Source: "shop", Body: []byte(body), BodyHash: sha256.Sum256([]byte(body)), Headers: []byte("{}"), Reason: "no id",
		}
	}
	kept, dropped := request("kept"), request("dropped")
	f.with.Drop(f.T, f.s, "quarantine", driver.BodyKey(dropped.Source, dropped.BodyHash))
	err := f.s.Quarantine(f.Context(), &driver.QuarantineParams{Requests: []driver.Quarantined{kept, dropped}, Now: t0})
	if !errors.Is(err, driver.ErrNotStored) {
		f.Errorf("Quarantine while a trigger drops rows: got the error %v, want %v", err, driver.ErrNotStored)
	}
	f.quarantine(t0, kept)
	f.quarantine(t0, kept) // counted
}

// takeClaimDropped is claimDropped for claims in the transaction of the work.
func takeClaimDropped[T any](w *bench[T]) {
	for _, table := range []string{"event", "event_state", "message"} {
		c := newInline("dropped "+table, "audit")
		w.h.Drop(w.T, w.d, table, c.Key)
		run, got, err := w.d.TakeClaim(w.Context(), claimParams(t0, true, c))
		if !errors.Is(err, driver.ErrNotStored) || run != nil {
			w.Errorf("TakeClaim while a trigger drops rows of %s: run %v, result %+v, error %v", table, run, got, err)
		}
		tx, _, rollback := w.h.Begin(w.T, w.d)
		if got, err := w.d.ClaimTx(w.Context(), tx, claimParams(t0, true, c)); !errors.Is(err, driver.ErrNotStored) {
			w.Errorf("ClaimTx while a trigger drops rows of %s: results %+v, error %v", table, got, err)
		}
		w.ok("rollback", rollback())
		w.absent("stripe", c.EventID)
	}
}

// replayDropped has a trigger that drops a new message of a replay. The event stays as it was.
func replayDropped(f *fixture) {
	c := claimUndecided(f)
	f.with.Drop(f.T, f.s, "message", c.Key)
	_, err := f.s.Replay(f.Context(), &driver.ReplayParams{Key: c.Key, Routes: undecidedMessages, Now: t0})
	if !errors.Is(err, driver.ErrNotStored) {
		f.Errorf("Replay while a trigger drops messages: got the error %v, want %v", err, driver.ErrNotStored)
	}
	wantUndecided(f)
}

// enqueueDropped has a trigger that drops one row of a message.
func enqueueDropped[T any](w *bench[T]) {
	for _, table := range []string{"event", "message"} {
		id, known := "dropped-"+table, outboxMessage("known-"+table, nil)
		w.enqueue(known)
		w.h.Drop(w.T, w.d, table, driver.OutboxKey(id))
		tx, _, rollback := w.h.Begin(w.T, w.d)
		err := w.d.EnqueueTx(w.Context(), tx, []driver.OutboxMessage{known, outboxMessage(id, nil), outboxMessage("other-"+table, nil)})
		if !errors.Is(err, driver.ErrNotStored) {
			w.Errorf("EnqueueTx while a trigger drops rows of %s: got the error %v, want %v", table, err, driver.ErrNotStored)
		}
		w.ok("rollback", rollback())
		w.enqueue(known, outboxMessage("other-"+table, nil))
	}
}

// inlineDropped has a trigger that drops one row of a dead letter. The failure stays, and the other
// dead letters are filed.
func inlineDropped[T any](w *bench[T]) {
	for _, table := range []string{"event", "event_state", "message", "event_attempt"} {
		dropped, other := newInline("dropped "+table, "audit"), newInline("other "+table, "audit")
		for i, c := range []driver.Claim{dropped, other} {
			w.countInline(inlineFailure(t0.Add(time.Duration(i)*time.Second), c, 5), driver.InlineFailed{Failures: 1})
		}
		w.h.Drop(w.T, w.d, table, dropped.Key)
		last := inlineFailure(t0, dropped, 5)
		last.Dead = true
		if got, err := w.d.CountInlineFailure(w.Context(), last); !errors.Is(err, driver.ErrNotStored) {
			w.Errorf("CountInlineFailure while a trigger drops rows of %s: %+v and the error %v, want %v", table, got, err, driver.ErrNotStored)
		}
		w.absent("stripe", dropped.EventID)
		p := &driver.FileFailuresParams{OlderThan: time.Hour, Limit: 10, Now: t0.Add(day)}
		if filed, err := w.d.FileInlineFailures(w.Context(), p); len(filed) != 1 || filed[0].EventID != other.EventID || !errors.Is(err, driver.ErrNotStored) {
			w.Errorf("FileInlineFailures while a trigger drops rows of %s: %+v filed and the error %v, want one and %v", table, filed, err, driver.ErrNotStored)
		}
		w.absent("stripe", dropped.EventID)
		w.filed(&other, p.Now, 1)
	}
}
