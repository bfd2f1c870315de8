package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/config"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/group"
)

// statuses runs Doctor and returns the status of each check.
func statuses(t *testing.T, s *config.Settings) (map[string]Status, []Check) {
	t.Helper()
	checks := Doctor(t.Context(), s, nil, nil)
	found := make(map[string]Status)
	for _, c := range checks {
		if len(c.Seen) == 0 || c.Seen[0] == "" {
			t.Errorf("check %s has no findings", c.Name)
		}
		if (c.Status == StatusFailure || c.Status == StatusWarning) && c.Remedy == "" {
			t.Errorf("check %s has no remedy: %v", c.Name, c.Seen)
		}
		found[c.Name] = c.Status
	}
	return found, checks
}

func check(t *testing.T, checks []Check, name string) Check {
	t.Helper()
	i := slices.IndexFunc(checks, func(c Check) bool { return c.Name == name })
	if i < 0 {
		t.Fatalf("no check %s", name)
	}
	return checks[i]
}

func TestDoctorOnPostgreSQL(t *testing.T) {
	group.Need(t, "servers")
	t.Parallel()
	server := dbtest.StartServer(t, &dbtest.Options{Config: []string{"fsync=off"}})
	text := "database: " + server.DSN() + "\nallow_unsafe: "
	weak := settings(t, text+"[]")

	got, checks := statuses(t, weak)
	want := map[string]Status{
		"settings": StatusOK, "database": StatusOK, "schema": StatusFailure, "durability": StatusFailure, "failover": StatusOK, "triggers": StatusOK, "search_path": StatusOK, "clock": StatusOK,
		"claim": StatusSkipped, "dead_letters": StatusSkipped, "quarantine": StatusSkipped, "destinations": StatusSkipped, "gateway": StatusSkipped,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("on an empty database (-want +got):\n%s", diff)
	}
	if c := check(t, checks, "durability"); !strings.Contains(c.Seen[0], "fsync is off") || !strings.Contains(c.Remedy, "allow_unsafe: [fsync]") {
		t.Errorf("durability: %+v", c)
	}
	store, err := OpenStore(t.Context(), weak)
	if err != nil {
		t.Fatal(err)
	}
	if applied, err := store.Applied(t.Context()); err != nil || len(applied) != 0 {
		t.Errorf("the doctor migrated: %v, %v", applied, err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}

	allowed := settings(t, text+"[fsync]")
	serve(t, allowed).await(t, "admin")
	want["schema"], want["durability"] = StatusOK, StatusWarning
	want["claim"], want["dead_letters"], want["quarantine"], want["destinations"] = StatusOK, StatusOK, StatusOK, StatusOK
	if got, checks = statuses(t, allowed); !cmp.Equal(want, got) {
		t.Errorf("beside a gateway (-want +got):\n%s\n%+v", cmp.Diff(want, got), checks)
	}

	server.Shutdown(t)
	got, checks = statuses(t, allowed)
	if got["database"] != StatusFailure || got["durability"] != StatusSkipped || got["settings"] != StatusOK {
		t.Errorf("without a server: %+v", checks)
	}
}

func TestDoctorBesideAGatewayOnSQLite(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	s := settings(t, "database: sqlite:"+path)
	r := serve(t, s)
	r.await(t, "admin")
	link := filepath.Join(filepath.Dir(path), "link.db")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*config.Settings{s, settings(t, "database: sqlite:"+link)} {
		got, checks := statuses(t, s)
		if c := check(t, checks, "gateway"); !strings.Contains(c.Seen[0], "a gateway (process ") {
			t.Errorf("beside a gateway: %+v", c)
		}
		if got["schema"] != StatusOK || got["durability"] != StatusOK {
			t.Errorf("beside a gateway: %+v", checks)
		}
	}
	r.cancel()
	if err := r.wait(t); err != nil {
		t.Fatal(err)
	}
	if _, checks := statuses(t, s); !strings.Contains(check(t, checks, "gateway").Seen[0], "no gateway") {
		t.Errorf("without a gateway: %+v", check(t, checks, "gateway"))
	}
	// A lock file that cannot be read says nothing about a gateway.
	lock := path + lockSuffix
	if err := errors.Join(os.Remove(lock), os.Symlink(lock, lock)); err != nil {
		t.Fatal(err)
	}
	if got, checks := statuses(t, s); got["gateway"] != StatusFailure {
		t.Errorf("without a lock file: %+v", checks)
	}
}

// slowClock is a store whose database's clock is behind.
type slowClock struct {
	driver.Store
	behind time.Duration
}

func (s *slowClock) Now(ctx context.Context) (time.Time, error) {
	now, err := s.Store.Now(ctx)
	return now.Add(-s.behind), err
}

func TestCheckClock(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	const tolerance = "{provider: stripe, secrets: [a-secret-that-is-long-enough], timestamp: {tolerance: %s}}"
	postgres := settings(t, "database: postgres://db.invalid/hooks")
	strict := settings(t, "database: postgres://db.invalid/hooks\nsources:\n  a: "+fmt.Sprintf(tolerance, "2m")+"\n  b: "+fmt.Sprintf(tolerance, "1h"))
	for _, tt := range []struct {
		name     string
		settings *config.Settings
		faults   *config.Faults
		behind   time.Duration
		want     Status
		seen     string
	}{
		{"off", postgres, nil, 2 * time.Minute, StatusWarning, "ahead"},
		{"far off", postgres, nil, 4 * time.Minute, StatusFailure, "ahead"},
		{"behind", postgres, nil, -4 * time.Minute, StatusFailure, "behind"},
		{"for the strictest source", strict, nil, 2 * time.Minute, StatusFailure, "beyond 1m0s,"},
		{"with faulty settings", strict, new(config.Faults), 2 * time.Minute, StatusWarning, "ahead"},
		{"SQLite", settings(t, "database: sqlite:x.db"), nil, 4 * time.Minute, StatusSkipped, "this machine"},
	} {
		d := &doctor{settings: tt.settings, faults: tt.faults}
		c := d.checkClock(t.Context(), &slowClock{store, tt.behind})
		if c.Status != tt.want || !strings.Contains(strings.Join(c.Seen, "\n"), tt.seen) {
			t.Errorf("%s: %+v, want %s and %q", tt.name, c, tt.want, tt.seen)
		}
	}
}

func TestJudgeClock(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		skew, limit time.Duration
		want        Status
		seen        string
	}{
		{0, 0, StatusOK, "0s ahead"},
		{time.Second, 0, StatusOK, "1s ahead"},
		{-time.Second - time.Millisecond, 0, StatusWarning, "1.001s behind"},
		{150 * time.Second, 0, StatusWarning, "2m30s ahead"},
		{150*time.Second + 1, 0, StatusFailure, "2m30s ahead"},
		{-16 * time.Second, 15 * time.Second, StatusFailure, "16s behind"},
		{200 * time.Second, time.Hour, StatusWarning, "3m20s ahead"},
	} {
		c := judgeClock(tt.skew, tt.limit)
		if c.Status != tt.want || !strings.Contains(c.Seen[0], tt.seen) || (c.Remedy == "") != (tt.want == StatusOK) {
			t.Errorf("skew %s, limit %s: %+v, want %s and %q", tt.skew, tt.limit, c, tt.want, tt.seen)
		}
	}
}

