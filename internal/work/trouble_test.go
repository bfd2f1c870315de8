package work

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hookonce/hookonce/driver"
)

func TestTroubles(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var all troubles
		events := func(ids ...string) (events []driver.TakenEvent) {
			for _, id := range ids {
				events = append(events, driver.TakenEvent{Key: driver.EventKey("shop", id), Source: "shop", EventID: id})
			}
			return events
		}
		refuse := func(want time.Duration, fault bool, ids ...string) {
			t.Helper()
			if rest, isFault := all.refuse(events(ids...)); rest != want || isFault != fault {
				t.Errorf("%q refused: rest %v, fault %v; want %v, %v", ids, rest, isFault, want, fault)
			}
		}
		of := func(source string, rests, alone bool) {
			t.Helper()
			if r, a := all.of(source); r != rests || a != alone {
				t.Errorf("%s rests %v, alone %v; want %v, %v", source, r, a, rests, alone)
			}
		}
		all.recorded(events("before"))
		of("shop", false, false)
		refuse(time.Second, false, "a", "b")
		refuse(time.Second, false, "c", "d") // beside the first one
		of("shop", true, true)
		of("other", false, false)
		for _, rest := range []time.Duration{2, 4, 8, 16, 32, 60, 60} { // none was recorded meanwhile
			time.Sleep(time.Minute)
			refuse(rest*time.Second, false, "a")
		}
		time.Sleep(time.Minute)
		all.recorded(events("b"))
		refuse(0, true, "a")
		refuse(time.Second, false, "c")
		all.recorded(events("c"))
		refuse(time.Second, false, "c") // it was recorded itself, not another one
		all.recorded(events("a"))
		all.recorded(events("c"))
		of("shop", false, true)
		time.Sleep(alonePeriod + time.Second)
		all.recorded(events("d"))
		if len(all.sources) > 0 {
			t.Errorf("%d sources are remembered", len(all.sources))
		}
		for i := range maxRefused + 1 {
			all.refuse(events(fmt.Sprint(i)))
		}
		if n := len(all.sources["shop"].refused); n != 1 {
			t.Errorf("%d events are remembered, want a bounded number", n)
		}
	})
}

func TestIsRefusal(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]bool{
		driver.ErrUnavailable: true, driver.ErrTimedOut: true, driver.ErrLockTimeout: true,
		driver.ErrAway: false, driver.ErrCommitUnknown: false, driver.ErrTxEnded: false,
	} {
		if got := isRefusal(fmt.Errorf("finishing: %w", err)); got != want {
			t.Errorf("isRefusal(%v) = %v, want %v", err, got, want)
		}
	}
}
