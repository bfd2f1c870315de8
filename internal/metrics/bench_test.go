package metrics_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/hookonce/hookonce/internal/test/rig"
	"github.com/hookonce/hookonce/observe"
)

func BenchmarkDelivery(b *testing.B) {
	o := newGateway(b, rig.OpenSQLite(b), nil).Observer()
	for b.Loop() {
		o.Delivery(observe.Delivery{Source: "gh", Status: 200, Outcome: "ok", Took: time.Millisecond, Events: 1})
	}
}

func BenchmarkScrape(b *testing.B) {
	g := newGateway(b, rig.OpenSQLite(b), nil)
	for b.Loop() {
		g.Handler().ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	}
}