func TestJudgeDestinations(t *testing.T) {
	t.Parallel()
	known := []string{"billing"}
	for _, tt := range []struct {
		name    string
		waiting []driver.DestinationStats
		want    []string // findings of a warning; none for ok
	}{
		{"nothing", nil, nil},
		{"known", []driver.DestinationStats{{Destination: "billing", Pending: 3}}, nil},
		{"dead only", []driver.DestinationStats{{Destination: "gone", Dead: 3}}, nil},
		{
			"held",
			[]driver.DestinationStats{{Destination: "billing", Pending: 1}, {Destination: "gone", Pending: 2, Sending: 1, Dead: 5}, {Destination: "old", Sending: 1}},
			[]string{"gone is not in the settings; messages that wait for it: 3", "old is not in the settings; messages that wait for it: 1"},
		},
	} {
		c := judgeDestinations(tt.waiting, known, "the settings", "")
		if tt.want == nil {
			if c.Status != StatusOK {
				t.Errorf("%s: %+v", tt.name, c)
			}
			continue
		}
		if diff := cmp.Diff(tt.want, c.Seen); diff != "" || c.Status != StatusWarning {
			t.Errorf("%s: %+v (-want +got):\n%s", tt.name, c, diff)
		}
	}
}

func TestDoctorNamesAnotherEncoding(t *testing.T) {
	group.Need(t, "servers")
	t.Parallel()
	server := dbtest.StartServer(t, nil)
	conn, err := pgx.Connect(t.Context(), server.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	if _, err := conn.Exec(t.Context(), "CREATE DATABASE other TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C' ENCODING 'LATIN1'"); err != nil {
		t.Fatal(err)
	}
	s := settings(t, "database: "+strings.Replace(server.DSN(), "/postgres?", "/other?", 1))
	_, checks := statuses(t, s)
	if c := check(t, checks, "schema"); c.Status != StatusFailure || !strings.Contains(c.Seen[0], "LATIN1") || c.Remedy == "" {
		t.Errorf("schema: %+v", c)
	}
	var refused *driver.ServerError
	if err := serve(t, s).wait(t); !errors.As(err, &refused) {
		t.Errorf("serve: got the error %v", err)
	}
}
