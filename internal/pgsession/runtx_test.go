package pgsession

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/internal/pgstore"
)

func beginRun(t *testing.T, client *fakeClient) (*DB, pgstore.Tx) {
	t.Helper()
	db := New(client)
	tx, err := db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return db, tx
}

// TestRunTxEnds ends transactions in every order. A transaction that is over sends nothing, because
// its connection may belong to another one.
func TestRunTxEnds(t *testing.T) {
	t.Parallel()
	commit := func(tx pgstore.Tx) { _ = tx.Commit(t.Context()) }
	rollback := func(tx pgstore.Tx) { tx.Rollback(t.Context()) }
	sever := func(tx pgstore.Tx) { tx.Sever() }
	for _, test := range []struct {
		name  string
		steps []func(pgstore.Tx)
		want  []string
	}{
		{"commit", []func(pgstore.Tx){commit, rollback, commit}, []string{"begin run", "commit", "release"}},
		{"rollback", []func(pgstore.Tx){rollback, rollback, commit}, []string{"begin run", "rollback", "release"}},
		{"sever, rollback", []func(pgstore.Tx){sever, sever, rollback}, []string{"begin run", "cut", "rollback", "release"}},
		{"sever, commit, rollback", []func(pgstore.Tx){sever, commit, rollback}, []string{"begin run", "cut", "rollback", "release"}},
		{"commit, sever", []func(pgstore.Tx){commit, sever}, []string{"begin run", "commit", "release"}},
	} {
		client := &fakeClient{}
		db, tx := beginRun(t, client)
		for _, step := range test.steps {
			step(tx)
		}
		_, err := tx.Query(t.Context(), "SELECT 1")
		for what, err := range map[string]error{"Query": err, "Script": tx.Script(t.Context(), "SELECT 1"), "Commit": tx.Commit(t.Context())} {
			if err == nil || db.Outcome(err) != pgstore.NotSent {
				t.Errorf("%s: %s got the error %v, want one that was not sent", test.name, what, err)
			}
		}
		if got := tx.Status(t.Context()); got != pgstore.TxLost {
			t.Errorf("%s: the status is %v, want %v", test.name, got, pgstore.TxLost)
		}
		client.wantCalls(t, test.name, test.want...)
	}
}

func TestRunTxOpen(t *testing.T) {
	t.Parallel()
	client := &fakeClient{status: pgstore.TxBusy, fail: map[string]error{"commit": io.EOF}}
	db, tx := beginRun(t, client)
	_, err := tx.Query(t.Context(), "SELECT 1")
	if err := errors.Join(err, tx.Script(t.Context(), "SELECT 2")); err != nil {
		t.Error(err)
	}
	if got := tx.Status(t.Context()); got != pgstore.TxBusy {
		t.Errorf("the status is %v, want %v", got, pgstore.TxBusy)
	}
	client.wantCalls(t, "an open transaction", "begin run", "SELECT 1", "SELECT 2", "status")

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := tx.Commit(ended); !errors.Is(err, context.Canceled) || db.Outcome(err) != pgstore.NotSent {
		t.Errorf("Commit under a context that has ended: got the error %v, want one that was not sent", err)
	}
	client.wantCalls(t, "a commit under a context that has ended")
	if err := tx.Commit(t.Context()); !errors.Is(err, io.EOF) || db.Outcome(err) != pgstore.Unknown {
		t.Errorf("Commit: got the error %v, want %v with an unknown outcome", err, io.EOF)
	}
	if diff := cmp.Diff([]string{"commit", "release"}, client.took()); diff != "" {
		t.Errorf("calls of a commit that failed (-want +got):\n%s", diff)
	}
}
