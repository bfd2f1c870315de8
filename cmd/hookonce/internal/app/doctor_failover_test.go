package app

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/group"
)

// TestDoctorOnStandbys has a server without standbys, one with the slot of a standby that is away, and one that waits for
// such a standby. Package failover has clusters.
func TestDoctorOnStandbys(t *testing.T) {
	group.Need(t, "servers")
	t.Parallel()
	server := dbtest.StartServer(t, nil)
	s := settings(t, "database: "+server.DSN())
	_, checks := statuses(t, s)
	if c := check(t, checks, "failover"); c.Status != StatusOK || !strings.Contains(c.Seen[0], "a single server") {
		t.Errorf("without standbys: %+v", c)
	}
	conn, err := pgx.Connect(t.Context(), server.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), "SELECT pg_create_physical_replication_slot('db2')"); err != nil {
		t.Fatal(err)
	}
	_, checks = statuses(t, s)
	if c := check(t, checks, "failover"); c.Status != StatusWarning || !strings.Contains(c.Seen[0], "a standby is missing") {
		t.Errorf("with the slot of a standby that is away: %+v", c)
	}
	server.Shutdown(t)
	server.Restart(t, "synchronous_standby_names=nobody_here")
	_, checks = statuses(t, s)
	if c := check(t, checks, "failover"); c.Status != StatusFailure || !strings.Contains(c.Seen[0], "nobody_here") ||
		!strings.Contains(c.Seen[1], "answered 503") {
		t.Errorf("with a standby that is away: %+v", c)
	}
}

func TestJudgeFailover(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		found driver.Replication
		want  Status
		text  string
	}{
		{driver.Replication{Level: "on"}, StatusOK, "a single server"},
		{driver.Replication{Level: "on", Platform: "Aurora", Storage: "its storage takes the log"}, StatusOK, "none is needed: its storage takes the log"},
		{driver.Replication{Level: "on", Platform: "Cloud SQL"}, StatusOK, "of Cloud SQL"},
		{driver.Replication{Level: "on", UnusedSlots: 1}, StatusWarning, "a failover now may lose them"},
		{driver.Replication{Level: "on", Names: "db2", Standbys: 1, Synchronous: 1, UnusedSlots: 1}, StatusOK, "slots that nobody reads: 1"},
		{driver.Replication{Level: "on", Standbys: 1}, StatusWarning, "loses the events that were acknowledged last"},
		{driver.Replication{Level: "on", Names: "db2"}, StatusFailure, "answered 503"},
		{driver.Replication{Level: "on", Names: "db2", Hidden: true}, StatusFailure, "answered 503"},
		{driver.Replication{Level: "on", Names: "db2", Standbys: 2}, StatusFailure, "answered 503"},
		{driver.Replication{Level: "on", Names: "db2", Standbys: 2, Synchronous: 1}, StatusOK, "loses no acknowledged event"},
		{driver.Replication{Level: "on", Names: "db2", Standbys: 2, Hidden: true}, StatusOK, "may not see"},
		{driver.Replication{Level: "remote_write", Names: "db2", Standbys: 1, Synchronous: 1}, StatusOK, "unless that machine crashes"},
	} {
		c := judgeFailover(&test.found)
		if all := strings.Join(c.Seen, "\n"); c.Status != test.want || !strings.Contains(all, test.text) || (c.Remedy == "") != (c.Status == StatusOK) {
			t.Errorf("%+v: %+v, want %s and %q", test.found, c, test.want, test.text)
		}
	}
}
