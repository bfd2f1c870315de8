package hooktest_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hooksql"
	"github.com/hookonce/hookonce/hooktest"
)

// begin begins a transaction that is rolled back when the test ends.
func begin(t *testing.T, db *sql.DB) *sql.Tx {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

func TestWork(t *testing.T) {
	t.Parallel()
	store, writer := openStore(t)
	outbox := hookonce.NewOutbox(store)
	broken := errors.New("no such customer")
	mux := &hooksql.Mux{}
	for eventType, err := range map[string]error{
		"ok": nil, "fails": broken,
		"permanent": fmt.Errorf("at once: %w", hookonce.Permanent(broken)),
		"later":     fmt.Errorf("not yet: %w", hookonce.RetryAfter(time.Minute, broken)),
		"both":      hookonce.RetryAfter(time.Minute, hookonce.Permanent(broken)),
	} {
		hookonce.Handle(mux, "stripe", eventType, func(ctx context.Context, tx *sql.Tx, ev *hookonce.Event) error {
			return errors.Join(outbox.EnqueueTx(ctx, tx, &hookonce.Message{ID: "m1", Destination: "crm", Body: ev.Body}), err)
		})
	}
	hookonce.HandleJSON(mux, "stripe", "json", func(context.Context, *sql.Tx, *hookonce.Event, struct{ N int }) error { return nil })
	hookonce.Handle(mux, "stripe", "panics", func(context.Context, *sql.Tx, *hookonce.Event) error { panic("no luck") })
	hookonce.Handle(mux, "stripe", "ends", func(context.Context, *sql.Tx, *hookonce.Event) error {
		runtime.Goexit() // as t.FailNow does
		return nil
	})
	message := []*hookonce.Message{{ID: "m1", Destination: "crm", Body: []byte("{}")}}
	tests := map[string]struct {
		want hooktest.Result
		err  string
	}{
		"ok":        {hooktest.Result{Handled: true, Messages: message}, ""},
		"fails":     {hooktest.Result{Handled: true, Messages: message}, "no such customer"},
		"permanent": {hooktest.Result{Handled: true, Messages: message, Permanent: true}, "at once: no such customer"},
		"later":     {hooktest.Result{Handled: true, Messages: message, RetryAfter: time.Minute}, "not yet: no such customer"},
		"both":      {hooktest.Result{Handled: true, Messages: message, Permanent: true, RetryAfter: time.Minute}, "no such customer"},
		"json":      {hooktest.Result{Handled: true}, ""},
		"panics":    {hooktest.Result{Handled: true}, "panicked: no luck"},
		"ends":      {hooktest.Result{Handled: true}, "Goexit"},
		"unknown":   {},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			ev := hooktest.NewEvent("stripe", "evt_1", name, "{}")
			tx := begin(t, writer)
			got := hooktest.Work(t.Context(), t, tx, mux, ev)
			if text := fmt.Sprint(got.Err); got.Err != nil != (tt.err != "") || !strings.Contains(text, tt.err) && tt.err != "" {
				t.Errorf("the error is %q, want %q", text, tt.err)
			}
			if diff := cmp.Diff(&tt.want, got, cmpopts.IgnoreFields(hooktest.Result{}, "Err")); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// TestWorkCommitsNothing checks that a handler's writes are in the test's transaction, and are gone
// after its rollback.
func TestWorkCommitsNothing(t *testing.T) {
	t.Parallel()
	store, writer := openStore(t)
	if _, err := writer.ExecContext(t.Context(), `CREATE TABLE paid (invoice TEXT)`); err != nil {
		t.Fatal(err)
	}
	outbox := hookonce.NewOutbox(store)
	mux := &hooksql.Mux{}
	hookonce.Handle(mux, "stripe", "*", func(ctx context.Context, tx *sql.Tx, ev *hookonce.Event) error {
		if _, err := tx.ExecContext(ctx, `INSERT INTO paid VALUES (?)`, ev.ID); err != nil {
			return err
		}
		return outbox.EnqueueTx(ctx, tx, &hookonce.Message{Destination: "crm", Body: ev.Body})
	})
	for _, commit := range []bool{false, true} {
		tx := begin(t, writer)
		if r := hooktest.Work(t.Context(), t, tx, mux, hooktest.NewEvent("stripe", "evt_1", "", "{}")); r.Err != nil {
			t.Fatal(r.Err)
		}
		if n := count(t, tx, `SELECT count(*) FROM paid`); n != 1 {
			t.Errorf("%d rows in the transaction, want 1", n)
		}
		end := tx.Rollback
		if commit {
			end = tx.Commit
		}
		if err := end(); err != nil {
			t.Fatal(err)
		}
		messages, err := store.Messages(t.Context(), &driver.MessageFilter{})
		if err != nil {
			t.Fatal(err)
		}
		want := map[bool]int{true: 1}[commit]
		if n := count(t, writer, `SELECT count(*) FROM paid`); n != want || len(messages.Messages) != want {
			t.Errorf("commit %v: %d rows and %d messages, want %d", commit, n, len(messages.Messages), want)
		}
		if _, err := store.Event(t.Context(), "stripe", "evt_1"); !errors.Is(err, driver.ErrNotFound) {
			t.Errorf("looking the event up: got the error %v, want ErrNotFound", err)
		}
	}
}

type querier interface {
	QueryRow(query string, args ...any) *sql.Row
}

func count(t *testing.T, db querier, query string) (n int) {
	t.Helper()
	if err := db.QueryRow(query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
