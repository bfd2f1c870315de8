package hookadmin_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookadmin"
	"github.com/hookonce/hookonce/internal/test/rig"
)

// counting is a store that counts the series that are read.
type counting struct {
	driver.Store
	series atomic.Int64
}

func (c *counting) Series(ctx context.Context, filter *driver.SeriesFilter) ([]driver.Point, error) {
	c.series.Add(1)
	return c.Store.Series(ctx, filter)
}

// The page of sources reads as many series for many sources that refused all as for one.
func TestSourcesPageReadsOnce(t *testing.T) {
	t.Parallel()
	store := &counting{Store: rig.OpenSQLite(t)}
	engine := newEngine(t, rig.OpenSQLite(t), &hookonce.Config{Sources: everySource()})
	a := newAPI(t, func(cfg *hookadmin.Config) { cfg.Store, cfg.Engine = store, engine })
	var read []int64
	for _, source := range []string{"todo", "long", "short"} {
		refused := []driver.Figure{{Of: driver.FigureDeliveries, At: time.Now(), Name: source, Label: "refused", N: 20}}
		if err := store.AddFigures(t.Context(), &driver.AddFiguresParams{Figures: refused}); err != nil {
			t.Fatal(err)
		}
		before := store.series.Load()
		a.page(t, "/sources", 200)
		read = append(read, store.series.Load()-before)
	}
	if read[0] == 0 || read[2] != read[0] {
		t.Errorf("read %d series for one, two and three sources that refused all", read)
	}
}
