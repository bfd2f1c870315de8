package hooktest_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hooksql"
	"github.com/hookonce/hookonce/hooktest"
	"github.com/hookonce/hookonce/provider"
)

// TestSettled checks that Settled returns once the last handler has committed and the last message
// is sent, and not before.
func TestSettled(t *testing.T) {
	t.Parallel()
	const events = 30
	store, writer := openStore(t)
	if _, err := writer.ExecContext(t.Context(), `CREATE TABLE seen (id TEXT)`); err != nil {
		t.Fatal(err)
	}
	outbox := hookonce.NewOutbox(store)
	mux := &hooksql.Mux{}
	hookonce.Handle(mux, "gh", "*", func(ctx context.Context, tx *sql.Tx, ev *hookonce.Event) error {
		if ev.ID == "d3" && ev.Attempt == 1 {
			return hookonce.RetryAfter(50*time.Millisecond, errors.New("not at first"))
		}
		if ev.ID == "d4" {
			return hookonce.Permanent(errors.New("never"))
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO seen VALUES (?)`, ev.ID)
		return errors.Join(err, outbox.EnqueueTx(ctx, tx, &hookonce.Message{Destination: "list", Body: ev.Body}))
	})
	sent := make(chan string, events)
	source := hookonce.Source{Name: "gh", Provider: provider.GitHub, Secrets: hookonce.StaticSecrets(secret)}
	in := startInbox(t, store, mux, &hookonce.Config{
		Sources: []hookonce.Source{source},
		Destinations: []hookonce.Destination{{Name: "list", Sender: hookonce.SenderFunc(func(_ context.Context, m *hookonce.Outgoing) error {
			sent <- m.EventID
			return nil
		})}},
	})
	for i := range events {
		w := httptest.NewRecorder()
		in.ServeHTTP(w, hooktest.NewRequest(t, source, fmt.Sprintf(`{"n":%d}`, i), hooktest.WithEventID(fmt.Sprint("d", i))))
		if w.Code != 200 {
			t.Fatalf("answered %d %s", w.Code, w.Body)
		}
	}
	hooktest.Settled(t.Context(), t, store, "gh")
	if n := count(t, writer, `SELECT count(*) FROM seen`); n != events-1 || len(sent) != events-1 {
		t.Errorf("%d rows and %d messages, want %d", n, len(sent), events-1)
	}
	hooktest.Settled(t.Context(), t, store, "")
	hooktest.Settled(t.Context(), t, store, "another")
}

// startInbox returns an Inbox that runs until the test ends.
func startInbox(t *testing.T, store *hooksql.Store, mux *hooksql.Mux, cfg *hookonce.Config) *hookonce.Inbox[*sql.Tx] {
	t.Helper()
	in, err := hookonce.New(store, mux, cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- in.Run(ctx) }()
	t.Cleanup(func() {
		in.Drain()
		stop()
		if err := <-ran; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return in
}

// TestSettledSaysWhatIsOpen checks that without a running Inbox, Settled ends the test and names
// the open work.
func TestSettledSaysWhatIsOpen(t *testing.T) {
	t.Parallel()
	source := hookonce.Source{Name: "gh", Provider: provider.GitHub, Secrets: hookonce.StaticSecrets(secret), Consume: hookonce.ConsumeSQL}
	in, store := newInbox(t, nil, &hookonce.Config{Sources: []hookonce.Source{source}})
	check(t, in, hooktest.NewRequest(t, source, "{}", hooktest.WithEventID("d1")), 200, "ok")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	got := fatal(t, func(t testing.TB) { hooktest.Settled(ctx, t, &impatient{store, cancel, 0}, "gh") })
	if !strings.Contains(got, "event d1: pending") {
		t.Errorf("the test ended with %q, want it to name the pending event", got)
	}
	hooktest.Settled(t.Context(), t, store, "another")
}

// impatient ends a context after a few calls of Messages.
type impatient struct {
	driver.Store
	end   context.CancelFunc
	asked int
}

func (i *impatient) Messages(ctx context.Context, f *driver.MessageFilter) (*driver.MessagePage, error) {
	page, err := i.Store.Messages(ctx, f)
	if i.asked++; i.asked > 10 {
		i.end()
	}
	return page, err
}
