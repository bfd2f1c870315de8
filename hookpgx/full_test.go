package hookpgx_test

import (
	"errors"
	"testing"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/group"
)

// A database whose disk is full answers questions, and refuses claims.
func TestProofOfAFullDatabase(t *testing.T) {
	group.Need(t, "servers")
	t.Parallel()
	w := open(t, nil)
	w.exec(t, `CREATE FUNCTION {schema}.full() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN RAISE EXCEPTION 'no space left' USING ERRCODE = 'disk_full'; END $$`)
	w.exec(t, `CREATE TRIGGER full_disk BEFORE INSERT ON {schema}.event FOR EACH ROW EXECUTE FUNCTION {schema}.full()`)
	if _, err := w.Prove(t.Context()); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("with a full disk: got the error %v, want %v", err, driver.ErrUnavailable)
	}
	if _, err := w.Now(t.Context()); err != nil {
		t.Errorf("Now: %v", err)
	}
	w.exec(t, `DROP TRIGGER full_disk ON {schema}.event`)
	if _, err := w.Prove(t.Context()); err != nil {
		t.Errorf("with room: %v", err)
	}
	if n := w.number(t, `SELECT count(*) FROM {schema}.event`); n != 0 {
		t.Errorf("%d events are left, want none", n)
	}
}
