package pgstore

import (
	"testing"
	"testing/synctest"
	"time"
)

var (
	noon    = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC) // by the database's clock
	orders  = queue{"fresh", "orders"}
	settled = noon.Add(-commitTime) // transactions that began before have committed
)

// begins returns where the next look at orders begins; the zero time stands for the whole queue.
func (l *lowWater) begins(types string) time.Time {
	k := l.begin(orders, types, time.Time{})
	if k.from == nil {
		return time.Time{}
	}
	return *k.from
}

func TestLowWater(t *testing.T) {
	t.Parallel()
	old := noon.Add(-time.Hour)
	for _, test := range []struct {
		name string
		do   func(*lowWater)
		want time.Time
	}{
		{"nothing known", func(*lowWater) {}, time.Time{}},
		{"all due rows taken", func(l *lowWater) { l.begin(orders, "", time.Time{}).end(noon, noon) }, settled},
		{"some due rows taken", func(l *lowWater) { l.begin(orders, "", time.Time{}).end(old, noon) }, old},
		{"rows of late transactions", func(l *lowWater) { l.begin(orders, "", time.Time{}).end(noon.Add(-commitTime/2), noon) }, settled},
		{"no row at first", func(l *lowWater) { l.begin(orders, "", time.Time{}).end(time.Time{}, time.Time{}) }, time.Time{}},
		{"no row later", func(l *lowWater) {
			l.begin(orders, "", time.Time{}).end(old, noon)
			l.begin(orders, "", time.Time{}).end(time.Time{}, time.Time{})
		}, old},
		{"other types", func(l *lowWater) { l.begin(orders, "paid", time.Time{}).end(noon, noon) }, time.Time{}},
		{"another queue", func(l *lowWater) { l.begin(queue{"tried", "orders"}, "", time.Time{}).end(noon, noon) }, time.Time{}},
		{"a clock of a test", func(l *lowWater) { l.begin(orders, "", noon).end(noon, noon) }, time.Time{}},
		{"an unlocked row", func(l *lowWater) {
			l.begin(orders, "", time.Time{}).end(noon, noon)
			l.lower("orders", old)
		}, old},
		{"an unlocked row behind the mark", func(l *lowWater) {
			l.begin(orders, "", time.Time{}).end(old, noon)
			l.lower("orders", noon)
		}, old},
		{"an unlocked row due at any time", func(l *lowWater) {
			l.begin(orders, "", time.Time{}).end(noon, noon)
			l.lower("orders", time.Time{})
		}, time.Time{}},
		{"a row unlocked during a look", func(l *lowWater) {
			l.begin(orders, "", time.Time{}).end(old, noon)
			k := l.begin(orders, "", time.Time{})
			l.lower("orders", noon)
			k.end(noon, noon)
		}, old},
		{"forgotten during a look", func(l *lowWater) {
			k := l.begin(orders, "", time.Time{})
			l.forget()
			k.end(noon, noon)
		}, time.Time{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var l lowWater
				test.do(&l)
				if got := l.begins(""); !got.Equal(test.want) {
					t.Errorf("the next look begins at %v, want %v", got, test.want)
				}
			})
		})
	}
}

// TestWholeLooks lets the clock run: a whole look follows after a second, and after an expensive one so
// much later that such looks take a fiftieth of the time.
func TestWholeLooks(t *testing.T) {
	t.Parallel()
	for took, wait := range map[time.Duration]time.Duration{
		0:                      time.Second,
		10 * time.Millisecond:  time.Second,
		100 * time.Millisecond: 5 * time.Second,
		10 * time.Second:       time.Minute,
	} {
		synctest.Test(t, func(t *testing.T) {
			var l lowWater
			k := l.begin(orders, "", time.Time{})
			time.Sleep(took)
			k.end(noon, noon)
			time.Sleep(wait - took - time.Nanosecond)
			if got := l.begins(""); !got.Equal(settled) {
				t.Errorf("after a look of %v: the next one within %v begins at %v, want %v", took, wait, got, settled)
			}
			time.Sleep(time.Nanosecond)
			if got := l.begins(""); !got.IsZero() {
				t.Errorf("after a look of %v: one after %v begins at %v, want the whole queue", took, wait, got)
			}
		})
	}
}
