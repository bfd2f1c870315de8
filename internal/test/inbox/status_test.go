package inbox_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/operate"
	"github.com/hookonce/hookonce/internal/test/rig"
)

func TestStatusHoldsNoSecret(t *testing.T) {
	t.Parallel()
	in := newEngine(t, rig.OpenSQLite(t), func(c *hookonce.Config) {
		c.Destinations = []hookonce.Destination{{Name: "app", URL: "https://app.example:8443/hooks/v2/s3cr3t/stripe-events/?token=s3cr3t", Secret: "s3cr3t-s3cr3t-s3cr3t"}}
		c.Routes = []hookonce.Route{{Name: "all", To: "app", Types: []string{"push"}, Where: func(*hookonce.Event) (bool, error) { return true, nil }}}
	})
	sources, routes, destinations := in.Operator().Sources(), in.Operator().Routes(), in.Operator().Destinations()
	text := fmt.Sprintf("%+v %+v %+v", sources, routes, destinations)
	if strings.Contains(text, "s3cr3t") || strings.Contains(text, secret) {
		t.Errorf("the status holds a secret: %s", text)
	}
	wantRoutes := []operate.RouteStatus{{Name: "all", Types: []string{"push"}, Conditional: true, Destination: "app"}}
	if diff := cmp.Diff(wantRoutes, routes); diff != "" {
		t.Errorf("routes (-want +got):\n%s", diff)
	}
	wantDestinations := []operate.DestinationStatus{{
		Name: "app", Address: "https://app.example:8443/hooks/v2/…/stripe-events", Signed: true, Timeout: 15 * time.Second,
		Retry: driver.Retry{Attempts: 20, First: 10 * time.Second, Max: 12 * time.Hour}, Concurrency: 16,
	}}
	if diff := cmp.Diff(wantDestinations, destinations); diff != "" {
		t.Errorf("destinations (-want +got):\n%s", diff)
	}
	if len(sources) != 1 || sources[0].Unsigned || sources[0].Redelivery != "reopen" ||
		sources[0].DedupeWindow != 720*time.Hour || cmp.Diff([]string{"all"}, sources[0].Routes) != "" {
		t.Errorf("sources: %+v", sources)
	}
}

func TestStatusOfASender(t *testing.T) {
	t.Parallel()
	in := sendingBy(t, rig.OpenSQLite(t), nil, func(d *hookonce.Destination) { d.Sender = uncomparable{} })
	got := in.Operator().Destinations()[0]
	if !got.Sender || got.Address != "" || got.Signed {
		t.Errorf("got %+v, want an unsigned Sender without an address", got)
	}
}
