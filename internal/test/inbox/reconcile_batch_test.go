package inbox_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/internal/test/rig"
	"github.com/hookonce/hookonce/provider"
)

// TestReconcileBatch reads a list of single events, which come by webhook in batches. Each keeps its id and its body.
func TestReconcileBatch(t *testing.T) {
	t.Parallel()
	at := time.Now().Add(-time.Hour).UTC().Format("2006-01-02T15:04:05.000Z")
	item := func(id string) string {
		return fmt.Sprintf(`{"id": %q, "created_at": %q, "resource_type": "payments", "action": "paid_out"}`, id, at)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"events": [`+item("EV1")+","+item("EV2")+","+item("EV3")+`], "meta": {"cursors": {"before": null, "after": null}}}`)
	}))
	t.Cleanup(server.Close)
	store := rig.OpenSQLite(t)
	source := hookonce.Source{
		Name: "bank", Provider: provider.GoCardless, Secrets: hookonce.StaticSecrets(secret),
		Reconcile: &hookonce.Reconcile{Key: "live_key", URL: server.URL},
	}
	in := newEngine(t, store, func(c *hookonce.Config) {
		reconcilable(server.URL)(c)
		c.Sources, c.Routes[0].Types = []hookonce.Source{source}, nil
	})
	if got := deliver(in, signAs(t, &source, secret, `{"events": [`+item("EV1")+","+item("EV3")+`]}`)); got != ok {
		t.Fatalf("answer %v", got)
	}
	done, err := in.Reconcile(t.Context(), "bank", 24*time.Hour)
	if err != nil || done.Seen != 3 || done.Known != 2 || done.Claimed != 1 {
		t.Fatalf("done %+v, error %v; want 3 seen, 2 known, 1 claimed", done, err)
	}
	for _, id := range []string{"EV1", "EV2"} {
		ev, err := store.Event(t.Context(), "bank", id)
		if err != nil || string(ev.Body) != item(id) || ev.Type != "payments.paid_out" && ev.Type != "payments:paid_out" {
			t.Errorf("%s has the body %s and the type %q, error %v", id, ev.Body, ev.Type, err)
		}
	}
}
