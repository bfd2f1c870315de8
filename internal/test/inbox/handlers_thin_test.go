package inbox_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/rig"
	"github.com/hookonce/hookonce/provider"
)

// ofStripe makes gh a source of Stripe, whose thin events about accounts go stale by the location key.
func ofStripe(key string) func(*hookonce.Config) {
	return func(c *hookonce.Config) {
		c.Sources[0].Provider, c.Sources[0].Secrets = provider.Stripe, hookonce.StaticSecrets("whsec_"+secret)
		c.Sources[0].Stale = []hookonce.StaleRule{
			{Types: []string{"v2.core.account.*"}, Key: key, Version: "body:created"},
			{Types: []string{"customer.*"}, Key: "body:data.object.id", Version: "body:created"},
		}
	}
}

// thin returns a thin event as Stripe sends it: created at a fraction of one second.
func thin(id, eventType, fraction, related string) string {
	return fmt.Sprintf(`{"id":%q,"object":"v2.core.event","type":%q,"created":"2025-10-09T08:53:20.%sZ","livemode":false%s}`,
		id, eventType, fraction, related)
}

// about is the member related_object of a thin event.
func about(objectType, id string) string {
	return fmt.Sprintf(`,"related_object":{"id":%q,"type":%q,"url":"/v2/core/accounts/%s"}`, id, objectType, id)
}

// Thin events of one object become stale by related_object.id. Those about no object are never stale.
func TestThinEventsGoStale(t *testing.T) {
	t.Parallel()
	const (
		account, updated = "v2.core.account", "v2.core.account.updated"
		byID, byBoth     = "body:related_object.id", "body:related_object.type + body:related_object.id"
	)
	for name, tt := range map[string]struct {
		key   string
		other string // the state of older events about an object of another type, or of a v1 event, with the same id
	}{
		"by id":          {byID, driver.StateSkipped},
		"by type and id": {byBoth, driver.StateDone},
	} {
		steps := []struct{ id, body, state string }{
			{"evt_new", thin("evt_new", updated, "500", about(account, "acct_1")), driver.StateDone},
			{"evt_old", thin("evt_old", updated, "499", about(account, "acct_1")), driver.StateSkipped},
			{"evt_same", thin("evt_same", updated, "5", about(account, "acct_1")), driver.StateDone},
			{"evt_case", thin("evt_case", updated, "100", about(account, "ACCT_1")), driver.StateDone},
			{"evt_longer", thin("evt_longer", updated, "100", about(account, "acct_10")), driver.StateDone},
			{"evt_type", thin("evt_type", updated, "100", about("v2.core.person", "acct_1")), tt.other},
			{"evt_kind", thin("evt_kind", "v2.core.account.closed", "100", about(account, "acct_1")), driver.StateSkipped},
			{"evt_unruled", thin("evt_unruled", "v2.money.sent", "100", about(account, "acct_1")), driver.StateDone},
			{"evt_data", thin("evt_data", updated, "100", about(account, "acct_1")+`,"data":{"id":"acct_2"}`), driver.StateSkipped},
			{"evt_v1", `{"id":"evt_v1","object":"event","type":"customer.updated","created":1759999999,"data":{"object":{"id":"acct_1"}}}`, tt.other},
		}
		for i, related := range []string{
			"", `,"related_object":null`, `,"related_object":{}`, `,"related_object":{"id":null,"type":"v2.core.account"}`,
			`,"related_object":{"id":"","type":"v2.core.account"}`, `,"related_object":"acct_1"`, `,"related_object":["acct_1"]`,
		} {
			for j, fraction := range []string{"500", "100"} { // the later one is older
				id := fmt.Sprintf("evt_none_%d_%d", i, j)
				steps = append(steps, struct{ id, body, state string }{id, thin(id, updated, fraction, related), driver.StateDone})
			}
		}
		rules := ofStripe(tt.key)
		t.Run(name+", handled", func(t *testing.T) {
			t.Parallel()
			l := onSQLite(t)
			in := inbox(t, l, handling(effectOf(l)), rules)
			run(t, in)
			var handled []string
			for _, e := range steps {
				deliverThin(t, in, e.id, e.body)
				settled(t, l.db, e.id, e.state)
				if e.state == driver.StateDone {
					handled = append(handled, e.id)
				}
			}
			wantEffects(t, l, handled...)
		})
		t.Run(name+", sent", func(t *testing.T) {
			t.Parallel()
			store, s := rig.OpenSQLite(t), newSink(t)
			in := newEngine(t, store, func(c *hookonce.Config) {
				rules(c)
				sendTo(c, s.URL, hookonce.Retry{First: time.Millisecond, Max: time.Millisecond})
			})
			run(t, in)
			sent := 0
			for _, e := range steps {
				deliverThin(t, in, e.id, e.body)
				settled(t, store, e.id, e.state)
				if e.state == driver.StateDone {
					sent++
				}
			}
			if got := len(s.got()); got != sent {
				t.Errorf("the destination got %d events, want %d", got, sent)
			}
		})
	}
}

// deliverThin delivers body as Stripe does.
func deliverThin(t *testing.T, in http.Handler, id, body string) {
	t.Helper()
	r := signAs(t, &hookonce.Source{Name: "gh", Provider: provider.Stripe}, "whsec_"+secret, body)
	if got := deliver(in, r); got != ok {
		t.Fatalf("%s is answered %+v", id, got)
	}
}
