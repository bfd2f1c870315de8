package hookadmin_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookadmin"
)

func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	type pause struct {
		Name     string
		Paused   *bool
		PausedAt *string `json:"paused_at"`
	}
	shown := func() pause {
		return readJSON[struct{ Destinations []pause }](t, g.get(t, "/api/v1/destinations")).Destinations[0]
	}
	g.enqueue(t, "e1")
	if got := shown(); got.Paused == nil || *got.Paused || got.PausedAt != nil {
		t.Errorf("before the pause: %+v", got)
	}
	first := readJSON[pause](t, g.post(t, "/api/v1/destinations/billing/pause", ""))
	again := readJSON[pause](t, g.post(t, "/api/v1/destinations/billing/pause", "{}"))
	if first.Paused == nil || !*first.Paused || first.PausedAt == nil || first.Name != "billing" {
		t.Errorf("paused: %+v", first)
	}
	if diff := cmp.Diff([]pause{first, first}, []pause{again, shown()}); diff != "" {
		t.Errorf("paused again, and shown (-want +got):\n%s", diff)
	}
	type stats struct {
		Paused []string `json:"paused_destinations"`
	}
	if got := readJSON[stats](t, g.get(t, "/api/v1/stats")).Paused; len(got) != 1 || got[0] != "billing" {
		t.Errorf("stats show %q as paused", got)
	}
	if got := g.lease(t); len(got) > 0 {
		t.Errorf("leased %+v while paused", got)
	}
	if got := readJSON[pause](t, g.post(t, "/api/v1/destinations/billing/resume", "")); got.Paused == nil || *got.Paused || got.PausedAt != nil {
		t.Errorf("resumed: %+v", got)
	}
	if got := g.lease(t); len(got) != 1 {
		t.Errorf("leased %+v after the pause", got)
	}
}

func TestRetryOfADestination(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.enqueue(t, "e1", "e2")
	g.settle(t, driver.MessageRetry) // due in an hour
	want := hookadmin.DestinationRetried{Name: "billing", Retried: 2}
	if got := readJSON[hookadmin.DestinationRetried](t, g.post(t, "/api/v1/destinations/billing/retry", "")); got != want {
		t.Errorf("answer %+v, want %+v", got, want)
	}
	if got := g.lease(t); len(got) != 2 {
		t.Errorf("leased %+v after the retry", got)
	}
}

func TestRefusalsOfDestinations(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	for _, action := range []string{"retry", "pause", "resume"} {
		wantDetail(t, g.post(t, "/api/v1/destinations/crm/"+action, ""), 404, "no such destination")
		wantDetail(t, g.post(t, "/api/v1/destinations/%00/"+action, ""), 400, "name: holds a control character")
		wantDetail(t, g.post(t, "/api/v1/destinations/billing/"+action, `{"x":1}`), 400, "unknown key")
		wantDetail(t, g.get(t, "/api/v1/destinations/billing/"+action), 405, "POST")
	}
}

// unpaused is a store that cannot read the pauses.
type unpaused struct{ driver.Store }

func (unpaused) PausedDestinations(context.Context) ([]driver.PausedDestination, error) {
	return nil, driver.ErrUnavailable
}

func TestDestinationsWithoutTheirPauses(t *testing.T) {
	t.Parallel()
	g := newGatewayOn(t, unpaused{newGateway(t).store})
	type page struct{ Destinations []struct{ Paused *bool } }
	if got := readJSON[page](t, g.get(t, "/api/v1/destinations")).Destinations; len(got) != 1 || got[0].Paused != nil {
		t.Errorf("destinations %+v, want one with an unknown pause", got)
	}
	wantProblem(t, g.get(t, "/api/v1/stats"), 503)
}
