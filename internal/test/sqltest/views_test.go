package sqltest

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce/driver"
)

// pairs reads two columns; the values of the first are unique.
func (w *world) pairs(t *testing.T, query string) map[string]string {
	t.Helper()
	rows, err := w.pool.Query(t.Context(), w.text(query))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	var id, value string
	if _, err := pgx.ForEachRow(rows, []any{&id, &value}, func() error {
		if _, there := got[id]; there {
			t.Errorf("%q is listed twice", id)
		}
		got[id] = value
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return got
}

// TestViews reads events of every kind in every state.
func TestViews(t *testing.T) {
	t.Parallel()
	w := open(t)
	w.put(t, "shop", "pending", "in a run", "done", "done in a run", "dead", "stale", "discarded")
	for id, set := range map[string]string{
		"done":          "state = 2, processed_at = now(), attempts = 1",
		"done in a run": "state = 2, processed_at = now(), attempts = 1",
		"dead":          "state = 3, failed_at = now(), attempts = 20, last_error = 'no such order'",
		"stale":         "state = 4, note = 'stale', last_error = 'version 3 is older than 4'",
		"discarded":     "state = 4, note = 'discarded', last_error = 'no such order'",
	} {
		w.exec(t, "UPDATE hookonce.event_state SET "+set+" WHERE key = $1", key("shop", id))
	}
	// The record of a run may outlive the outcome of its event.
	w.exec(t, "INSERT INTO hookonce.run (id, keys, started_at) VALUES (1, '{}', now()), (2, ARRAY[$1, $2]::bytea[], now())",
		key("shop", "in a run"), key("shop", "done in a run"))
	for id, state := range map[string]int{"routed": 0, "sent": 2, "unsent": 3, "stale message": 4} {
		c := newClaim("shop", id, "body")
		c.Work, c.Messages = driver.WorkNone, []driver.NewMessage{{ID: "to " + id, Route: "r", Destination: "d"}}
		if err := claim(t.Context(), w.store, c); err != nil {
			t.Fatal(err)
		}
		w.exec(t, "UPDATE hookonce.message SET state = $2::int, note = CASE WHEN $2 = 4 THEN 'stale' ELSE '' END,"+
			" last_error = CASE WHEN $2 IN (3, 4) THEN 'why' END WHERE event_key = $1", c.Key[:], state)
	}
	for id, states := range map[string][2]int{"half skipped": {2, 4}, "half dead": {2, 3}, "half open": {1, 3}} {
		c := newClaim("shop", id, "body")
		c.Work, c.Messages = driver.WorkNone, []driver.NewMessage{
			{ID: "to a " + id, Route: "a", Destination: "d"}, {ID: "to b " + id, Route: "b", Destination: "d"},
		}
		if err := claim(t.Context(), w.store, c); err != nil {
			t.Fatal(err)
		}
		w.exec(t, "UPDATE hookonce.message SET state = CASE route WHEN 'a' THEN $2::int ELSE $3 END,"+
			" note = CASE WHEN $3 = 4 THEN 'discarded' ELSE '' END, last_error = CASE WHEN $3 = 3 THEN 'why' END"+
			" WHERE event_key = $1", c.Key[:], states[0], states[1])
	}
	unrouted := newClaim("shop", "unrouted", "body")
	unrouted.Work = driver.WorkNone
	if err := claim(t.Context(), w.store, unrouted); err != nil {
		t.Fatal(err)
	}

	check := func() {
		t.Helper()
		want := map[string]string{
			"pending": "pending||0|", "in a run": "running||0|", "done": "done||1|", "done in a run": "done||1|",
			"dead": "dead||20|no such order", "stale": "skipped|stale|0|version 3 is older than 4",
			"discarded": "skipped|discarded|0|no such order",
			"routed":    "running||0|", "sent": "done||0|", "unsent": "dead||0|why", "stale message": "skipped|stale|0|why",
			"unrouted": "done|no route|0|", "half skipped": "done|discarded|0|", "half dead": "dead||0|why", "half open": "running||0|why",
		}
		got := w.pairs(t, "SELECT event_id, concat_ws('|', state, note, attempts, last_error) FROM hookonce.events")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		maps.DeleteFunc(want, func(id, _ string) bool { return id != "dead" && id != "unsent" && id != "half dead" })
		got = w.pairs(t, "SELECT event_id, concat_ws('|', state, note, attempts, last_error) FROM hookonce.dead_letters")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("dead_letters (-want +got):\n%s", diff)
		}
	}
	check()
	texts := get[string](t, w, "SELECT string_agg(DISTINCT headers || ' ' || convert_from(body, 'UTF8'), ', ') FROM hookonce.events WHERE event_id LIKE 'half %'")
	if want := string(newClaim("shop", "", "body").Headers) + " body"; texts != want {
		t.Errorf("headers and bodies are %s, want %s", texts, want)
	}

	// The views of events and dead letters do not show enqueued messages, even those of an event.
	w.exec(t, `SELECT hookonce.enqueue('crm', 'x'), hookonce.enqueue('crm', 'x', source => 'shop', event_id => 'done')`)
	check()
	w.exec(t, "UPDATE hookonce.message SET state = 3, failed_at = now(), last_error = 'refused' WHERE destination = 'crm'")
	check()
	letters, err := w.store.DeadLetters(t.Context(), &driver.MessageFilter{Destination: "crm"})
	if err != nil || len(letters.DeadLetters) != 2 {
		t.Errorf("dead letters of the API: %+v, error %v, want the two enqueued messages", letters, err)
	}
}

// The columns that users rely on, and the comments that psql shows for the functions.
func TestContractOfTheSchema(t *testing.T) {
	t.Parallel()
	w := open(t)
	const columns = "source,event_id,type,state,note,attempts,generation,duplicates," +
		"received_at,occurred_at,processed_at,failed_at,last_error,headers,body"
	for _, view := range []string{"events", "dead_letters"} {
		got := get[string](t, w, `SELECT string_agg(attname, ',' ORDER BY attnum) FROM pg_attribute
			WHERE attrelid = ('hookonce.' || $1)::regclass AND attnum > 0`, view)
		if got != columns {
			t.Errorf("%s has the columns %s", view, got)
		}
	}
	uncommented := get[[]string](t, w, `SELECT coalesce(array_agg(proname), '{}') FROM pg_proc p
		WHERE pronamespace = trim(trailing '.' FROM 'hookonce.')::regnamespace AND prorettype <> 'trigger'::regtype
		AND obj_description(p.oid, 'pg_proc') IS NULL`)
	if len(uncommented) > 0 {
		t.Errorf("the functions %q have no comment", uncommented)
	}
	// The functions for applications alone have their owner's rights, and what take does at the COMMIT.
	loose := get[[]string](t, w, `SELECT coalesce(array_agg(proname), '{}') FROM pg_proc p
		WHERE pronamespace = trim(trailing '.' FROM 'hookonce.')::regnamespace
		AND (prosecdef <> (proname IN ('take', 'settle_taken', 'fail', 'enqueue')) OR NOT coalesce(proconfig, '{}') @> '{"search_path=pg_catalog, pg_temp"}')`)
	if len(loose) > 0 {
		t.Errorf("the functions %q run with the wrong rights, or with the caller's search path", loose)
	}
}
