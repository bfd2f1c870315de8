package work_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/work"
)

// Small bodies that inflate to large ones do not share a run: their run would hold all of them in
// memory.
func TestInflatedBodiesAreBounded(t *testing.T) {
	t.Parallel()
	db := openDatabase(t)
	var compressed bytes.Buffer
	zip := gzip.NewWriter(&compressed)
	body := make([]byte, 20<<20)
	for i := 0; i < len(body); i += 32 { // it must not look like a decompression bomb
		body[i] = byte(rand.Int())
	}
	if _, err := zip.Write(body); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	ids := []string{"1", "2", "3"}
	for _, id := range ids {
		c := newClaim(id, compressed.String())
		c.Headers = []byte(`{"Content-Encoding":["gzip"]}`)
		claim(t, db, c)
	}
	var runs atomic.Int64
	db.finish = func(ctx context.Context, run driver.Run[*sql.Tx], p *driver.FinishParams) error {
		runs.Add(1)
		if len(p.Results) != 1 {
			t.Errorf("a run has %d outcomes, want 1", len(p.Results))
		}
		return run.Finish(ctx, p)
	}
	run(t, newWorkers(db, func(ctx context.Context, tx *sql.Tx, ev *work.Event) error {
		if len(ev.Body) != 20<<20 {
			return fmt.Errorf("the body has %d bytes", len(ev.Body))
		}
		return insert(ctx, tx, ev)
	}, nil))
	for _, id := range ids {
		wantOutcome(t, db, id, done)
	}
	wantEffects(t, db, ids...)
	if n := runs.Load(); n != 3 {
		t.Errorf("there were %d runs, want 3", n)
	}
}
