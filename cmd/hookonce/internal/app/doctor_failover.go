package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/build"
	"github.com/hookonce/hookonce/driver"
)

// checkFailover tells whether acknowledged events survive when a standby takes over.
func checkFailover(ctx context.Context, store driver.Store) Check {
	const name = "failover"
	replicated, ok := store.(driver.Replicated)
	if !ok {
		return skipped(name, "SQLite has no standbys")
	}
	r, err := replicated.Replication(ctx)
	if errors.Is(err, driver.ErrHidden) {
		return skipped(name, err.Error())
	}
	if err != nil {
		return failed(name, err)
	}
	return judgeFailover(r)
}

// judgeFailover judges the standbys.
func judgeFailover(r *driver.Replication) Check {
	c := Check{Name: "failover", Status: StatusOK}
	seen := func(format string, args ...any) { c.Seen = append(c.Seen, fmt.Sprintf(format, args...)) }
	standbys := fmt.Sprintf("standbys that are connected: %d", r.Standbys)
	if !r.Hidden {
		standbys += fmt.Sprintf(", synchronous ones among them: %d", r.Synchronous)
	}
	if r.UnusedSlots > 0 {
		standbys += fmt.Sprintf("; replication slots that nobody reads: %d", r.UnusedSlots)
	}
	if r.Platform != "" {
		seen("the server is of %s", r.Platform)
	}
	switch {
	case r.Names == "" && r.Standbys == 0 && r.Storage != "":
		seen("no standby is connected, and none is needed: %s", r.Storage)
	// Patroni empties synchronous_standby_names when the last standby is gone, unless its mode is strict. Only the slot
	// then tells this server from one that never had a standby.
	case r.Names == "" && r.Standbys == 0 && r.UnusedSlots > 0:
		seen("a standby is missing: %s", standbys)
		seen("acknowledged events are on the disk of this server alone: a failover now may lose them")
		c.Status = StatusWarning
		c.Remedy = "start the standby, and let it catch up (patronictl list); if it is gone for good, remove it: Patroni then drops its slot; without Patroni, SELECT pg_drop_replication_slot('NAME')"
	case r.Names == "" && r.Standbys == 0:
		seen("a single server: no standby is connected; acknowledged events are on its disk alone")
	case r.Names == "":
		seen("%s; commits wait for none of them", standbys)
		seen("a failover loses the events that were acknowledged last")
		c.Status = StatusWarning
		c.Remedy = "set synchronous_standby_names (Patroni: synchronous_mode: true; if it is set, Patroni started beside this server while it ran: see " + build.Page("scale.md") + "), unless no standby ever takes over"
	case !r.Hidden && r.Synchronous == 0, r.Standbys == 0:
		seen("synchronous_standby_names = %q; %s", r.Names, standbys)
		seen("commits wait for a standby that is not there: deliveries are answered 503")
		c.Status = StatusFailure
		c.Remedy = "start the standby; or name another one, or none, in synchronous_standby_names; if a new primary has taken over, point the setting database to it"
	default:
		seen("synchronous_standby_names = %q, synchronous_commit = %s; %s", r.Names, r.Level, standbys)
		if r.Level == "remote_write" {
			seen("a failover to a synchronous standby loses no acknowledged event, unless that machine crashes at the same time")
		} else {
			seen("a failover to a synchronous standby loses no acknowledged event")
		}
		if r.Hidden {
			seen("this role may not see which standbys are synchronous (GRANT pg_read_all_stats)")
		}
	}
	return c
}
