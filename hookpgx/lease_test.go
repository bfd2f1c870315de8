package hookpgx_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
)

// TestBuriedAreReturnedThoughTheLeaseFails has a lease that buries one message, and whose next statement
// fails. The lease must return the buried message, because no later call does.
func TestBuriedAreReturnedThoughTheLeaseFails(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	claims := []driver.Claim{newClaim("evt_1", "billing"), newClaim("evt_2", "billing")}
	for i, c := range claims {
		w.mustClaim(t, true, c)
		w.exec(t, "UPDATE {schema}.message SET state = 1, attempts = 1, due_at = now() - $2::int * interval '1 minute' WHERE event_key = $1", c.Key[:], 10-i)
	}
	w.exec(t, `CREATE FUNCTION {schema}.refuse() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN RAISE EXCEPTION 'no more space' USING ERRCODE = 'disk_full'; END $$`)
	w.exec(t, `CREATE TRIGGER refuse BEFORE UPDATE ON {schema}.message FOR EACH ROW
		WHEN (OLD.id = '`+claims[1].Messages[0].ID+`') EXECUTE FUNCTION {schema}.refuse()`)
	lease := func() (buried []string, err error) {
		leased, err := w.Lease(t.Context(), &driver.LeaseParams{Destination: "to-billing", Limit: 1, For: time.Minute, MaxAttempts: 1})
		if err != nil {
			return nil, err
		}
		for _, m := range leased.Buried {
			buried = append(buried, m.EventID)
		}
		return buried, nil
	}
	got, err := lease()
	if diff := cmp.Diff([]string{"evt_1"}, got); err != nil || diff != "" {
		t.Errorf("the lease that failed after it buried one: error %v, buried (-want +got):\n%s", err, diff)
	}
	if got, err := lease(); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("the lease that failed: got %v and the error %v, want %v", got, err, driver.ErrUnavailable)
	}
	w.exec(t, "DROP TRIGGER refuse ON {schema}.message")
	got, err = lease()
	if diff := cmp.Diff([]string{"evt_2"}, got); err != nil || diff != "" {
		t.Errorf("the lease after that: error %v, buried (-want +got):\n%s", err, diff)
	}
}

// allSent returns the outcome "sent" for all leased messages.
func allSent(leased *driver.Leased) *driver.CompleteParams {
	p := &driver.CompleteParams{}
	for _, m := range leased.Messages {
		p.Completions = append(p.Completions, driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageSent})
	}
	return p
}

// TestCompleteWaitsForARow has Complete wait for a transaction that changes one of its messages. It
// completes the message unless that transaction ended the lease.
func TestCompleteWaitsForARow(t *testing.T) {
	t.Parallel()
	for change, want := range map[string][]bool{
		"replayed = true":   {true, true, true},
		"token = token + 1": {true, false, true},
		"state = 3":         {true, false, true},
	} {
		t.Run(change, func(t *testing.T) {
			t.Parallel()
			w := open(t, nil)
			for _, id := range []string{"a", "b", "c"} {
				w.mustClaim(t, true, newClaim(id, "billing"))
			}
			leased, err := w.Lease(t.Context(), &driver.LeaseParams{Destination: "to-billing", Limit: 3, For: time.Hour, MaxAttempts: 3})
			if err != nil || len(leased.Messages) != 3 {
				t.Fatalf("got %+v and the error %v", leased, err)
			}
			p := allSent(leased)
			tx, err := w.pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.Exec(t.Context(), "UPDATE "+w.schema+".message SET "+change+" WHERE id = $1", leased.Messages[1].ID); err != nil {
				t.Fatal(err)
			}
			done := make(chan []bool, 1)
			go func() {
				held, err := w.Complete(t.Context(), p)
				if err != nil {
					t.Error(err)
				}
				done <- held
			}()
			w.awaitWaiting(t)
			if err := tx.Commit(t.Context()); err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(want, <-done); diff != "" {
				t.Errorf("leases that were held (-want +got):\n%s", diff)
			}
		})
	}
}
