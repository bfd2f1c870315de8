package main

import (
	"database/sql"
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce"
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
	secret       = "a-secret-for-the-tests-of-the-router"
	pushes       = 300
	repositories = 3
)

var source = hookonce.Source{Name: "github", Provider: provider.GitHub, Secrets: hookonce.StaticSecrets(secret)}

// start starts the program on a database of its own.
func start(t *testing.T) (*examplestest.Program, *sql.DB) {
	t.Helper()
	databaseURL, _, db := examplestest.Postgres(t)
	env := []string{"DATABASE_URL=" + databaseURL, "GITHUB_WEBHOOK_SECRET=" + secret}
	return examplestest.Start(t, env, examplestest.Build(t)), db
}

// TestRouterIsKilled checks that every push answered 2xx is counted once, although each is
// delivered three times and the process is killed in between.
func TestRouterIsKilled(t *testing.T) {
	t.Parallel()
	p, db := start(t)
	requests := []*http.Request{hooktest.NewRequest(t, source, `{"zen":"Design for failure."}`, hooktest.WithEventType("ping"))}
	for i := range pushes {
		requests = append(requests, hooktest.NewRequest(t, source,
			fmt.Sprintf(`{"after":"%040x","repository":{"full_name":"octocat/r%d"}}`, i, i%repositories),
			hooktest.WithEventID(fmt.Sprint("d", i)), hooktest.WithEventType("push")))
	}
	(&examplestest.Storm{Requests: requests, Copies: 3, Kills: 4}).Run(t, p)
	p.Stop(t)

	want := map[string]int{}
	for i := range repositories {
		want[fmt.Sprint("octocat/r", i)] = pushes / repositories
	}
	for _, query := range []string{
		`SELECT repository, count FROM pushes`,
		`SELECT repository, count(*) FROM push_log GROUP BY 1`,
		`SELECT repository, count(DISTINCT head) FROM push_log GROUP BY 1`,
	} {
		if diff := cmp.Diff(want, examplestest.Counts(t, db, query)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
	}
	states := examplestest.Counts(t, db, `SELECT state, count(*) FROM hookonce.events GROUP BY 1`)
	if diff := cmp.Diff(map[string]int{"done": pushes + 1}, states); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// TestRouterRefuses checks that the own router, too, refuses unverified requests and claims nothing
// for them.
func TestRouterRefuses(t *testing.T) {
	t.Parallel()
	p, db := start(t)
	examplestest.Exec(t, db, `DROP TABLE push_log`) // so that the work fails
	unknown := source
	unknown.Name = "gitlab"
	for name, tt := range map[string]struct {
		request *http.Request
		want    int
	}{
		"forged":         {hooktest.NewRequest(t, source, "{}", hooktest.WithSecret("a-secret-of-another-source"), hooktest.WithServer(p.URL())), 401},
		"unknown source": {hooktest.NewRequest(t, unknown, "{}", hooktest.WithServer(p.URL())), 404},
		"work fails":     {hooktest.NewRequest(t, source, `{"after":"1"}`, hooktest.WithEventType("push"), hooktest.WithServer(p.URL())), 503},
	} {
		resp, err := http.DefaultClient.Do(tt.request)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != tt.want {
			t.Errorf("%s: answered %s, want %d", name, resp.Status, tt.want)
		}
	}
	if n := examplestest.Counts(t, db, `SELECT 'events', count(*) FROM hookonce.events`)["events"]; n != 0 {
		t.Errorf("%d events were claimed, want 0", n)
	}
}

// TestRouterKeepsUnreadablePushes checks that GitHub does not deliver a push again that the router
// cannot read, and that it is kept.
func TestRouterKeepsUnreadablePushes(t *testing.T) {
	t.Parallel()
	p, db := start(t)
	resp, err := http.DefaultClient.Do(hooktest.NewRequest(t, source, "[]", hooktest.WithEventType("push"), hooktest.WithServer(p.URL())))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("answered %s", resp.Status)
	}
	want := map[string]int{"events": 1, "pushes": 0}
	got := examplestest.Counts(t, db, `
		SELECT 'events', count(*) FROM hookonce.events WHERE body = '[]' UNION ALL SELECT 'pushes', count(*) FROM push_log`)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
