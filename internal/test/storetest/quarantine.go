package storetest

import (
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/hookonce/hookonce/driver"
)

func (f *fixture) quarantine(at time.Time, requests ...driver.Quarantined) {
	f.Helper()
	for i := range requests {
		requests[i].BodyHash = sha256.Sum256(requests[i].Body)
		if requests[i].Headers == nil {
			requests[i].Headers = []byte("{}")
		}
	}
	if err := f.s.Quarantine(f.Context(), &driver.QuarantineParams{Requests: requests, Now: at}); err != nil {
		f.Fatalf("Quarantine: %v", err)
	}
}

// pruneQuarantine stores each body of a source once, even if other parts of the request differ, and
// apart from events.
func pruneQuarantine(f *fixture) {
	f.quarantine(t0)
	var all []driver.Quarantined
	for _, body := range bodies() {
		for _, source := range []string{"stripe", "github"} {
			all = append(all, driver.Quarantined{Source: source, Body: body, Reason: "it's not an \"event\""})
		}
	}
	f.quarantine(t0, all...)
	f.quarantine(t0, all...)                 // counted, not stored again
	f.quarantine(t0, all[0], all[0], all[1]) // nor within one call
	all[2].Reason, all[2].Headers = "other", []byte(`{"A":["b"]}`)
	f.quarantine(t0, all[2])
	same(f, "events", []string(nil), idsOf(f.events(&driver.EventFilter{})))
	p := windows(day, t0.Add(day-time.Second))
	same(f, "pruned early", driver.PruneResult{}, f.prune(p))
	p.Now = t0.Add(day + time.Second)
	same(f, "pruned", driver.PruneResult{Quarantined: int64(len(all))}, f.prune(p))
	same(f, "pruned again", driver.PruneResult{}, f.prune(p))
	f.quarantine(p.Now, all[0])
	p.Now = p.Now.Add(2 * day)
	same(f, "pruned after it came back", driver.PruneResult{Quarantined: 1}, f.prune(p))
}

func pruneQuarantineRows(f *fixture) {
	const n = 10
	for i := range n {
		for _, source := range []string{"stripe", "github"} {
			f.quarantine(t0.Add(time.Duration(i)*time.Second), driver.Quarantined{Source: source, Body: fmt.Append(nil, i), Reason: "no id"})
		}
	}
	f.quarantine(t0, driver.Quarantined{Source: "shopify", Body: []byte("only"), Reason: "no id"})
	p := windows(day, t0.Add(time.Minute))
	same(f, "pruned without a bound", driver.PruneResult{}, f.prune(p))
	p.QuarantineRows = 4
	p.Chunk = 5
	same(f, "pruned to four of each source", driver.PruneResult{Quarantined: 2 * (n - 4)}, f.prune(p))
	same(f, "pruned again", driver.PruneResult{}, f.prune(p))
	// The newest four are left. At an hour after the sixth of ten they are within a retention of
	// one hour, and all pruned ones are past it.
	p.QuarantineRows, p.Retention = 0, time.Hour
	p.Now = t0.Add(time.Hour + 5500*time.Millisecond)
	same(f, "pruned by age", driver.PruneResult{Quarantined: 1}, f.prune(p)) // shopify's only one
	p.Now = p.Now.Add(time.Minute)
	same(f, "pruned by age, later", driver.PruneResult{Quarantined: 8}, f.prune(p))
}
