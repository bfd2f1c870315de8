package hooksql_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hooksql"
)

// canaryFile is a store whose events carry their own canary in everything that a sender or a
// destination may have written.
type canaryFile struct {
	*testing.T
	*hooksql.Store
	path string
	now  time.Time
}

func canaryOf(id string) string { return "<canary of " + id + ">" }

// text returns at least n bytes that consist of the canary of id.
func text(id string, n int) []byte {
	return []byte(strings.Repeat(canaryOf(id), n/len(canaryOf(id))+1))
}

func (f *canaryFile) claim(id string, size int) driver.Claim {
	c := newClaim(id)
	c.Body = text(id, size)
	c.BodyHash = sha256.Sum256(c.Body)
	c.Headers = fmt.Appendf(nil, `{"X-Canary":[%q]}`, canaryOf(id))
	c.Messages[0].Destination = "to-" + id
	return c
}

func (f *canaryFile) ok(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *canaryFile) claimAll(claims ...driver.Claim) {
	f.Helper()
	for _, c := range claims {
		_, err := f.Claim(f.Context(), &driver.ClaimParams{Claims: []driver.Claim{c}, Now: f.now})
		f.ok(err)
	}
}

// fail has each attempt of the message to a destination fail, and the last one leave it dead.
func (f *canaryFile) fail(id, destination string, attempts int) {
	f.Helper()
	for n := 1; n <= attempts; n++ {
		leased, err := f.Lease(f.Context(), &driver.LeaseParams{
			Destination: destination, Limit: 1, For: time.Minute, MaxAttempts: attempts + 1, Now: f.now.Add(time.Minute),
		})
		f.ok(err)
		if len(leased.Messages) != 1 {
			f.Fatalf("%d messages to %s are due, want 1", len(leased.Messages), destination)
		}
		m := leased.Messages[0]
		done := driver.Completion{
			ID: m.ID, Token: m.Token, Outcome: driver.MessageRetry, StatusCode: 500, Error: "answered 500: " + canaryOf(id),
			Response: text(id, driver.MaxResponse-100), ResponseType: "text/plain",
		}
		if n == attempts {
			done.Outcome = driver.MessageDead
		}
		_, err = f.Complete(f.Context(), &driver.CompleteParams{Completions: []driver.Completion{done}, Now: f.now})
		f.ok(err)
	}
}

// everything gives an event each kind of copy: a quarantined request, an inline failure, another body,
// failed attempts with answers, and an enqueued message.
func (f *canaryFile) everything(c driver.Claim) {
	f.Helper()
	id := c.EventID
	request := driver.Quarantined{Source: c.Source, BodyHash: c.BodyHash, Part: driver.PartRequest, Headers: c.Headers, Body: c.Body, Reason: canaryOf(id)}
	f.ok(f.Quarantine(f.Context(), &driver.QuarantineParams{Requests: []driver.Quarantined{request}, Now: f.now}))
	_, err := f.SettleQuarantined(f.Context(), &driver.SettleQuarantinedParams{Key: driver.BodyKey(c.Source, c.BodyHash)})
	f.ok(err)
	_, err = f.CountInlineFailure(f.Context(), &driver.InlineFailure{Claim: c, Error: canaryOf(id), Limit: 9, Now: f.now})
	f.ok(err)
	_, err = f.CountInlineFailure(f.Context(), &driver.InlineFailure{Claim: c, Error: canaryOf(id), Limit: 9, Dead: true, Now: f.now})
	f.ok(err)
	f.ok(f.CountDeliveries(f.Context(), &driver.CountDeliveriesParams{Clock: f.now, Now: f.now, Counts: []driver.DeliveryCount{{
		Key: c.Key, Duplicates: 1, OtherBodies: 1,
		Other: &driver.OtherBody{At: f.now, Headers: c.Headers, Body: text(id, 40_000), Size: 40_000},
	}}}))
	f.fail(id, "to-"+id, 4)
	f.ok(f.Enqueue(f.Context(), []driver.OutboxMessage{{
		ID: "caused-by-" + id, Destination: "for-" + id, Headers: c.Headers, Body: text(id, 9_000), Source: c.Source, EventID: id, Type: c.Type, Cause: c.Key,
	}}))
	now := f.now
	f.now = time.Now().Add(time.Minute) // Enqueue is by the database's clock
	f.fail(id, "for-"+id, 2)
	f.now = now
}

