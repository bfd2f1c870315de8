package pgstore

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/hookonce/hookonce/driver"
)

const (
	// The plain statement waits for a row of the same key for maxPlainLockWait at most, and for at most half of
	// the claim's LockTimeout. The claim function waits for the rest, after it has looked for known events.
	maxPlainLockWait = 100 * time.Millisecond
	// minPlainLockWait leaves batches that are split to the function: they have at most 100 ms, and hold a key
	// that is stuck.
	minPlainLockWait = 60 * time.Millisecond
)

// plainLockWait returns how long the plain statement may wait for a row.
func (b *claimBatch) plainLockWait() time.Duration { return min(maxPlainLockWait, b.lockWait/2) }

// plain reports whether the plain statement can make the claims. It knows neither bodies nor
// notes. With a short LockTimeout too little would be left for the claim function.
func (s *Store) plain(p *driver.ClaimParams) bool {
	if s.binary == nil || p.LockTimeout > 0 && p.LockTimeout < 2*minPlainLockWait {
		return false
	}
	for i := range p.Claims {
		c := &p.Claims[i]
		if c.BodyGuard != driver.BodyIgnore || c.Work == driver.WorkDone || c.Undecided != "" || hasOrder(c) {
			return false
		}
	}
	return true
}

// claimPlain claims by a plain INSERT, which costs the database less than the claim function. Claims that
// stay in b.places are in doubt: the function decides them. committed reports whether an event was
// claimed. On an error none was, unless it matches driver.ErrCommitUnknown.
func (s *Store) claimPlain(ctx context.Context, b *claimBatch) (committed bool, err error) {
	if len(b.places) == 1 && len(b.Claims[b.places[0]].Messages) == 0 {
		return s.claimOne(ctx, b)
	}
	claimed, leased, safe, err := s.insertNew(ctx, b)
	if err != nil || !safe {
		return false, s.plainFailed(b, err)
	}
	var open []claimRow
	for _, place := range b.places {
		b.results[place].Claimed = claimed == nil || claimed[b.Claims[place].Key]
		if !b.results[place].Claimed {
			open = append(open, claimRow{place: place})
		}
	}
	b.tellLeases(leased)
	committed = len(open) < len(b.places)
	_, err = s.lookUp(b, open)
	b.places = b.places[:0]
	for _, row := range open {
		if !b.results[row.place].Duplicate {
			b.places = append(b.places, row.place)
		}
	}
	return committed, err
}

// claimOne is claimPlain for one event without messages. If it is not new, a look-up comes before the claim
// function.
func (s *Store) claimOne(ctx context.Context, b *claimBatch) (committed bool, err error) {
	place := b.places[0]
	err = s.binary.QueryBinary(ctx, s.statement(insertOneSQL), func(p *Parameters) { b.encodeOne(p, &b.Claims[place]) }, func([][]byte) error {
		committed = true
		return nil
	})
	if err != nil {
		return false, s.plainFailed(b, err)
	}
	if !committed {
		s.settleKnown(b)
		return false, nil
	}
	b.results[place].Claimed = true
	b.places = b.places[:0]
	return true, nil
}

// plainFailed returns nil if the claim function decides after err of a plain statement, which may be nil.
func (s *Store) plainFailed(b *claimBatch, err error) error {
	switch {
	case err == nil || errors.Is(err, ErrNotBinary):
		return nil
	case s.inDoubt(err):
		b.lockWait -= b.plainLockWait()
		return nil
	}
	return writeFailed(s.pools.Receive, "claiming", err)
}

// inDoubt reports whether the server undid the plain statement for a reason that the claim function
// may not meet, or explains better: a row that is held, refused or dropped, or a foreign rule on
// event_state, with which PostgreSQL refuses an INSERT inside WITH.
func (s *Store) inDoubt(err error) bool {
	if s.pools.Receive.Outcome(err) != Refused {
		return false
	}
	if SQLState(err) == codeNotSupported {
		return true
	}
	failed := writeFailed(s.pools.Receive, "", err)
	return errors.Is(failed, driver.ErrBadRow) || errors.Is(failed, driver.ErrLockTimeout)
}

