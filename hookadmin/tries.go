package hookadmin

import (
	"net/netip"
	"sync"
	"time"
)

// maxAddresses bounds the addresses that tries remembers. When they are exceeded
// it forgets all of them: a token that can be found by a few more tries is none.
const maxAddresses = 16_384

// tries bounds how often an address may try: burst times at once, and then once
// in each interval.
type tries struct {
	burst    int
	interval time.Duration

	mu sync.Mutex
	// spent is, by address, when it may try burst times at once again.
	spent map[netip.Addr]time.Time
}

func newTries(burst int, interval time.Duration) *tries {
	return &tries{burst: burst, interval: interval, spent: make(map[netip.Addr]time.Time)}
}

// take counts a try, or returns how long it takes until there may be one.
func (t *tries) take(addr netip.Addr, now time.Time) (wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	spent, known := t.spent[addr]
	if !known && len(t.spent) >= maxAddresses {
		clear(t.spent)
	}
	if spent.Before(now) {
		spent = now
	}
	if wait = spent.Sub(now) - time.Duration(t.burst-1)*t.interval; wait > 0 {
		return wait
	}
	t.spent[addr] = spent.Add(t.interval)
	return 0
}

// giveBack makes the last try of addr count as none.
func (t *tries) giveBack(addr netip.Addr) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if spent, known := t.spent[addr]; known {
		t.spent[addr] = spent.Add(-t.interval)
	}
}

// addressOf returns the address in remote, which is "host:port" as in
// http.Request; of IPv6 its /64, which is what one sender has. What does not
// parse shares the zero address.
func addressOf(remote string) netip.Addr {
	ap, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Addr{}
	}
	addr := ap.Addr().Unmap().WithZone("")
	if addr.Is6() {
		prefix, _ := addr.Prefix(64) // of an address of 128 bits there is one
		return prefix.Addr()
	}
	return addr
}
