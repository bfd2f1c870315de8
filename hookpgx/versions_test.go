package hookpgx_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce/driver"
)

// TestBusyObjectIsWrittenOnce has a run look again and again at an object that another run holds, as the delivery of an
// Inline event does. Only its first look makes sure that the object has a row.
func TestBusyObjectIsWrittenOnce(t *testing.T) {
	t.Parallel()
	w := openWork(t)
	w.exec(t, `CREATE TABLE {schema}.written (); CREATE FUNCTION {schema}.note_write() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN INSERT INTO {schema}.written DEFAULT VALUES; RETURN NEW; END $$;
		CREATE TRIGGER note_write BEFORE INSERT ON {schema}.object_version FOR EACH ROW EXECUTE FUNCTION {schema}.note_write()`)
	w.queue(t, "evt_1", "evt_2")
	object := []driver.Key{driver.ObjectKey("stripe", "", "a")}
	first, second := w.take(t, 1, false), w.take(t, 1, false)
	looks := func(run driver.Run[pgx.Tx], busy int) {
		t.Helper()
		if _, got, err := run.Versions(t.Context(), object); err != nil || len(got) != busy {
			t.Fatalf("busy objects %v, error %v, want %d", got, err, busy)
		}
	}
	looks(first, 0)
	for range 20 {
		looks(second, 1)
	}
	if n := w.number(t, "SELECT count(*)::int FROM {schema}.written"); n != 2 {
		t.Errorf("%d writes, want one of each run", n)
	}
	first.Abandon(t.Context())
	looks(second, 0)
	second.Abandon(t.Context())
}