// insertNew runs the plain statement for the places of b. claimed holds the keys of the new events; nil
// stands for all. safe is false if the server could lose the claims: then nothing was written.
func (s *Store) insertNew(ctx context.Context, b *claimBatch) (claimed map[driver.Key]bool, leased *leases, safe bool, err error) {
	n := 0
	leased = &leases{}
	messages := b.messages()
	statement := s.statement(insertNewSQL)
	if len(messages.ids) > 0 {
		statement = s.statement(insertRoutedSQL)
	}
	encode := func(p *Parameters) { b.encode(p, messages) }
	err = s.binary.QueryBinary(ctx, statement, encode, func(values [][]byte) error {
		var err error
		if len(values) < 3 {
			return errBinary
		}
		if len(messages.ids) > 0 {
			if err := leased.decode(values); err != nil {
				return err
			}
		}
		if safe, err = decodeBool(values[0]); err != nil {
			return err
		}
		if n, err = decodeInt4(values[1]); err != nil || n == len(b.places) {
			return err
		}
		claimed = make(map[driver.Key]bool, n)
		return decodeByteaArray(values[2], func(key []byte) {
			if len(key) == len(driver.Key{}) {
				claimed[driver.Key(key)] = true
			}
		})
	})
	if err == nil && safe && claimed != nil && len(claimed) != n {
		err = errBinary
	}
	return claimed, leased, safe, err
}

// encode encodes the arguments of insertNewSQL or, if there are messages, of insertRoutedSQL.
func (b *claimBatch) encode(p *Parameters, messages *messageArgs) {
	n := len(b.places)
	const ofRow = 12*4 + 2 + 8 + 2*len(driver.Key{}) // lengths, work, time, key, hash
	size := 256 + 12*arrayHeader
	for _, place := range b.places {
		c := &b.Claims[place]
		size += ofRow + len(c.Source) + len(c.EventID) + len(c.Type) + len(c.Headers) + len(c.Body) + len(c.Remote) + len(c.Gateway)
	}
	p.reserve(size + messages.size())
	b.encodeSettings(p)
	column := func(oid int, nulls bool, element func(c *driver.Claim)) {
		p.array(oid, n, nulls)
		for _, place := range b.places {
			element(&b.Claims[place])
		}
		p.end()
	}
	column(oidBytea, false, func(c *driver.Claim) { p.byteaElement(c.Key[:]) })
	column(oidText, false, func(c *driver.Claim) { p.textElement(c.Source) })
	column(oidText, false, func(c *driver.Claim) { p.textElement(c.EventID) })
	column(oidText, false, func(c *driver.Claim) { p.textElement(c.Type) })
	column(oidTimestamptz, true, func(c *driver.Claim) { p.timeElement(storable(c.OccurredAt)) })
	column(oidBytea, false, func(c *driver.Claim) { p.byteaElement(c.Headers) })
	column(oidBytea, false, func(c *driver.Claim) { p.byteaElement(c.Body) })
	column(oidBytea, false, func(c *driver.Claim) { p.byteaElement(c.BodyHash[:]) })
	column(oidInt2, false, func(c *driver.Claim) { p.int2Element(int16(c.Work)) })
	column(oidText, false, func(c *driver.Claim) { p.textElement(c.Remote) })
	column(oidText, false, func(c *driver.Claim) { p.textElement(c.Gateway) })
	if len(messages.ids) > 0 {
		messages.encode(p)
	}
}

// encodeSettings encodes the arguments that all plain statements begin with.
func (b *claimBatch) encodeSettings(p *Parameters) {
	p.text(lockTimeout(b.plainLockWait()))
	p.bool(slices.Contains(b.AllowUnsafe, "fsync"))
	p.bool(slices.Contains(b.AllowUnsafe, "full_page_writes"))
	p.time(clock(b.Now))
}

// encodeOne encodes the arguments of insertOneSQL.
func (b *claimBatch) encodeOne(p *Parameters, c *driver.Claim) {
	const fixed = 64 + 2*len(driver.Key{}) // settings, times, work, key, hash
	p.reserve(fixed + len(c.Source) + len(c.EventID) + len(c.Type) + len(c.Headers) + len(c.Body) + len(c.Remote) + len(c.Gateway))
	b.encodeSettings(p)
	p.bytea(c.Key[:])
	p.text(c.Source)
	p.text(c.EventID)
	p.text(c.Type)
	p.time(storable(c.OccurredAt))
	p.bytea(c.Headers)
	p.bytea(c.Body)
	p.bytea(c.BodyHash[:])
	p.int2(int16(c.Work))
	p.text(c.Remote)
	p.text(c.Gateway)
}
