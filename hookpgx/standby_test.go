package hookpgx_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/dbtest"
)

// TestDuplicateWaitsForTheStandby has a synchronous standby that is out of reach. Once the wait is
// given up, the event's row is visible on the primary, but not known to be durable: a duplicate
// must not be acknowledged.
func TestDuplicateWaitsForTheStandby(t *testing.T) {
	t.Parallel()
	server := dbtest.StartServer(t, nil)
	w := connect(t, server.DSN(), "hookonce", nil)
	if _, err := w.Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	standbys := func(names string) {
		t.Helper()
		if _, err := w.pool.Exec(t.Context(), "ALTER SYSTEM SET synchronous_standby_names = '"+names+"'"); err != nil {
			t.Fatal(err)
		}
		if _, err := w.pool.Exec(t.Context(), "SELECT pg_reload_conf()"); err != nil {
			t.Fatal(err)
		}
	}
	claim := func(id string, mostlyKnown bool) error {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		_, err := w.Claim(ctx, &driver.ClaimParams{Claims: []driver.Claim{newClaim(id)}, MostlyKnown: mostlyKnown})
		return err
	}
	standbys("nobody_here")
	// Each process of the server reloads its settings a moment later.
	first := ""
	for i := 0; first == ""; i++ {
		id := strconv.Itoa(i)
		switch err := claim(id, false); {
		case errors.Is(err, driver.ErrCommitUnknown):
			first = id
		case err != nil || i > 10_000:
			t.Fatalf("claim %d with the standby out of reach: %v", i, err)
		}
	}
	for _, mostlyKnown := range []bool{false, true} {
		if err := claim(first, mostlyKnown); !errors.Is(err, driver.ErrCommitUnknown) {
			t.Errorf("a duplicate (mostly known: %v): error %v, want ErrCommitUnknown", mostlyKnown, err)
		}
	}
	standbys("")
	for i := 0; claim(first, true) != nil; i++ {
		if i > 100 {
			t.Fatal("duplicates are not claimed once there is no standby to wait for")
		}
	}
}
