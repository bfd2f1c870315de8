package sqltest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/storetest"
)

// lease leases all due messages to a destination.
func (w *world) lease(t testing.TB, destination string) []driver.Message {
	t.Helper()
	leased, err := w.store.Lease(t.Context(), &driver.LeaseParams{Destination: destination, Limit: 100, For: time.Hour, MaxAttempts: 3})
	if err != nil {
		t.Fatal(err)
	}
	return leased.Messages
}

// Enqueued messages are leased and sent like any other message.
func TestEnqueue(t *testing.T) {
	t.Parallel()
	w := open(t)
	w.put(t, "shop", "evt_1")
	cause := driver.EventKey("shop", "evt_1")
	for i, c := range []struct {
		arguments string
		want      driver.Message // the fields that the arguments set
		headers   http.Header
		cause     []byte
	}{
		{"'crm', 'body'", driver.Message{Body: []byte("body")}, http.Header{"Content-Type": {"application/json"}}, nil},
		{
			"'crm', '\\x00ff'::bytea, 'thing.made', '{\"X-A\": \"1\", \"x-b\": [\"2\", \"ü\"], \"X-C\": []}', id => 'my_id'",
			driver.Message{ID: "my_id", Type: "thing.made", Body: []byte{0, 0xff}},
			http.Header{"Content-Type": {"application/json"}, "X-A": {"1"}, "x-b": {"2", "ü"}, "X-C": {}},
			nil,
		},
		{
			"'crm', '', headers => '{\"CONTENT-type\": \"text/plain\"}', id => ''",
			driver.Message{Body: []byte{}},
			http.Header{"CONTENT-type": {"text/plain"}},
			nil,
		},
		{
			"'crm', 'x', NULL, NULL, NULL, 'shop', 'evt_1'",
			driver.Message{Source: "shop", EventID: "evt_1", Type: "order.paid", Body: []byte("x")},
			http.Header{"Content-Type": {"application/json"}},
			cause[:],
		},
		{
			"'crm', 'x', 'own.type', source => 'shop', event_id => 'evt_1'",
			driver.Message{Source: "shop", EventID: "evt_1", Type: "own.type", Body: []byte("x")},
			http.Header{"Content-Type": {"application/json"}},
			cause[:],
		},
		{
			"'crm', 'x', source => 'shop'",
			driver.Message{Source: "shop", Body: []byte("x")},
			http.Header{"Content-Type": {"application/json"}},
			nil,
		},
		{
			"'crm', 'x', source => NULL, event_id => NULL",
			driver.Message{Body: []byte("x")},
			http.Header{"Content-Type": {"application/json"}},
			nil,
		},
	} {
		id := get[string](t, w, "SELECT hookonce.enqueue("+c.arguments+")")
		if c.want.ID == "" && (!strings.HasPrefix(id, "msg_") || len(id) != len("msg_")+32 || strings.Contains(id, ".")) {
			t.Errorf("%d: the id is %q", i, id)
		}
		if c.want.ID != "" && id != c.want.ID {
			t.Errorf("%d: the id is %q, want %q", i, id, c.want.ID)
		}
		got := w.lease(t, "crm")
		if len(got) != 1 {
			t.Fatalf("%d: leased %v", i, got)
		}
		if got[0].Token < 1 || got[0].ReceivedAt.IsZero() {
			t.Errorf("%d: leased %+v", i, got[0])
		}
		var headers http.Header
		if err := json.Unmarshal(got[0].Headers, &headers); err != nil {
			t.Errorf("%d: the headers %s: %v", i, got[0].Headers, err)
		}
		if diff := cmp.Diff(c.headers, headers); diff != "" {
			t.Errorf("%d: headers (-want +got):\n%s", i, diff)
		}
		c.want.ID, c.want.Key, c.want.Attempt, c.want.Destination = id, driver.OutboxKey(id), 1, "crm"
		got[0].Token, got[0].ReceivedAt, got[0].Headers = 0, time.Time{}, nil
		if diff := cmp.Diff(c.want, got[0]); diff != "" {
			t.Errorf("%d: leased (-want +got):\n%s", i, diff)
		}
		if got := get[[]byte](t, w, "SELECT cause FROM hookonce.message WHERE id = $1", id); !bytes.Equal(got, c.cause) {
			t.Errorf("%d: the cause is %x, want %x", i, got, c.cause)
		}
		if !get[bool](t, w, "SELECT body_sha256 = sha256(body) AND outbox AND work = 0 FROM hookonce.event WHERE key = $1", c.want.Key[:]) {
			t.Errorf("%d: the stored body differs", i)
		}
	}
}

// A message is not stored while a trigger drops one of its rows, and the transaction fails.
func TestEnqueueDroppedRow(t *testing.T) {
	t.Parallel()
	w := open(t)
	s := w.connect(t)
	w.exec(t, "SELECT hookonce.enqueue('crm', 'known', id => 'known')")
	for _, table := range []string{"event", "message"} {
		id := "dropped-" + table
		sql, _ := storetest.DropRow(table, driver.OutboxKey(id))
		w.exec(t, strings.ReplaceAll(sql, "{schema}", w.schema))
		s.fails(t, "27000", "SELECT hookonce.enqueue('crm', 'lost', id => $1)", id)
		s.run(t, "SELECT hookonce.enqueue('crm', 'again', id => 'known')")
	}
	if got := w.lease(t, "crm"); len(got) != 1 || string(got[0].Body) != "known" {
		t.Errorf("leased %v, want the known message only", got)
	}
}

