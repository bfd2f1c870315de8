package main

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/hooksql"
	"github.com/hookonce/hookonce/hooktest"
	"github.com/hookonce/hookonce/internal/test/examplestest"
	"github.com/hookonce/hookonce/internal/test/group"
	"github.com/hookonce/hookonce/provider"
)

const (
	secret  = "whsec_for_the_tests_of_the_shop"
	orders  = 120
	inStock = 1000
)

func TestMain(m *testing.M) {
	group.Only("examples")
	os.Exit(m.Run())
}

func TestGroup(t *testing.T) { group.Need(t, "examples") }

// TestShopIsKilled checks that everything takes effect once, although each event is delivered three
// times and the process is killed while it works.
func TestShopIsKilled(t *testing.T) {
	t.Parallel()
	shipping, mails := examplestest.NewAPI(t), t.TempDir()
	file := filepath.Join(t.TempDir(), "shop.db")
	p := examplestest.Start(t, []string{
		"DATABASE=" + file, "STRIPE_WEBHOOK_SECRET=" + secret, "SHIPPING_URL=" + shipping.URL, "MAIL_FOLDER=" + mails,
	}, examplestest.Build(t))
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })

	// Each order takes 2, in one of two lines.
	examplestest.Exec(t, db, `INSERT INTO stock VALUES ('a', ?1), ('b', ?1)`, inStock)
	source := hookonce.Source{Name: "stripe", Provider: provider.Stripe, Secrets: hookonce.StaticSecrets(secret)}
	requests := []*http.Request{hooktest.NewRequest(t, source, `{"id":"evt_bad","type":"checkout.session.completed"}`)}
	for i := range orders {
		examplestest.Exec(t, db, `INSERT INTO order_lines VALUES (?, ?, 2)`, fmt.Sprint("o", i), []string{"a", "b"}[i%2])
		requests = append(requests, hooktest.NewRequest(t, source, fmt.Sprintf(`{"id":"evt_%d","type":"checkout.session.completed",`+
			`"data":{"object":{"client_reference_id":"o%d","customer_details":{"email":"c%d@example.com"}}}}`, i, i, i)))
	}
	(&examplestest.Storm{Requests: requests, Copies: 3, Kills: 3, Busy: shipping.Called}).Run(t, p)
	store, err := hooksql.OpenSQLite("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	hooktest.Settled(ctx, t, store, "stripe")
	p.Stop(t)

	want := map[string]int{"a": inStock - orders, "b": inStock - orders}
	if diff := cmp.Diff(want, examplestest.Counts(t, db, `SELECT sku, quantity FROM stock`)); diff != "" {
		t.Errorf("stock (-want +got):\n%s", diff)
	}
	want = map[string]int{"paid": orders}
	if diff := cmp.Diff(want, examplestest.Counts(t, db, `SELECT status, count(*) FROM orders GROUP BY 1`)); diff != "" {
		t.Errorf("orders (-want +got):\n%s", diff)
	}
	want = map[string]int{"evt_bad: checkout of event evt_bad has no client_reference_id": 1}
	if diff := cmp.Diff(want, examplestest.Counts(t, db, `SELECT event_id || ': ' || last_error, 1 FROM hookonce_dead_letters`)); diff != "" {
		t.Errorf("dead letters (-want +got):\n%s", diff)
	}
	shipping.Check(t, orders)
	examplestest.CheckMails(t, store, mails, orders)
	if n := len(examplestest.Messages(t, store, "shipping")); n != orders {
		t.Errorf("%d messages to the shipping API were enqueued, want %d", n, orders)
	}
}