// holders returns the files that hold the canary of id.
func (f *canaryFile) holders(id string) []string {
	f.Helper()
	var names []string
	for _, name := range []string{f.path, f.path + "-wal"} {
		raw, err := os.ReadFile(name)
		f.ok(err)
		if bytes.Contains(raw, []byte(canaryOf(id))) {
			names = append(names, filepath.Base(name))
		}
	}
	return names
}

func (f *canaryFile) redact(c driver.Claim) *driver.Redacted {
	f.Helper()
	redacted, err := f.Redact(f.Context(), &driver.RedactParams{Key: c.Key, Now: f.now})
	f.ok(err)
	return redacted
}

// A redaction leaves no byte of the event in the file and its log: neither in its rows, nor in those
// that were removed before, nor in pages that pruning of its neighbours has merged or freed.
func TestRedactedBytesAreNotInTheFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "hookonce.db")
	f := &canaryFile{T: t, Store: openMigrated(t, path), path: path, now: time.Now().Add(-72 * time.Hour)}
	neighbours := func(kind string, n int) {
		for i := range n {
			id := fmt.Sprintf("%s-%04d", kind, i)
			c := f.claim(id, 50+i*7919%9_000)
			c.Messages = nil
			f.claimAll(c)
		}
	}
	neighbours("before", 20)
	pruned := f.claim("pruned", 30_000)
	f.everything(pruned)
	f.now = f.now.Add(48 * time.Hour)
	canaries := []driver.Claim{f.claim("small", 100), f.claim("page", 3_000), f.claim("long", 60_000)}
	for i, c := range canaries {
		f.now = f.now.Add(-48 * time.Hour)
		neighbours(fmt.Sprint("between-", i), 20) // past the window
		f.now = f.now.Add(48 * time.Hour)
		f.everything(c)
	}
	neighbours("after", 20)
	result, err := f.Prune(t.Context(), &driver.PruneParams{DedupeWindow: 30 * 24 * time.Hour, Retention: 36 * time.Hour})
	if err != nil || result.Bodies < 80 {
		t.Fatalf("pruned %+v (%v), want the bodies of the neighbours", result, err)
	}
	result, err = f.Prune(t.Context(), &driver.PruneParams{
		DedupeWindow: 36 * time.Hour, Retention: 36 * time.Hour,
	})
	if err != nil || result.Events < 80 {
		t.Fatalf("pruned %+v (%v), want the neighbours", result, err)
	}
	for _, c := range append(canaries, pruned) {
		if f.holders(c.EventID) == nil {
			t.Fatalf("the files do not hold the canary of %s before the redaction", c.EventID)
		}
	}
	for _, c := range append(canaries, pruned) {
		if got := f.redact(c); got.Remains != "" {
			t.Errorf("after redacting %s bytes remain: %s", c.EventID, got.Remains)
		}
		if names := f.holders(c.EventID); names != nil {
			t.Errorf("after redacting %s its canary is in %v", c.EventID, names)
		}
	}
	if f.holders("after-0007") == nil {
		t.Error("the canary of another event is gone too")
	}
}

// On a writer without secure_delete, freed pages may hold the bytes: the result says so.
func TestRedactWithoutSecureDelete(t *testing.T) {
	t.Parallel()
	store, writer, _ := onOwnPools(t)
	f := &canaryFile{T: t, Store: store, now: time.Now()}
	f.ok(writer.QueryRowContext(t.Context(), `SELECT file FROM pragma_database_list`).Scan(&f.path))
	var mode int
	f.ok(writer.QueryRowContext(t.Context(), `PRAGMA secure_delete=FAST`).Scan(&mode)) // it has one connection
	c := f.claim("long", 60_000)
	f.claimAll(c)
	f.fail("long", "to-long", 1)
	if got := f.redact(c); !strings.Contains(got.Remains, "PRAGMA secure_delete=ON") {
		t.Errorf("the result is %+v, want it to name the setting", got)
	}
	if f.holders("long") == nil {
		t.Error("nothing remains: the note is not needed")
	}
}