// An id that was enqueued before is skipped, even while the other transaction is open.
func TestEnqueueAgain(t *testing.T) {
	t.Parallel()
	w := open(t)
	s := w.connect(t)
	const enqueue = "SELECT hookonce.enqueue('crm', $1, id => 'order-7')"
	s.run(t, "BEGIN")
	s.run(t, enqueue, []byte("undone"))
	s.run(t, "ROLLBACK")
	s.run(t, enqueue, []byte("first"))
	s.run(t, enqueue, []byte("second"))
	s.run(t, "SELECT hookonce.enqueue('other', 'third', id => 'order-7')")
	if got := w.lease(t, "crm"); len(got) != 1 || string(got[0].Body) != "first" {
		t.Errorf("leased %v", got)
	}
	if got := w.lease(t, "other"); len(got) != 0 {
		t.Errorf("leased %v of the other destination", got)
	}

	const races = 8
	s.run(t, "BEGIN")
	s.run(t, "SELECT hookonce.enqueue('race', 'the first', id => 'race')")
	errs := make(chan error, races)
	for range races {
		conn := w.connect(t)
		go func() {
			_, err := conn.Exec(t.Context(), w.text("SELECT hookonce.enqueue('race', 'another', id => 'race')"))
			errs <- err
		}()
	}
	s.run(t, "COMMIT")
	for range races {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if got := w.lease(t, "race"); len(got) != 1 || string(got[0].Body) != "the first" {
		t.Errorf("leased %v", got)
	}
}

func TestEnqueueRefuses(t *testing.T) {
	t.Parallel()
	w := open(t)
	s := w.connect(t)
	for arguments, code := range map[string]string{
		"'', 'x'":     invalid,
		"NULL, 'x'":   invalid,
		"'crm', NULL": isNull,
		"'crm', 'x', source => 'shop', event_id => 'no'": noData,
		"'crm', 'x', event_id => 'evt_1'":                noData,
		"'crm', 'x', id => 'a.b'":                        invalid,
		"'crm', 'x', id => 'a b'":                        invalid,
		"'crm', 'x', id => E'a\\nb'":                     invalid,
		"'crm', 'x', id => E'a\\x7f'":                    invalid,
		"'crm', 'x', id => 'ä'":                          invalid,
		"'crm', 'x', id => repeat('a', 256)":             invalid,
		"'crm', 'x', headers => '[]'":                    invalid,
		"'crm', 'x', headers => '\"text\"'":              invalid,
		"'crm', 'x', headers => 'null'":                  invalid,
		"'crm', 'x', headers => '{\"A\": 1}'":            invalid,
		"'crm', 'x', headers => '{\"A\": {}}'":           invalid,
		"'crm', 'x', headers => '{\"A\": null}'":         invalid,
		"'crm', 'x', headers => '{\"A\": [\"x\", 1]}'":   invalid,
		"'crm', 'x', headers => '{\"A\": [[\"x\"]]}'":    invalid,
		"'crm', 'x', headers => '{\"A\": \"x\\u0000\"}'": "22P05",
	} {
		s.fails(t, code, "SELECT hookonce.enqueue("+arguments+")")
	}
	s.run(t, "SELECT hookonce.enqueue('crm', 'x', id => repeat('~', 255))")

	// The id of a message that a route creates.
	routed := newClaim("shop", "evt_1", "body")
	routed.Work, routed.Messages = driver.WorkNone, []driver.NewMessage{{ID: "msg_1", Route: "r", Destination: "crm"}}
	if err := claim(t.Context(), w.store, routed); err != nil {
		t.Fatal(err)
	}
	s.fails(t, "23505", "SELECT hookonce.enqueue('crm', 'x', id => 'msg_1')")
	if n := get[int](t, w, "SELECT count(*) FROM hookonce.event WHERE outbox"); n != 1 {
		t.Errorf("%d messages were enqueued, want 1", n)
	}
}

// Events and the messages that they cause become visible together.
func TestEnqueueInTheTransactionOfTake(t *testing.T) {
	t.Parallel()
	w := open(t)
	w.put(t, "shop", "evt_1")
	s := w.connect(t)
	work := func(end string) {
		s.run(t, "BEGIN")
		s.run(t, "SELECT hookonce.enqueue('crm', body, source => source, event_id => event_id) FROM hookonce.take('shop', 10)")
		if got := w.lease(t, "crm"); len(got) != 0 {
			t.Errorf("leased %v before the commit", got)
		}
		s.run(t, end)
	}
	work("ROLLBACK")
	if got := w.lease(t, "crm"); len(got) != 0 {
		t.Errorf("leased %v after ROLLBACK", got)
	}
	work("COMMIT")
	if got := w.lease(t, "crm"); len(got) != 1 || got[0].EventID != "evt_1" {
		t.Errorf("leased %v after COMMIT", got)
	}
	if got := fmt.Sprint(w.stateOf(t, "shop", "evt_1").State); got != "done" {
		t.Errorf("the event is %s", got)
	}
}
