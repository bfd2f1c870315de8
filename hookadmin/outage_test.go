package hookadmin_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookadmin"
	"github.com/hookonce/hookonce/internal/test/rig"
)

// TestOutageIsOnEveryPage has a Ready that fails, and then one that does not.
func TestOutageIsOnEveryPage(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	var err error
	a := newAPI(t, func(cfg *hookadmin.Config) {
		cfg.Store = store
		cfg.Ready = func(context.Context) error { return err }
	})
	for _, c := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("claiming: %w: dial db.internal", driver.ErrFull), "The disk of the database is full. Free some space on it."},
		{fmt.Errorf("hookonce: %w", driver.ErrReadOnly), "The database is read-only or a standby. Point the settings to the primary."},
		{errors.New("hookonce: dial db.internal"), "Deliveries cannot be accepted. This shows more:"},
		{nil, ""},
	} {
		err = c.err
		for _, path := range []string{"/", "/events", "/dead-letters", "/refused", "/quarantine", "/sources", "/destinations", "/jobs"} {
			page := text(a.page(t, path, 200))
			if strings.Contains(page, "Deliveries cannot be accepted.") != (c.err != nil) || !strings.Contains(page, c.want) || strings.Contains(page, "db.internal") {
				t.Errorf("%s with %v: %s", path, c.err, page)
			}
		}
		if ready := string(a.get(t, "/readyz").body); !strings.Contains(ready, strings.Split(c.want, ".")[0]) || strings.Contains(ready, "db.internal") {
			t.Errorf("/readyz with %v: %s", c.err, ready)
		}
	}
}
