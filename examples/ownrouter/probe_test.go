package main

import (
	"os/exec"
	"testing"

	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/examplestest"
)

// TestRouterIsProbed holds the five-minute test with the router.
func TestRouterIsProbed(t *testing.T) {
	t.Parallel()
	dbtest.Need(t, "examples", func() error { _, err := exec.LookPath("psql"); return err }, "postgresql-client")
	databaseURL, _, _ := examplestest.Postgres(t)
	p := examplestest.Start(t, []string{"DATABASE_URL=" + databaseURL, "GITHUB_WEBHOOK_SECRET=" + secret}, examplestest.Build(t))
	body := examplestest.WriteFile(t, `{"after":"{id}","repository":{"full_name":"octocat/r"}}`)
	examplestest.Probe(t, p, "/webhooks/github", "--provider", "github", "--secret", secret, "--type", "push", "--body", body,
		"--effects", "psql -Atc \"SELECT count(*) FROM push_log WHERE head = '{id}'\" '"+databaseURL+"'")
}
