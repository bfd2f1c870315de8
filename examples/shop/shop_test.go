package main

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/hookpgx"
	"github.com/hookonce/hookonce/hooktest"
	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/examplestest"
	"github.com/hookonce/hookonce/internal/test/group"
	"github.com/hookonce/hookonce/provider"
)

func TestMain(m *testing.M) {
	group.Only("examples")
	dbtest.Main(m)
}

func TestGroup(t *testing.T) { group.Need(t, "examples") }

const (
	secret        = "whsec_for_the_tests_of_the_shop"
	orders        = 60
	subscriptions = 12
	versions      = 5 // updates of one subscription
	inStock       = 1000
)

var source = hookonce.Source{Name: "stripe", Provider: provider.Stripe, Secrets: hookonce.StaticSecrets(secret)}

func stripeEvent(t *testing.T, id, eventType string, created int, object string) *http.Request {
	t.Helper()
	return hooktest.NewRequest(t, source, fmt.Sprintf(`{"id":%q,"object":"event","type":%q,"created":%d,"data":{"object":%s}}`,
		id, eventType, created, object))
}

// deliveries returns one checkout and two refunds for each order, the updates of the subscriptions,
// and one checkout that cannot be handled.
func deliveries(t *testing.T) []*http.Request {
	t.Helper()
	all := []*http.Request{stripeEvent(t, "evt_bad", "checkout.session.completed", 1, `{}`)}
	for i := range orders {
		all = append(all,
			stripeEvent(t, fmt.Sprint("evt_paid_", i), "checkout.session.completed", 1760000000, fmt.Sprintf(
				`{"client_reference_id":"o%d","customer":"c%d","payment_intent":"pi_%d","customer_details":{"email":"c%d@example.com"}}`, i, i, i, i)),
			stripeEvent(t, fmt.Sprint("evt_refund1_", i), "charge.refunded", 1760000100, fmt.Sprintf(`{"payment_intent":"pi_%d","amount_refunded":500}`, i)),
			stripeEvent(t, fmt.Sprint("evt_refund2_", i), "charge.refunded", 1760000200, fmt.Sprintf(`{"payment_intent":"pi_%d","amount_refunded":1500}`, i)))
	}
	for i := range subscriptions {
		for v := range versions {
			status := "active"
			if (i+v)%2 == 0 {
				status = "canceled"
			}
			all = append(all, stripeEvent(t, fmt.Sprintf("evt_sub%d_%d", i, v), "customer.subscription.updated", 1760000000+v,
				fmt.Sprintf(`{"id":"sub_%d","customer":"c%d","status":%q,"plan":{"id":"gold"}}`, i, i, status)))
		}
	}
	return all
}

// stock fills the stock and returns its expected end. Order i takes 1 of sku a or b and i%3+1 of
// sku c.
func stock(t *testing.T, db *sql.DB) (want map[string]int) {
	t.Helper()
	want = map[string]int{"a": inStock, "b": inStock, "c": inStock}
	for sku, quantity := range want {
		examplestest.Exec(t, db, `INSERT INTO stock VALUES ($1, $2)`, sku, quantity)
	}
	for i := range orders {
		for sku, quantity := range map[string]int{[]string{"a", "b"}[i%2]: 1, "c": i%3 + 1} {
			examplestest.Exec(t, db, `INSERT INTO order_lines VALUES ($1, $2, $3)`, fmt.Sprint("o", i), sku, quantity)
			want[sku] -= quantity
		}
	}
	return want
}

// TestShopIsKilled checks that everything takes effect once, although each event is delivered three
// times and the process is killed in the middle of handlers.
func TestShopIsKilled(t *testing.T) {
	t.Parallel()
	databaseURL, pool, db := examplestest.Postgres(t)
	shipping := examplestest.NewAPI(t)
	mails := t.TempDir()
	p := examplestest.Start(t, []string{
		"DATABASE_URL=" + databaseURL, "STRIPE_WEBHOOK_SECRET=" + secret, "SHIPPING_URL=" + shipping.URL, "MAIL_FOLDER=" + mails,
	}, examplestest.Build(t))
	wantStock := stock(t, db)
	(&examplestest.Storm{Requests: deliveries(t), Copies: 3, Kills: 3, Busy: shipping.Called}).Run(t, p)
	store := hookpgx.New(pool)
	t.Cleanup(func() { _ = store.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	hooktest.Settled(ctx, t, store, "stripe")
	p.Stop(t)

	if diff := cmp.Diff(wantStock, examplestest.Counts(t, db, `SELECT sku, quantity FROM stock`)); diff != "" {
		t.Errorf("stock (-want +got):\n%s", diff)
	}
	want := map[string]int{"paid, 1500 refunded": orders}
	if diff := cmp.Diff(want, examplestest.Counts(t, db, `SELECT status || ', ' || refunded || ' refunded', count(*) FROM orders GROUP BY 1`)); diff != "" {
		t.Errorf("orders (-want +got):\n%s", diff)
	}
	// The last version is active for half of the subscriptions.
	want = map[string]int{"active": subscriptions / 2, "canceled": subscriptions / 2}
	if diff := cmp.Diff(want, examplestest.Counts(t, db, `SELECT status, count(*) FROM subscriptions GROUP BY 1`)); diff != "" {
		t.Errorf("subscriptions (-want +got):\n%s", diff)
	}
	if got := examplestest.Counts(t, db, `SELECT plan, count(*) FROM access JOIN subscriptions USING (customer, plan) WHERE status = 'active' GROUP BY 1`); got["gold"] != subscriptions/2 {
		t.Errorf("access of active subscriptions: %v, want %d", got, subscriptions/2)
	}
	if got := examplestest.Counts(t, db, `SELECT plan, count(*) FROM access GROUP BY 1`); got["gold"] != subscriptions/2 {
		t.Errorf("access: %v, want %d", got, subscriptions/2)
	}
	shipping.Check(t, orders)
	examplestest.CheckMails(t, store, mails, orders)
	dead := examplestest.Counts(t, db, `SELECT event_id || ': ' || last_error, 1 FROM hookonce.dead_letters`)
	if diff := cmp.Diff(map[string]int{"evt_bad: checkout of event evt_bad has no client_reference_id": 1}, dead); diff != "" {
		t.Errorf("dead letters (-want +got):\n%s", diff)
	}
}
