package pgstore

import (
	"slices"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// messageArgs are the messages of the claims of a round, as arguments.
type messageArgs struct {
	ids, routes, destinations []string
	keys                      [][]byte // of the events
	leases                    []int64  // microseconds
}

// messages returns the messages of the claims of this round. A transaction of the caller leases none: they
// cannot be sent before it ends.
func (b *claimBatch) messages() *messageArgs {
	all := &messageArgs{ids: []string{}, routes: []string{}, destinations: []string{}, keys: [][]byte{}, leases: []int64{}}
	for _, place := range b.places {
		c := &b.Claims[place]
		for _, m := range c.Messages {
			if b.inTx {
				m.LeaseFor = 0
			}
			all.ids, all.keys = append(all.ids, m.ID), append(all.keys, c.Key[:])
			all.routes, all.destinations = append(all.routes, m.Route), append(all.destinations, m.Destination)
			all.leases = append(all.leases, m.LeaseFor.Microseconds())
		}
	}
	return all
}

// leases tells which messages a statement leased. All of them have one token.
type leases struct {
	at     *time.Time // when their events were received; nil if it leased none
	token  *int64
	paused [][]byte // the names of the destinations whose messages it did not lease
}

// tellLeases adds the leases to the results of the claimed events.
func (b *claimBatch) tellLeases(l *leases) {
	if l.at == nil || l.token == nil {
		return
	}
	for _, place := range b.places {
		result := &b.results[place]
		if !result.Claimed {
			continue
		}
		for _, m := range b.Claims[place].Messages {
			paused := slices.ContainsFunc(l.paused, func(name []byte) bool { return string(name) == m.Destination })
			if m.LeaseFor > 0 && !paused {
				result.Leases = append(result.Leases, driver.MessageLease{ID: m.ID, Token: *l.token})
				result.ReceivedAt = l.at.UTC()
			}
		}
	}
}

// size returns the bytes of the encoded messages.
func (a *messageArgs) size() int {
	const ofRow = 5*4 + len(driver.Key{}) + 8 // lengths, key, lease
	size := 5*arrayHeader + len(a.ids)*ofRow
	for i := range a.ids {
		size += len(a.ids[i]) + len(a.routes[i]) + len(a.destinations[i])
	}
	return size
}

// encode adds the messages in the order of insertRoutedSQL.
func (a *messageArgs) encode(p *Parameters) {
	texts := func(all []string) {
		p.array(oidText, len(all), false)
		for _, v := range all {
			p.textElement(v)
		}
		p.end()
	}
	texts(a.ids)
	p.array(oidBytea, len(a.keys), false)
	for _, key := range a.keys {
		p.byteaElement(key)
	}
	p.end()
	texts(a.routes)
	texts(a.destinations)
	p.array(oidInt8, len(a.leases), false)
	for _, lease := range a.leases {
		p.int8Element(lease)
	}
	p.end()
}

// decode reads the leases of insertRoutedSQL: the last three columns.
func (l *leases) decode(values [][]byte) error {
	if len(values) < 9 {
		return errBinary
	}
	at, err := decodeInt8(values[6])
	if err != nil {
		return err
	}
	token, err := decodeInt8(values[7])
	if err != nil {
		return err
	}
	received := time.UnixMicro(at + postgresEpoch)
	l.at, l.token = &received, &token
	return decodeByteaArray(values[8], func(name []byte) { l.paused = append(l.paused, slices.Clone(name)) })
}
